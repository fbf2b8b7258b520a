"""What `truesigma init` and `run` make of a folder of images by default, against one page of plain PyTorch.

    own_images.py IMAGES TABLE --target COUNT --only ours  --split 0 --out nuclei-0-ours.json  [--patient COLUMN]
    own_images.py IMAGES TABLE --target COUNT --only plain --split 0 --out nuclei-0-plain.json [--points]
    own_images.py --table *.json

Both see the same cases of each split, which is `data.seed` of the recipe. The plain network is what a good engineer
writes in an hour: images squeezed to one size, five convolutions with batch norm, one-cycle Adam, mild augmentation;
targets that are coordinates (`--points`) are learned as shares of the sides and moved with the image. It is trained for
30 and for 60 epochs, and the better one on the test cases counts, which is more than it could know. Against volumes
there is a forest instead, that of docs/scripts/measure_training.py. Both have one sigma for all cases, by their
validation errors. CPU seconds are those of the whole half, reading included.
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from truesigma import metrics, read
from truesigma.core.values import Prediction
from truesigma.evaluation.card import read_card
from truesigma.imaging.data.dataset import DataSet
from truesigma.project.project import read_project
from truesigma.project.work import open_work

EPOCHS = (30, 60)
SIZE = (96, 144)  # rows and columns that images are squeezed to
BATCH = 16
SURE = 2.576  # standard errors of an interval of 99 %


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


def plain(data: DataSet, folder: Path, points: bool, seed: int) -> dict[str, Any]:
    """Train the plain network on the cases of a split, and score it on its test cases."""
    parts = list(data.splits.values())
    truth = np.concatenate([data.in_unit(part.target).numpy() for part in parts]).astype(float)
    images, sides = squeezed(folder, [name for part in parts for name in part.name])
    ends = np.cumsum([0, *map(len, parts)])
    rows = {name: np.arange(a, b) for name, a, b in zip(data.splits, ends, ends[1:])}
    known = np.concatenate([rows[name] for name in ("valid", "calibration") if name in rows])
    unit = np.tile(sides, (1, truth.shape[1] // 2)) if points else np.ones_like(truth)
    target = torch.tensor(truth / unit, dtype=torch.float32)
    found = []
    for epochs in EPOCHS:
        guess = (
            train_plain(images, target, torch.from_numpy(rows["train"]), epochs, points, seed).numpy() * unit
        )
        made = one_sigma(guess[known], truth[known], guess[rows["test"]], truth[rows["test"]])
        found.append({**made, "way": f"the plain network, {epochs} epochs"})
    return min(found, key=lambda one: one["rmse"])


def forest(data: DataSet, seed: int) -> dict[str, Any]:
    """A forest on simple features of volumes, as docs/own-images.md has it."""
    from sklearn.ensemble import RandomForestRegressor

    file = Path(__file__).parents[1] / "docs" / "scripts" / "measure_training.py"
    spec = importlib.util.spec_from_file_location("measure_training", file)
    assert spec is not None
    assert spec.loader is not None
    measured = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measured)
    seen = {name: measured.simple_features(np.asarray(part.images)) for name, part in data.splits.items()}
    truth = {name: data.in_unit(part.target).numpy().astype(float) for name, part in data.splits.items()}
    model = RandomForestRegressor(500, min_samples_leaf=2, max_features=0.33, random_state=seed)
    model.fit(seen["train"], truth["train"][:, 0])
    guess = {name: model.predict(features)[:, None] for name, features in seen.items()}
    return {**one_sigma(guess["valid"], truth["valid"], guess["test"], truth["test"]), "way": "the forest"}


def one_sigma(known: Any, true: Any, guess: Any, truth: Any) -> dict[str, Any]:
    """Scores of test cases whose sigma is one for each output, by the errors of validation cases."""
    variance = np.square(known - true).mean(0)
    spread = Prediction(guess, aleatoric=np.broadcast_to(variance, guess.shape))
    return scored(spread, truth)


def scored(prediction: Prediction, truth: NDArray[np.float64]) -> dict[str, Any]:
    """RMSE, mean CRPS and what 90 % intervals hold."""
    return {
        "rmse": float(np.sqrt(np.mean(np.square(np.asarray(prediction.location) - truth)))),
        "crps": float(metrics.crps.score(prediction, truth)),
        "holds": float(metrics.coverage.score(prediction, truth, level=0.9)),
    }


def by_default(recipe: Path, out: Path) -> dict[str, Any]:
    """Run the recipe in a process of its own, and score what it wrote."""
    subprocess.run([sys.executable, "-m", "truesigma", "run", str(recipe), "-o", str(out)], check=True)
    test, card = read(out / "test.npz"), read_card(out / "card.json")
    if test.unit == "scaled":
        raise SystemExit("outputs have different units; give one --unit for all")
    chosen = json.loads((out / "run.json").read_text(encoding="utf-8"))
    settings = chosen["settings"]
    networks, epochs = settings["sample"]["members"], settings["train"]["epochs"]
    known = read(out / f"{read_project(recipe).calibrate.split}.npz")
    return {
        **scored(card(test), test.target),
        "error": float(np.hypot(held_error(card, test), held_error(card, known))),
        "raw": scored(test.prediction, test.target)["holds"],
        "way": f"`{chosen['plan']}`, {networks} of {epochs} epochs",
        "tried": chosen["tried"],
    }


def held_error(card: Any, cases: Any) -> float:
    """The standard error of what 90 % intervals hold, by patient: of test cases, or of those they were fitted to."""
    lower, upper = card(cases).interval(0.9)
    held = (
        ((lower <= cases.target) & (cases.target <= upper))
        .astype(float)
        .reshape(len(cases.target), -1)
        .mean(1)
    )
    whose = (
        np.arange(len(held)) if cases.patient is None else np.unique(cases.patient, return_inverse=True)[1]
    )
    apart = np.bincount(whose, held - held.mean())
    return float(np.sqrt(np.square(apart).sum()) / len(held))


def measured(given: argparse.Namespace, work: Path) -> dict[str, Any]:
    """One half of the comparison, for one split."""
    recipe = work / "recipe.toml"
    names = ["--target", given.target, "--unit", given.unit, "--minutes", str(given.minutes)]
    for key in ("image", "patient"):
        names += [f"--{key}", getattr(given, key)] if getattr(given, key) else []
    names += [word for setting in (f"data.seed={given.split}", *given.set) for word in ("--set", setting)]
    paths = ["--images", str(given.images), "--table", str(given.csv), "-o", str(recipe), "--force"]
    subprocess.run([sys.executable, "-m", "truesigma", "init", *paths, *names], check=True)
    if given.only == "ours":
        return by_default(recipe, work / "output")
    data = open_work(read_project(recipe), work / "output", "cpu").data
    if len(data.splits["train"].shape) == 4:
        return forest(data, given.split)
    return plain(data, given.images, given.points, given.split)


def table(files: Sequence[Path]) -> str:
    """The table of the docs: each set over its splits, ours over the plain network's."""
    halves: dict[tuple[str, int], dict[str, Any]] = {}
    for file in files:
        row = json.loads(file.read_text(encoding="utf-8"))
        halves.setdefault((row["set"], row["split"]), {})[row["only"]] = row
    pairs = {key: pair for key, pair in sorted(halves.items()) if len(pair) == 2}
    lines = [
        "| set | split | plan | RMSE | over plain | CRPS | over plain | 90 % hold | before | CPU s | plain's |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in dict.fromkeys(name for name, _ in pairs):
        rows = [(split, pair) for (one, split), pair in pairs.items() if one == name]
        for split, pair in rows:
            lines.append(f"| {name} | {split} | {pair['ours']['way']} | {_cells([pair])} |")
        lines.append(f"| {name} | mean |  | {_cells([pair for _, pair in rows])} |")
    lines.append(f"| all | mean |  | {_cells([*pairs.values()], shown=False)} |")
    return "\n".join(lines)


def _cells(pairs: Sequence[dict[str, Any]], shown: bool = True) -> str:
    """Means over splits; ratios of single splits are averaged, as is their coverage."""

    def mean(half: str, key: str) -> float:
        return float(np.mean([pair[half][key] for pair in pairs]))

    def over(key: str) -> float:
        return float(np.mean([pair["ours"][key] / pair["plain"][key] for pair in pairs]))

    error = float(np.sqrt(np.mean([pair["ours"]["error"] ** 2 for pair in pairs]) / len(pairs)))
    holds = mean("ours", "holds")
    rmse, crps = (f"{mean('ours', key):.4g}" if shown else "" for key in ("rmse", "crps"))
    between = f"{100 * holds:.1f} % ({100 * (holds - SURE * error):.0f} to {100 * min(1, holds + SURE * error):.0f})"
    raw, seconds, theirs = 100 * mean("ours", "raw"), mean("ours", "seconds"), mean("plain", "seconds")
    return (
        f"{rmse} | {over('rmse'):.2f} | {crps} | {over('crps'):.2f} | {between} | {raw:.0f} % | {seconds:.0f} | "
        f"{theirs:.0f}"
    )


def cpu_seconds() -> float:
    """CPU seconds of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Measure one half of one split, or print the table of what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("images", type=Path, nargs="?")
    parser.add_argument("csv", type=Path, nargs="?")
    parser.add_argument("--table", type=Path, nargs="+", help="files that --out wrote")
    parser.add_argument("--only", choices=["ours", "plain"])
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--target")
    parser.add_argument("--unit", default="")
    parser.add_argument("--image")
    parser.add_argument("--patient")
    parser.add_argument(
        "--points", action="store_true", help="targets are x and y by turns, in pixels of the files"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--set", action="append", default=[], help="for init, as network.weights=FILE")
    given = parser.parse_args()
    if given.table:
        print(table(given.table))
        return
    if not (given.images and given.csv and given.only and given.out and given.target):
        parser.error("expected IMAGES, TABLE, --target, --only and --out; or --table FILES")
    with tempfile.TemporaryDirectory() as work:
        made = measured(given, Path(work))
    made |= {"set": given.out.name.partition("-")[0], "split": given.split, "only": given.only}
    made |= {"seconds": cpu_seconds(), "minutes": given.minutes}
    given.out.write_text(json.dumps(made, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
