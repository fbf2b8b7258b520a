"""Damaged weights are put back, or trained again; they are never resumed from, and never predicted with."""

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from blob_images import equal, fit, weights
from safetensors.torch import save_file

from truesigma.files.disk import BadFile, locked
from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.network.tensors import read_state, read_tensors, write_state
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.folder import load_run

LAST = TrainingRecipe(epochs=3, batch=8, keep="last")
PLAIN = "small:design=plain"
FIRST = TrainingRecipe(epochs=3, batch=8, learning_rate=0.3)  # so fast that the first epoch stays the best


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    tensors = {"a": torch.arange(6.0).bfloat16(), "b": torch.tensor(3), "c": torch.zeros(0, 2)}
    write_state(path, tensors, {"epoch": 1, "value": 0.1})
    found, values = read_state(path)
    assert equal(found, tensors)
    assert values == {"epoch": 1, "value": 0.1}
    whole = path.read_bytes()
    write_state(path, tensors, {"epoch": 1, "value": 0.1})
    assert path.read_bytes() == whole  # the same bytes, so that a run that was stopped ends in the same files
    for place in range(len(whole)):
        path.write_bytes(whole)
        flip(path, place)
        with pytest.raises(BadFile, match=r"state\.safetensors"):
            read_state(path)


def test_files_from_elsewhere_and_of_earlier_versions_have_no_hash(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "other.safetensors")
    assert torch.equal(read_tensors(tmp_path / "other.safetensors")[0]["a"], torch.ones(2))
    with pytest.raises(BadFile, match="not a training state of ours"):
        read_state(tmp_path / "other.safetensors")
    save_file({"a": torch.ones(2)}, tmp_path / "old.safetensors", metadata={"state": '{"epoch": 4}'})
    assert read_state(tmp_path / "old.safetensors")[1] == {"epoch": 4}


def test_best_weights_of_the_last_epoch_are_put_back(data: DataSet, tmp_path: Path) -> None:
    fit(data, LAST, out=tmp_path)
    best = tmp_path / "best.safetensors"
    whole = best.read_bytes()
    flip(best, -5)
    with pytest.raises(BadFile, match=r"best\.safetensors is damaged"):
        load_run(tmp_path)
    with pytest.warns(UserWarning, match=r"best\.safetensors is damaged.*put back from last\.safetensors"):
        fit(data, LAST, out=tmp_path)
    assert best.read_bytes() == whole
    best.unlink()
    with pytest.warns(UserWarning, match="no file.*best.*put back"):
        fit(data, LAST, out=tmp_path)
    assert best.read_bytes() == whole


def test_best_weights_of_an_earlier_epoch_are_trained_again(data: DataSet, tmp_path: Path) -> None:
    before = fit(data, FIRST, out=tmp_path, backbone=PLAIN)
    assert before.best_epoch < 3
    whole = (tmp_path / "best.safetensors").read_bytes()
    flip(tmp_path / "best.safetensors", -5)
    with pytest.warns(UserWarning, match=r"best\.safetensors is damaged.*starts again"):
        after = fit(data, FIRST, out=tmp_path, backbone=PLAIN)
    assert equal(weights(after), weights(before))
    assert (tmp_path / "best.safetensors").read_bytes() == whole


def test_best_weights_of_another_training_are_refused(data: DataSet, tmp_path: Path) -> None:
    """Whole in themselves, and so a network that the history beside them knows nothing of."""
    recipes = [TrainingRecipe(epochs=2, batch=8, learning_rate=rate) for rate in (1e-3, 2e-3)]
    for name, recipe in zip("ab", recipes):
        fit(data, recipe, out=tmp_path / name, backbone=PLAIN)
    shutil.copy(tmp_path / "b" / "best.safetensors", tmp_path / "a")
    with pytest.raises(ValueError, match=r"a/best\.safetensors is of another training: it says"):
        fit(data, recipes[0], out=tmp_path / "a", backbone=PLAIN)


def test_a_damaged_checkpoint_is_not_resumed_from(data: DataSet, tmp_path: Path) -> None:
    whole = fit(data, LAST)
    fit(data, LAST, out=tmp_path, time_limit=0.0)
    flip(tmp_path / "last.safetensors", -5)
    with pytest.warns(UserWarning, match=r"last\.safetensors is damaged.*starts again"):
        after = fit(data, LAST, out=tmp_path)
    assert equal(weights(after), weights(whole))
    # The result of a finished run is not thrown away for a checkpoint that nobody needs.
    flip(tmp_path / "last.safetensors", -5)
    with pytest.raises(BadFile, match=r"last\.safetensors is damaged.*best\.safetensors is whole"):
        fit(data, LAST, out=tmp_path)
    assert equal(load_run(tmp_path)[0].state_dict(), weights(whole))


def test_one_training_at_a_time(data: DataSet, tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(ValueError, match="another run is working in"):
        fit(data, LAST, out=tmp_path)
    assert not list(tmp_path.iterdir())
    fit(data, LAST, out=tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = f"""
        import os
        from pathlib import Path
        from truesigma.files.disk import locked
        with locked(Path({str(tmp_path)!r})):
            os._exit(0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    assert (tmp_path / ".lock").exists()
    with locked(tmp_path):
        pass
    assert not (tmp_path / ".lock").exists()


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("data", "unit", [[1]]), ("data", "unit", [-1, "mm"]), ("record", "options", {"image": None}),
        ("record", "options", {"spacing": []}),
    ],
)  # fmt: skip
def test_a_strangers_description_is_refused_by_name(
    data: DataSet, tmp_path: Path, place: str, key: str, value: object
) -> None:
    fit(data, TrainingRecipe(epochs=1, batch=8), backbone=PLAIN, out=tmp_path)
    about = json.loads((tmp_path / "recipe.json").read_text())
    del about["content_sha256"]
    about[place][key] = value
    (tmp_path / "recipe.json").write_text(json.dumps(about))
    with pytest.raises(BadFile, match=rf"recipe\.json: {place}\.(unit|options)"):
        load_run(tmp_path)
