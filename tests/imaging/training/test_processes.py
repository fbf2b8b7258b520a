"""Two processes train as one does."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import blob_images
import pytest
import torch

from truesigma.imaging.network.tensors import read_state


@pytest.mark.slow
def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    """Without batch statistics and dropout, two processes with half batches give the gradients of one."""
    text = (
        "import json, os, sys, torch\n"
        f"sys.path.insert(0, {str(Path(blob_images.__file__).parent)!r})\n"
        "import blob_images as t\n"
        "torch.manual_seed(0)\n"
        "seen = []\n"
        "def note(images, target, generator):\n"
        "    seen.extend(target[:, 0].tolist())\n"
        "    return images, target\n"
        "nn = torch.nn\n"
        "net = t.Halves(nn.Sequential(nn.Flatten(), nn.Linear(256, 32), nn.Tanh(), nn.Linear(32, 3)))\n"
        "data = t.dataset(t.blobs(44, 1), t.blobs(25, 2), t.blobs(24, 3), note)\n"
        "recipe = t.TrainingRecipe(epochs=3, batch=8, learning_rate=3e-3)\n"
        "out, devices = sys.argv[1], int(sys.argv[2])\n"
        "trained = t.train(net, data, recipe, seed=1, out=out, device='cpu', devices=devices, quiet=True)\n"
        "rank = os.environ.get('LOCAL_RANK', '0')\n"
        "json.dump(seen, open(f'{out}/seen{rank}.json', 'w'))\n"
    )
    path = tmp_path / "two.py"
    path.write_text(text)
    for devices in (1, 2):
        done = subprocess.run(
            [sys.executable, str(path), str(tmp_path / str(devices)), str(devices)], env=os.environ
        )
        assert done.returncode == 0
    one, two = (read_state(tmp_path / str(n) / "last.safetensors") for n in (1, 2))
    for name, value in one[0].items():
        torch.testing.assert_close(two[0][name], value, rtol=1e-3, atol=1e-5)
    for a, b in zip(one[1]["rows"], two[1]["rows"]):
        for column in ("train_loss", "train_mse", "valid_mse", "valid_factor", "test_variance"):
            assert b[column] == pytest.approx(a[column], rel=1e-3)
    seen = [json.loads((tmp_path / "2" / f"seen{rank}.json").read_text()) for rank in (0, 1)]
    for epoch in range(3):
        first, second = (set(part[22 * epoch : 22 * epoch + 22]) for part in seen)
        assert len(first) == len(second) == 22
        assert not first & second
    with (tmp_path / "2" / "history.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3
