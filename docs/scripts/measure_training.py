"""How well the default trains: losses, today's default beside version 0.1's, a network on squared errors, a forest.

    python docs/scripts/measure_training.py measure --data DIR -o assets/training.jsonl
    PYTHONPATH=SRC_OF_0.1 python docs/scripts/measure_training.py measure --ways before --data DIR -o ...
    python docs/scripts/measure_training.py table

DIR holds nuclei-384.zip and hippocampus/ as in `TRUESIGMA_DATA`. Each seed has a simulation or a split of its own, that
all ways share. A line of JSON for each set, way and seed goes to the file as it is done, so that a stopped run is
resumed. `before` is the default of 0.1 and wants its code; the others are recipe `own`, with its loss or another.
Hippocampus volumes are 8 bits, by the range of each, since 0.1 refuses a mix of 8 and more bits; it squeezes them to 32
voxels a side, today they are resampled to 1.5 mm and padded.
"""

import argparse
import csv
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from truesigma import Prediction
from truesigma.metrics import coverage, crps, rmse
from truesigma.recalibrate import sigma

RESULTS = Path(__file__).parents[1] / "assets" / "training.jsonl"
SETS = ("simulated", "nuclei", "hippocampus")
LOSSES = ("nll", "beta_nll", "faithful", "mse")
WAYS = ("before", *LOSSES, "forest")
SEEDS = range(10)
EPOCHS = 50
BEFORE = {"simulated": 100, "nuclei": 200, "hippocampus": 200}  # epochs that `init` of 0.1 proposes
SHARED = {"csv": "table.csv", "image": "image", "split": "", "group": "", "valid": 0.2, "test": 0.2}
OPTIONS = {  # of the data sets, before and now, as `init` proposes them
    "simulated": ({"cases": 2600, "train": 400, "valid": 600}, {"cases": 2600, "train": 400, "valid": 600}),
    "nuclei": (
        {**SHARED, "target": "count", "size": 256},
        {**SHARED, "target": "count", "size": 128, "turn": True, "intensity": 0.1},
    ),
    "hippocampus": (
        {**SHARED, "target": "volume_mm3", "size": 32, "image": "whole"},
        {**SHARED, "target": "volume_mm3", "image": "scaled", "normalise": "image", "flip": True}
        | {"rotate": 10.0, "shift": 2, "intensity": 0.1},
    ),
}


def unpack(data: Path, work: Path) -> None:
    """Lay the sets out as folders with a table, once."""
    from truesigma.imaging.datasets.simulated import simulate

    for seed in SEEDS:
        if not (work / f"simulated-{seed}" / "projections.npz").exists():
            simulate(str(work / f"simulated-{seed}"), cases=2600, raw=0, seed=seed)
    if not (work / "nuclei" / "table.csv").exists():
        zipfile.ZipFile(data / "nuclei-384.zip").extractall(work / "nuclei")
    if not (work / "hippocampus" / "table.csv").exists():
        _volumes(data / "hippocampus", work / "hippocampus")


def _volumes(source: Path, folder: Path) -> None:
    """Volumes as .npy of 8 bits: as they are, and resampled from 1 to 1.5 mm and padded to one shape."""
    from truesigma.files.images import read_image
    from truesigma.imaging.data.prepare import resampled

    rows = list(csv.DictReader((source / "table.csv").open()))
    for row in rows:
        name = Path(row["image"]).name.removesuffix(".nii.gz")
        values = np.asarray(read_image(source / row["image"], dimensions=3), np.float32)
        whole = np.rint(255 * values / values.max()).astype(np.uint8)
        row |= {"whole": f"whole/{name}.npy", "scaled": f"scaled/{name}.npy"}
        for kind, made in (
            ("whole", whole),
            ("scaled", resampled(whole, (1.0,) * 3, (1.5,) * 3, (28, 38, 30))),
        ):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            np.save(folder / kind / f"{name}.npy", made)
    with (folder / "table.csv").open("w", newline="") as file:
        written = csv.DictWriter(file, list(rows[0]))
        written.writeheader()
        written.writerows(rows)


