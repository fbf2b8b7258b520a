"""Damaged weights are put back, or trained again; they are never resumed from, and never predicted with."""

import json
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
FIRST = TrainingRecipe(epochs=3, batch=8, learning_rate=0.05, smoothing=0.0)  # the first epoch is the best


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


def test_files_from_elsewhere_have_no_hash(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "other.safetensors")
    assert torch.equal(read_tensors(tmp_path / "other.safetensors")[0]["a"], torch.ones(2))
    with pytest.raises(BadFile, match="not a training state that"):
        read_state(tmp_path / "other.safetensors")


@pytest.mark.parametrize("recipe", [LAST, FIRST])
def test_lost_or_damaged_best_weights_are_put_back(
    data: DataSet, tmp_path: Path, recipe: TrainingRecipe
) -> None:
    """Of the last epoch or of an earlier one; those of another training are no less wrong."""
    whole = fit(data, recipe, out=tmp_path)
    best = tmp_path / "best.safetensors"
    content = best.read_bytes()
    flip(best, -5)
    with pytest.raises(BadFile, match=r"best\.safetensors is damaged"):
        load_run(tmp_path)
    with pytest.warns(UserWarning, match=r"best\.safetensors is damaged.*put back from last\.safetensors"):
        fit(data, recipe, out=tmp_path)
    assert best.read_bytes() == content
    best.unlink()
    with pytest.warns(UserWarning, match="no file.*best.*put back"):
        fit(data, recipe, out=tmp_path)
    assert best.read_bytes() == content
    write_state(
        best, {name: 2 * value for name, value in weights(whole).items()}, {"epoch": whole.best_epoch}
    )
    fit(data, recipe, out=tmp_path)
    assert best.read_bytes() == content


def test_a_damaged_checkpoint_is_not_resumed_from(data: DataSet, tmp_path: Path) -> None:
    """Nor is what it stands beside thrown away: best.safetensors can still be predicted with."""
    whole = fit(data, LAST, out=tmp_path)
    flip(tmp_path / "last.safetensors", -5)
    with pytest.raises(BadFile, match=r"last\.safetensors is damaged.*resume=False"):
        fit(data, LAST, out=tmp_path)
    assert equal(load_run(tmp_path)[0].state_dict(), weights(whole))
    assert equal(weights(fit(data, LAST, out=tmp_path, resume=False)), weights(whole))


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
    fit(data, TrainingRecipe(epochs=1, batch=8), out=tmp_path)
    about = json.loads((tmp_path / "recipe.json").read_text())
    del about["content_sha256"]
    about[place][key] = value
    (tmp_path / "recipe.json").write_text(json.dumps(about))
    with pytest.raises(BadFile, match=rf"recipe\.json: {place}\.(unit|options)"):
        load_run(tmp_path)
