"""What `truesigma init` and `run` make of a folder of images by default, against one page of plain PyTorch.

    own_images.py IMAGES TABLE --target COUNT --splits 3 --minutes 10 [--image COLUMN] [--patient COLUMN] [--points]

Both see the same cases of each split. The plain network is what a good engineer writes in an hour: images squeezed to
one size, five convolutions with batch norm, one-cycle Adam, mild augmentation; targets that are coordinates are learned
as shares of the sides and moved with the image. Its sigma is one number, fitted to its validation errors. It is trained
for 30 and for 60 epochs, and the better one on the test cases counts, which is more than it could know.
Printed for each split: RMSE, mean CRPS, what 90 % intervals hold, and CPU seconds of both.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from truesigma import metrics, read
from truesigma.core.values import Prediction
from truesigma.evaluation.card import read_card

EPOCHS = (30, 60)
SIZE = (96, 144)  # rows and columns that images are squeezed to
BATCH = 16


class Plain(nn.Module):
    """Five convolutions, each with batch norm and the largest of every 2 x 2 values, and two linear layers."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in (16, 32, 64, 64, 128):
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
            channels = width
        pooled = [nn.AdaptiveAvgPool2d((3, 4)), nn.Flatten(), nn.Linear(12 * channels, 64), nn.ReLU()]
        self.layers = nn.Sequential(*layers, *pooled, nn.Linear(64, outputs))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layers(x)
        return made


def varied(images: Tensor, target: Tensor, points: bool) -> tuple[Tensor, Tensor]:
    """Shift by up to 8 % of the sides, and the points with it; without points, mirror and turn by up to 20 degrees."""
    cases = len(images)
    theta = torch.eye(2, 3).repeat(cases, 1, 1)
    if points:
        shift = 0.16 * (torch.rand(cases, 2) - 0.5)
        theta[:, :, 2] = -2 * shift
        target = target + shift.repeat(1, target.shape[1] // 2)
    else:
        angle = np.pi / 9 * 2 * (torch.rand(cases) - 0.5)
        mirror = 2.0 * (torch.rand(cases, 2) < 0.5) - 1
        ratio = images.shape[-1] / images.shape[-2]
        theta[:, 0, :2] = torch.stack([angle.cos() * mirror[:, 0], -angle.sin() / ratio * mirror[:, 1]], 1)
        theta[:, 1, :2] = torch.stack([angle.sin() * ratio * mirror[:, 0], angle.cos() * mirror[:, 1]], 1)
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False), target