def source_of(work: Path, name: str, way: str, seed: int, options: dict[str, str]) -> Any:
    """The data set as this way reads it; the seed is that of the simulation or of the split."""
    from truesigma.imaging import Source

    options = {**OPTIONS[name][way != "before"], "seed": seed, **options}
    if name == "simulated":
        return Source("simulated", str(work / f"simulated-{seed}"), options)
    return Source("table", str(work / name), options)


def network(
    data: Any, name: str, way: str, seed: int, epochs: int, device: str, other: dict[str, float]
) -> dict[str, Any]:
    """Train one network, scale its sigma on the validation cases, and score the test cases, of scaled targets."""
    from truesigma.imaging import build, load_recipe, predict_split, train

    if way == "before":
        recipe = load_recipe(
            "exact", epochs=epochs or BEFORE[name], stage_dropout=0.0, head_dropout={"other": 0.1}
        )
    else:
        recipe = load_recipe("own", epochs=epochs or EPOCHS, loss=way, **other)
    backbone = "small3d" if name == "hippocampus" else "small"
    variances = "each" if data.outputs > 1 else "one"
    net = build(backbone, data.channels, data.outputs, recipe, variances=variances, seed=seed)
    began = time.monotonic()
    trained = train(net, data, recipe, seed=seed, device=device, quiet=True)
    seconds = time.monotonic() - began
    valid, test = (predict_split(trained.net, data, split, scaled=True) for split in ("valid", "test"))
    told = {"epochs": len(trained.history), "kept": trained.best_epoch, "seconds": seconds}
    return {**told, **scores(valid.prediction, valid.target, test.prediction, test.target)}


def scores(valid: Prediction, known: Any, test: Prediction, target: Any) -> dict[str, float]:
    """Scores of the test cases after sigma scaling on the validation cases, and those before it."""
    known, target = np.asarray(known), np.asarray(target)
    scaled = sigma.fit(valid, known)(test)
    constant = float(np.mean((target - known.mean(0)) ** 2))
    error = float(rmse.score(test, target))
    return {
        "rmse": error,
        "skill": 1 - error**2 / constant,
        "coverage": float(coverage.score(scaled, target, level=0.9)),
        "raw_coverage": float(coverage.score(test, target, level=0.9)),
        "crps": float(crps.score(scaled, target)),
    }


def forest(data: Any, seed: int) -> dict[str, Any]:
    """A forest of scikit-learn on simple features; the spread of its trees is the sigma that is scaled."""
    from sklearn.ensemble import RandomForestRegressor

    began = time.monotonic()
    features = {
        split: simple_features(np.asarray(data.splits[split].images)) for split in ("train", "valid", "test")
    }
    targets = {split: np.asarray(data.splits[split].target, np.float64) for split in features}
    one = targets["train"].shape[1] == 1
    model = RandomForestRegressor(500, min_samples_leaf=2, max_features=0.33, n_jobs=2, random_state=seed)
    model.fit(features["train"], targets["train"][:, 0] if one else targets["train"])
    seconds = time.monotonic() - began

    def predict(split: str) -> Prediction:
        trees = np.stack([tree.predict(features[split]) for tree in model.estimators_])
        trees = trees[..., None] if one else trees
        return Prediction(trees.mean(0), trees.var(0) + 1e-6)

    made = scores(predict("valid"), targets["valid"], predict("test"), targets["test"])
    return {"epochs": 0, "kept": 0, "seconds": seconds, **made}


