"""The files of a run: plain, written whole or not at all, and read back as they were."""

import csv
import json
from pathlib import Path

import pytest
import torch
from blob_images import fit
from safetensors import SafetensorError, safe_open
from torch import nn

from truesigma.imaging.data.dataset import DataSet
from truesigma.imaging.network import tensors as tensors_file
from truesigma.imaging.network.tensors import read_state, write_state
from truesigma.imaging.training.checkpoint import pack_optimizer, unpack_optimizer


def test_files_of_a_run_are_plain(data: DataSet, tmp_path: Path) -> None:
    trained = fit(data, out=tmp_path, record={"root": "somewhere"})
    for name in ("best.safetensors", "last.safetensors"):
        with safe_open(tmp_path / name, framework="pt") as file:
            json.loads(json.loads(file.metadata()["truesigma"])["values"])
    meta = json.loads((tmp_path / "recipe.json").read_text())
    assert meta["network"]["backbone"] == "small"
    assert meta["record"] == {"root": "somewhere"}
    with (tmp_path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["valid_mse"]) for row in rows] == [row["valid_mse"] for row in trained.history]
    assert list((tmp_path / "tensorboard").iterdir())
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors", ".json", ".csv", ""}


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.safetensors"
    write_state(path, {"a": torch.arange(6.0).reshape(2, 3).T}, {"epoch": 1})

    def fails(tensors: object, part: Path, metadata: object) -> None:
        part.write_bytes(b"half")
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(tensors_file, "save_file", fails)
    with pytest.raises(OSError, match=r"state.safetensors could not be written: No space left"):
        write_state(path, {"a": torch.zeros(1)}, {"epoch": 2})
    tensors, values = read_state(path)
    assert values == {"epoch": 1}
    assert torch.equal(tensors["a"], torch.arange(6.0).reshape(2, 3).T)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.safetensors"]
    path.write_bytes(b"not a state")
    with pytest.raises(ValueError, match=r"state\.safetensors"):
        read_state(path)


def test_optimiser_state_comes_back_in_the_layout_of_its_parameter() -> None:
    """Fused kernels on a GPU refuse moments whose strides are not the parameter's."""
    nets = [nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last) for _ in range(2)]
    adams = [torch.optim.Adam(net.parameters(), fused=True) for net in nets]
    nets[0](torch.rand(2, 3, 8, 8)).sum().backward()
    adams[0].step()
    stored = {name: value.contiguous() for name, value in pack_optimizer(nets[0], adams[0]).items()}
    unpack_optimizer(stored, nets[1], adams[1])
    first, second = (adam.state[net.weight] for adam, net in zip(adams, nets))
    assert second["exp_avg"].stride() == nets[1].weight.stride()
    assert all(torch.equal(first[key], second[key]) for key in ("exp_avg", "exp_avg_sq", "step"))
