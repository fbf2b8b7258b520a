"""Commands that are killed: what they need, what is typed, and which of their files hold times."""

import csv
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TIMES = {"seconds", "train_seconds", "date", "content_sha256", "sha256", "files", "hardware"}


@dataclass(frozen=True)
class Command:
    """A command line that writes into the folder `out`; `make` writes what it reads."""

    make: Callable[[Path], None]
    line: str

    @property
    def words(self) -> list[str]:
        return self.line.split()


def make_project(folder: Path) -> None:
    """A folder of small images with their recipe."""
    from project_files import call, make_images, tiny, write_table

    write_table(folder / "labels.csv", make_images(folder, 32))
    words = ["--images", folder / "scans", "--table", folder / "labels.csv", "--target", "age"]
    words += ["--set", "train.epochs=2"]
    assert call("--quiet", "init", *words, "--device", "cpu", "-o", folder / "recipe.toml") == 0
    tiny(folder / "recipe.toml")


def make_predictions(folder: Path) -> None:
    """Files of predictions, to be scored."""
    import truesigma as ts

    rng = np.random.default_rng(0)
    for name in ("c0", "c1", "t0", "t1", "t2"):
        location, variance = rng.normal(size=3000), rng.gamma(2.0, size=3000)
        ts.write(
            ts.Cases(ts.Prediction(location, aleatoric=variance), location + rng.normal(size=3000)),
            folder / f"{name}.npz",
        )


COMMANDS = {
    "run": Command(make_project, "run recipe.toml -o out --device cpu"),
    "evaluate": Command(
        make_predictions,
        "evaluate --calibration c0.npz c1.npz --test t0.npz t1.npz t2.npz --keep out/sums --json out/scores.json",
    ),
}


def contents(folder: Path) -> dict[str, Any]:
    """What a folder holds, by name, but for times and for TensorBoard's log of every start."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "tensorboard" not in path.parts:
            found[str(path.relative_to(folder))] = _timeless(path)
    return found


def _timeless(path: Path) -> Any:
    content = path.read_bytes()
    if path.suffix == ".json":
        return _without(json.loads(content))
    if path.name == "history.csv":
        return [_without(row) for row in csv.DictReader(io.StringIO(content.decode()))]
    if path.name == "last.safetensors":  # whose head holds the history, and a hash of it
        size = struct.unpack("<Q", content[:8])[0]
        head = json.loads(content[8 : 8 + size])
        values = json.loads(json.loads(head.pop("__metadata__")["truesigma"])["values"])
        return [_without(values), head, content[8 + size :]]
    return content


def _without(value: Any) -> Any:
    """Plain values without what holds a time, or a hash of one."""
    if isinstance(value, dict):
        return {key: _without(one) for key, one in value.items() if key not in TIMES}
    return [_without(one) for one in value] if isinstance(value, list) else value
