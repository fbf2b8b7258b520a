"""A run that was stopped or killed goes on bit for bit, and never with other choices."""

import os
import warnings
from pathlib import Path

import pytest
import torch
from blob_images import blobs, dataset, equal, fit, numbers, shaken, weights
from torch import Tensor

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.network.tensors import read_state
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.folder import load_run
from truesigma.imaging.training.loop import train


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_resume_after_a_break_in_an_epoch_is_bit_identical(
    data: DataSet, tmp_path: Path, optimizer: str
) -> None:
    recipe = TrainingRecipe(
        epochs=4, batch=8, learning_rate=3e-3, patience=0, optimizer=optimizer, momentum=0.9
    )
    whole = fit(data, recipe, out=tmp_path / "whole")
    calls = 0

    def breaks(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        nonlocal calls
        calls += 1
        if calls == 2 * 6 + 3:  # six batches an epoch: the third batch of the third epoch
            raise KeyboardInterrupt
        return shaken(images, target, generator)

    with pytest.raises(KeyboardInterrupt):
        fit(dataset(*data.splits.values(), breaks), recipe, out=tmp_path / "broken")
    assert read_state(tmp_path / "broken" / "last.safetensors")[1]["epoch"] == 2
    # the network given to the resumed call may hold anything
    net = build("small", 1, 2, recipe, seed=99)
    again = train(net, data, recipe, seed=1, out=tmp_path / "broken", device="cpu", quiet=True)
    assert equal(weights(again), weights(whole))
    assert numbers(again) == numbers(whole)
    for name in ("last.safetensors", "best.safetensors"):
        a, b = (read_state(tmp_path / folder / name)[0] for folder in ("whole", "broken"))
        assert equal(a, b)


def test_time_limit_stops_and_the_same_call_goes_on(data: DataSet, tmp_path: Path) -> None:
    whole = fit(data)
    part = fit(data, out=tmp_path, time_limit=0.0)
    assert not part.finished
    assert len(part.history) == 1
    while not part.finished:
        part = fit(data, out=tmp_path, time_limit=0.0)
    assert equal(weights(part), weights(whole))
    assert numbers(part) == numbers(whole)
    done = fit(data, out=tmp_path)  # a finished run only loads
    assert done.finished
    assert equal(weights(done), weights(whole))


@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_kill_while_a_checkpoint_is_written_costs_one_epoch_at_most(
    data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """The kept epoch is never one that the history does not have, also where the next call ends soon."""
    recipe = TrainingRecipe(epochs=3, batch=8, keep="last")  # better in every epoch: two files each
    whole = fit(data, recipe)
    swap, swaps = os.replace, 0

    def killed(source: Path, target: Path) -> None:
        nonlocal swaps
        if Path(target).suffix == ".safetensors":
            swaps += 1
            if swaps == moment:
                raise KeyboardInterrupt
        swap(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(data, recipe, out=tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # after the first epoch there is no best.safetensors yet
        part = fit(data, recipe, out=tmp_path, time_limit=0.0)
    assert part.best_epoch == len(part.history) == moment // 2 + 1
    assert read_state(tmp_path / "best.safetensors")[1]["epoch"] == part.best_epoch
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "best.safetensors",
        "last.safetensors",
    ]
    assert equal(weights(fit(data, recipe, out=tmp_path)), weights(whole))


def test_the_kept_weights_of_an_earlier_epoch_are_in_the_checkpoint(data: DataSet, tmp_path: Path) -> None:
    # A rate at which the first epoch is the best.
    first = TrainingRecipe(epochs=4, batch=8, learning_rate=0.05, smoothing=0.0)
    whole = fit(data, first, out=tmp_path, time_limit=0.0)
    while not whole.finished:
        whole = fit(data, first, out=tmp_path, time_limit=0.0)
    assert whole.best_epoch < 4
    assert equal(weights(whole), weights(fit(data, first)))
    assert equal(read_state(tmp_path / "best.safetensors")[0], weights(whole))


def test_a_run_with_other_choices_is_not_continued(data: DataSet, tmp_path: Path) -> None:
    fit(data, out=tmp_path)
    longer = TrainingRecipe(epochs=5, batch=8, learning_rate=3e-3, patience=1, stage_dropout=0.1)
    assert len(fit(data, longer, out=tmp_path).history) == 5
    with pytest.raises(ValueError, match=r"train\.batch"):
        fit(
            data,
            TrainingRecipe(epochs=5, batch=4, learning_rate=3e-3, patience=1, stage_dropout=0.1),
            out=tmp_path,
        )
    with pytest.raises(ValueError, match="likelihood"):
        fit(data, longer, out=tmp_path, likelihood="laplace")
    with pytest.raises(ValueError, match=r"data\.cases"):
        fit(dataset(blobs(40, 1), blobs(24, 2), None), longer, out=tmp_path)
    with pytest.raises(ValueError, match="with other cases or targets"):
        fit(dataset(blobs(44, 9), *list(data.splits.values())[1:]), longer, out=tmp_path)
    assert load_run(tmp_path)[1]["recipe"]["train"]["epochs"] == 5
    anew = fit(data, TrainingRecipe(epochs=1, batch=4), out=tmp_path, resume=False)
    assert len(anew.history) == 1