def train_plain(images: Tensor, target: Tensor, rows: Tensor, epochs: int, points: bool, seed: int) -> Tensor:
    """Train on some rows, and predict all."""
    torch.manual_seed(seed)
    mean, sd = target[rows].mean(0), target[rows].std(0)
    net = Plain(images.shape[1], target.shape[1])
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, 2e-3, total_steps=epochs * -(-len(rows) // BATCH))
    for _ in range(epochs):
        net.train()
        for batch in rows[torch.randperm(len(rows))].split(BATCH):
            if len(batch) > 1:  # batch norm has nothing to compare a single case with
                seen, wanted = varied(images[batch], target[batch], points)
                loss = functional.mse_loss(net(seen), (wanted - mean) / sd)
                adam.zero_grad()
                loss.backward()
            adam.step()
            rate.step()
    net.eval()
    with torch.no_grad():
        return torch.cat([net(some) for some in images.split(64)]) * sd + mean


def squeezed(folder: Path, names: list[str]) -> tuple[Tensor, NDArray[np.float64]]:
    """The images at one size, standardised, and the columns and rows they had."""
    found, sides = [], []
    for name in names:
        with Image.open(folder / name) as opened:
            sides.append(opened.size)
            grey = opened.mode in ("L", "1", "I", "I;16")
            small = opened.convert("L" if grey else "RGB").resize(SIZE[::-1], Image.Resampling.BILINEAR)
            pixels = np.asarray(small, np.float32)
        found.append(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
    images = torch.from_numpy(np.stack(found))
    return (images - images.mean()) / images.std(), np.array(sides, float)


def plain(folder: Path, cases: list[dict[str, str]], points: bool, seed: int) -> dict[str, float]:
    """Train the plain network on the cases of a run, and score it on its test cases."""
    began = time.process_time()
    images, sides = squeezed(folder, [case["id"] for case in cases])
    columns = [name for name in cases[0] if name.startswith("target")]
    truth = np.array([[float(case[name]) for name in columns] for case in cases])
    unit = np.tile(sides, (1, truth.shape[1] // 2)) if points else np.ones_like(truth)
    part = np.array([case["split"] for case in cases])
    train, test = (torch.tensor(np.flatnonzero(part == name)) for name in ("train", "test"))
    valid = np.flatnonzero(np.isin(part, ["valid", "calibration"]))
    target = torch.tensor(truth / unit, dtype=torch.float32)
    found = []
    for epochs in EPOCHS:
        guess = train_plain(images, target, train, epochs, points, seed).numpy() * unit
        variance = np.square(guess - truth)[valid].mean(0)
        spread = np.broadcast_to(variance, guess[test].shape)
        found.append(scored(Prediction(guess[test], aleatoric=spread), truth[test]))
    best = min(found, key=lambda one: one["rmse"])
    return {**best, "seconds": time.process_time() - began}


def scored(prediction: Prediction, truth: NDArray[np.float64]) -> dict[str, float]:
    """RMSE, mean CRPS and what 90 % intervals hold."""
    return {
        "rmse": float(np.sqrt(np.mean(np.square(np.asarray(prediction.location) - truth)))),
        "crps": float(metrics.crps.score(prediction, truth)),
        "holds": float(metrics.coverage.score(prediction, truth, level=0.9)),
    }


def by_default(given: argparse.Namespace, out: Path, seed: int) -> dict[str, float]:
    """Run `init` and `run` in processes of their own, and score what they wrote."""
    command = [sys.executable, "-m", "truesigma"]
    names = ["--target", given.target, "--unit", given.unit, "--minutes", str(given.minutes)]
    names += [
        word
        for key in ("image", "patient")
        if getattr(given, key)
        for word in (f"--{key}", getattr(given, key))
    ]
    names += [word for setting in (f"data.seed={seed}", *given.set) for word in ("--set", setting)]
    recipe = out.with_suffix(".toml")
    paths = ["--images", str(given.images), "--table", str(given.table), "-o", str(recipe), "--force"]
    began = children()
    subprocess.run([*command, "init", *paths, *names], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*command, "run", str(recipe), "-o", str(out)], check=True, stdout=subprocess.DEVNULL)
    seconds = children() - began
    test, card = read(out / "test.npz"), read_card(out / "card.json")
    if test.unit == "scaled":
        raise SystemExit("outputs have different units; give one --unit for all")
    raw = scored(test.prediction, test.target)
    return {**scored(card(test), test.target), "raw": raw["holds"], "seconds": seconds}


def children() -> float:
    """CPU seconds of finished child processes."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Compare on some splits, and print a row for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("images", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--unit", default="")
    parser.add_argument("--image")
    parser.add_argument("--patient")
    parser.add_argument(
        "--points", action="store_true", help="targets are x and y by turns, in pixels of the files"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="for init, as network.weights=FILE")
    parser.add_argument("--out", type=Path, help="keep the runs here")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    print("| split | way | RMSE | mean CRPS | 90 % hold | before recalibration | CPU s |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for seed in range(given.splits):
        folder = out / str(seed)
        mine = by_default(given, folder, seed)
        with open(folder / "cases.csv", encoding="utf-8") as file:
            cases = list(csv.DictReader(file))
        root = given.images if (given.images / cases[0]["id"]).exists() else given.table.parent
        theirs = plain(root, cases, given.points, seed)
        for way, row in (("default", mine), ("plain network", theirs)):
            raw = f"{row['raw']:.3f}" if "raw" in row else ""
            shown = (
                f"{row['rmse']:.4g} | {row['crps']:.4g} | {row['holds']:.3f} | {raw} | {row['seconds']:.0f}"
            )
            print(f"| {seed} | {way} | {shown} |", flush=True)
        rows.append((mine, theirs))
    for name in ("rmse", "crps"):
        ratio = np.mean([mine[name] for mine, _ in rows]) / np.mean([theirs[name] for _, theirs in rows])
        print(f"{name} of the default over the plain network's, by means of {len(rows)} splits: {ratio:.3f}")


if __name__ == "__main__":
    main()
