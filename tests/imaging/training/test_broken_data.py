"""Data that is not finite is named, and costs no finished work."""

from pathlib import Path

import pytest
import torch
from blob_images import SIDE, Halves, blobs, dataset, equal, fit, same
from torch import Tensor, nn

from truesigma.imaging.data.dataset import Split
from truesigma.imaging.network.tensors import read_state
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.loop import NonFinite, train


class TestBrokenData:
    def test_an_image_that_is_not_finite_is_named_and_the_last_state_kept(self, tmp_path: Path) -> None:
        split = blobs(20, 1)
        images = split.images.float()
        broken = Split(images.index_fill(0, torch.tensor(13), torch.nan), split.target, split.name)
        recipe = TrainingRecipe(epochs=2, batch=4)
        good = dataset(Split(images, split.target, split.name), blobs(8, 2), None, same)
        fit(good, TrainingRecipe(epochs=1, batch=4), out=tmp_path)
        before = read_state(tmp_path / "last.safetensors")
        with pytest.raises(NonFinite, match=r"Not finite in the data: case13.png") as caught:
            fit(dataset(broken, blobs(8, 2), None, same), recipe, out=tmp_path)
        assert str(caught.value).count(".png") == 4 + 1  # the four cases of the batch, and the cause
        after = read_state(tmp_path / "last.safetensors")
        assert equal(before[0], after[0])
        assert before[1] == after[1]

    def test_on_the_processor_the_weights_are_not_touched_by_it(self) -> None:
        split = blobs(8, 1)
        images = split.images.float().index_fill(0, torch.tensor(3), torch.nan)
        net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3))
        two = Halves(net)
        before = {name: value.clone() for name, value in two.state_dict().items()}
        broken = dataset(Split(images, split.target, split.name), blobs(8, 2), None, same)
        with pytest.raises(NonFinite, match=r"case3\.png"):
            train(two, broken, TrainingRecipe(epochs=1, batch=8), seed=0, device="cpu", quiet=True)
        assert equal(before, two.state_dict())

    def test_a_case_without_target_is_named_before_anything_runs(self) -> None:
        split = blobs(8, 1)
        bare = Split(split.images, split.target.index_fill(0, torch.tensor(5), torch.nan), split.name)
        with pytest.raises(ValueError, match=r"case5\.png"):
            fit(dataset(bare, blobs(8, 2), None))
        with pytest.raises(ValueError, match="'valid'"):
            fit(dataset(split, bare, None))

    def test_a_validation_image_that_is_not_finite_is_named(self) -> None:
        split = blobs(8, 2)
        images = split.images.float().index_fill(0, torch.tensor(2), torch.inf)
        with pytest.raises(NonFinite, match=r"case2\.png"):
            fit(dataset(blobs(8, 1), Split(images, split.target, split.name), None))

    @pytest.mark.parametrize("factor", [1e9, 1e-9, 0.0])
    def test_targets_far_from_the_usual_scale_are_warned_of(self, factor: float) -> None:
        split = blobs(8, 1)
        scaled = torch.stack([split.target[:, 0], factor * split.target[:, 1]], 1)
        with pytest.warns(UserWarning, match=r"targets of output 1 lie between .* scale them") as caught:
            fit(
                dataset(Split(split.images, scaled, split.name), blobs(8, 2), None),
                TrainingRecipe(epochs=1, batch=8),
            )
        assert not [w for w in caught if "output 0" in str(w.message)]

    def test_a_state_that_is_more_than_tensors_is_refused(self) -> None:
        class Noted(nn.Linear):
            def get_extra_state(self) -> dict[str, int]:
                return {"version": 1}

        with pytest.raises(ValueError, match=r"inner\._extra_state, which is not a tensor"):
            train(
                Halves(Noted(1, 1)),
                dataset(blobs(8, 1), blobs(8, 2), None),
                TrainingRecipe(),
                seed=0,
                device="cpu",
            )

    def test_what_is_no_pair_of_tensors_is_named(self) -> None:
        class Named(nn.Linear):
            def forward(self, x: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
                return {"mean": x, "log_variance": x}

        with pytest.raises(ValueError, match="a dict with 'mean', 'log_variance'; expected two tensors"):
            train(
                Named(1, 1),
                dataset(blobs(8, 1), blobs(8, 2), None),
                TrainingRecipe(),
                seed=0,
                device="cpu",
                quiet=True,
            )


def test_a_network_for_volumes_refuses_pictures_before_it_trains(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not take images of 1 x \d+ x \d+"):
        fit(dataset(blobs(8, 1), blobs(8, 2), None), backbone="small3d", out=tmp_path)
    assert not list(tmp_path.iterdir())
