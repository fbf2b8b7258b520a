"""Folders of small images with their tables, for the tests of projects."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image
from tiny_backbone import trusted

from truesigma.cli import main


def make_images(folder, cases=48, *, side=32, seed=0, ending=".png"):
    """Grey images whose brightness is the target, with noise; two of each patient. Returns the rows of the table."""
    rng = np.random.default_rng(seed)
    (folder / "scans").mkdir(parents=True)
    rows = []
    for k in range(cases):
        level = grey_image(folder / "scans" / f"s{k:03d}{ending}", rng, side)
        row = {"id": f"s{k:03d}", "age": f"{level + rng.normal(0, 5):.2f}", "patient": f"p{k // 2}"}
        rows.append({**row, "site": "AB"[k % 2]})
    return rows


def grey_image(path, rng, side=32):
    """Save a grey image with noise, and return its brightness."""
    level = rng.uniform(40, 200)
    pixels = np.clip(level + rng.normal(0, 20, (side, side)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return level


def noise_images(folder, rows, shape=(32, 32), seed=0):
    """Save an image of noise for every row of a table, and the table as `table.csv`."""
    rng = np.random.default_rng(seed)
    for row in rows:
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(folder / row["image"])
    write_table(folder / "table.csv", rows)
    return folder


def asked(folder="."):
    """What `init` is told of such a folder and its table."""
    images, table = (Path(folder, name).as_posix() for name in ("scans", "labels.csv"))
    return ["--images", images, "--table", table, "--target", "age"]


def write_table(path, rows, delimiter=","):
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        table.writeheader()
        table.writerows(rows)
    return path


def change(path, changes):
    """Replace text in a recipe, which must be there."""
    text = path.read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


def short(path):
    """Make a recipe short enough for a test."""
    change(path, {"draws = 25": "draws = 3", "figures = true": "figures = false"})


def tiny(path):
    """Make a recipe short, and its network small enough, for a test of what happens around it."""
    short(path)
    backbone = Path(__file__).with_name("tiny_backbone.py").as_posix()
    path.write_text(path.read_text().replace('backbone = "small"', f'backbone = "{backbone}"'))


def call(*words):
    """The program with these words; its exit code."""
    try:
        main(trusted(words))
    except SystemExit as stopped:
        return stopped.code or 0
    return 0


def marks(folder):
    """Bytes of every result that does not hold a time."""
    names = [
        "valid.npz", "test.npz", "predictions.csv", "scores.csv", "report.html", "runs/0/best.safetensors",
    ]  # fmt: skip
    return {name: (folder / name).read_bytes() for name in names}