def simple_features(images: np.ndarray) -> np.ndarray:
    """Moments and quantiles of each channel, its edges, and means over a grid of cells, (case, feature)."""
    values = images.astype(np.float32)
    space = tuple(range(2, values.ndim))
    flat = values.reshape(*values.shape[:2], -1)
    parts = [flat.mean(2), flat.std(2), *np.quantile(flat, [0.05, 0.25, 0.5, 0.75, 0.95], axis=2)]
    parts += [np.abs(np.diff(values, axis=axis)).mean(space) for axis in space]
    parts.append((flat > flat.mean(2, keepdims=True) + flat.std(2, keepdims=True)).mean(2))
    cells = 8 if len(space) == 2 else 4
    for axis in space:
        values = np.stack([part.mean(axis) for part in np.array_split(values, cells, axis=axis)], axis=axis)
    return np.concatenate([*parts, values.reshape(len(values), -1)], 1)


def measure(given: argparse.Namespace) -> None:
    """Measure what the file lacks, one after the other."""
    import torch

    torch.set_num_threads(given.threads)
    torch.backends.cudnn.allow_tf32 = False  # a GPU only saves time here: it computes as a processor does
    if not given.unpacked:
        unpack(given.data, given.work)
    options = dict(text.split("=", 1) for text in given.option)
    other = {key: float(value) for key, value in (text.split("=", 1) for text in given.train)}
    done = {(row["set"], row["way"], row["seed"]) for row in read(given.out)}
    for seed in given.seeds:
        for name in given.sets:
            for way in given.ways:
                if (name, way, seed) in done:
                    continue
                data = source_of(given.work, name, way, seed, options).load()
                if way == "forest":
                    made = forest(data, seed)
                else:
                    made = network(data, name, way, seed, given.epochs, given.device, other)
                told = {"device": given.device, "threads": given.threads, "options": {**options, **other}}
                row = {"set": name, "way": way, "seed": seed, **made, **told}
                with given.out.open("a") as file:
                    file.write(
                        json.dumps(
                            {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}
                        )
                        + "\n"
                    )


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of results; none where there is none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    """The mean over seeds of each score, by set and way, and RMSE over that of `mse` in the same seeds."""
    lines = ["| set | way | seeds | RMSE | over mse's | skill | coverage | CRPS | minutes |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in SETS:
        squared = {row["seed"]: row["rmse"] for row in rows if (row["set"], row["way"]) == (name, "mse")}
        for way in WAYS:
            some = [row for row in rows if (row["set"], row["way"]) == (name, way)]
            if not some:
                continue
            means = [
                np.mean([row[key] for row in some])
                for key in ("rmse", "skill", "coverage", "crps", "seconds")
            ]
            ratios = [row["rmse"] / squared[row["seed"]] for row in some if row["seed"] in squared]
            ratio = f"{np.mean(ratios):.3f}" if ratios else ""
            error, skill, held, score, seconds = means
            scores = f"{error:.4f} | {ratio} | {skill:.2f} | {held:.2f} | {score:.4f} | {seconds / 60:.1f}"
            lines.append(f"| {name} | {way} | {len(some)} | {scores} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("what", choices=("measure", "unpack", "table"))
    asked.add_argument("--data", type=Path, default=Path(os.environ.get("TRUESIGMA_DATA", "../shared/data")))
    asked.add_argument("--work", type=Path, default=Path("measured"), help="where the sets are laid out")
    asked.add_argument("--unpacked", action="store_true", help="they are")
    asked.add_argument("--sets", nargs="+", default=SETS)
    asked.add_argument("--ways", nargs="+", default=[way for way in WAYS if way != "before"])
    asked.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS)[:5])
    asked.add_argument("--epochs", type=int, default=0, help="instead of the default's")
    asked.add_argument(
        "--option", action="append", default=[], help="of the data set, instead of the usual one"
    )
    asked.add_argument("--train", action="append", default=[], help="of the recipe, as learning_rate=1e-3")
    asked.add_argument("--threads", type=int, default=2)
    asked.add_argument("--device", default="cpu")
    asked.add_argument("-o", "--out", type=Path, default=RESULTS)
    given = asked.parse_args()
    if given.what == "measure":
        measure(given)
    elif given.what == "unpack":
        unpack(given.data, given.work)
    else:
        print(table(read(given.out)))


if __name__ == "__main__":
    main()
