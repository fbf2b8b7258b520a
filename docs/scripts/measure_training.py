"""How well the default trains: beside version 0.1's, a network on squared errors, a forest; and which loss it takes.

    python docs/scripts/measure_training.py measure --data DIR -o assets/training.jsonl
    PYTHONPATH=SRC_OF_0.1 python docs/scripts/measure_training.py measure --ways before --data DIR -o ...
    python docs/scripts/measure_training.py table

DIR holds nuclei-384.zip, hippocampus/ and oct/ as in `TRUESIGMA_DATA`. Each seed has a simulation or a split of its own
that all ways share. A line of JSON for each set, way and seed goes to the file as it is done, so that a stopped run is
resumed. `before` is the default of 0.1, wants its code, and gets as many epochs as fit into the time of the others;
these are recipe `own` with each of its losses, set up as `init` proposes. `mse` is trained only where it is asked for
without `faithful`: the mean of both is the same to the bit, so that mean with one sigma for all cases is its row.
`--sets oct` compares the losses on 2,000 of the paper's 5,000 OCT volumes, as they are, split by the published shares.
`laplace` is the likelihood of that law. Seeds beyond SEEDS are further ones on nuclei, of `before`, the default and
`beta_nll`.
Hippocampus volumes are 8 bits, by the range of each, since 0.1 refuses a mix of 8 and more bits; it squeezes them to 32
voxels a side, today they are resampled and padded. One thread, so that seconds are those of a core; runs with
`--threads 2` are there for their minutes alone, since sums in another order give another network.
"""

import argparse
import csv
import json
import math
import os
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from truesigma import Laplace, Normal, Prediction
from truesigma.metrics import coverage, crps, rmse
from truesigma.recalibrate import sigma

RESULTS = Path(__file__).parents[1] / "assets" / "training.jsonl"
SETS = ("simulated", "nuclei", "hippocampus")
LOSSES = ("nll", "beta_nll", "faithful")
WAYS = ("before", *LOSSES, "laplace", "mse", "forest")
DEFAULT = "faithful"  # of recipe `own`
SEEDS = range(5)
EPOCHS = {"simulated": 40, "nuclei": 40, "hippocampus": 100, "oct": 20}  # that `init` proposes
BEFORE = {
    "simulated": 100,
    "nuclei": 26,
    "hippocampus": 400,
}  # in as much time; `init` of 0.1: 100, 200, 200
SHARED = {"csv": "table.csv", "image": "image", "split": "", "group": "", "valid": 0.2, "test": 0.2}
SIMULATED = {"cases": 2000, "train": 400, "valid": 600}
OPTIONS = {  # of the data sets, before and now, as `init` proposes them
    "simulated": (SIMULATED, SIMULATED),
    "nuclei": (
        {**SHARED, "target": "count", "size": 256},
        {**SHARED, "target": "count", "size": 128, "turn": True, "intensity": 0.1},
    ),
    "hippocampus": (
        {**SHARED, "target": "volume_mm3", "size": 32, "image": "whole"},
        {**SHARED, "target": "volume_mm3", "image": "scaled", "normalise": "image", "flip": True}
        | {"rotate": 10.0, "shift": 2, "intensity": 0.1},
    ),
    "oct": ({}, {"size": 64, "jitter": "none"}),
}
SCALE, SHAPE = 1.5, (32, 40, 32)  # mm per voxel and voxels of hippocampus volumes, as `init` proposes them
EVERY = (*SETS, "oct")  # the sets of the losses
LOSS_OF_ACCURACY = 1.02  # that a sigma may cost at most, in RMSE


def unpack(data: Path, work: Path) -> None:
    """Lay the sets out as folders with a table, once."""
    from truesigma.imaging.datasets.simulated import simulate

    for seed in SEEDS:
        if not (work / f"simulated-{seed}" / "projections.npz").exists():
            simulate(str(work / f"simulated-{seed}"), cases=SIMULATED["cases"], raw=0, seed=seed)
    if not (work / "nuclei" / "table.csv").exists():
        zipfile.ZipFile(data / "nuclei-384.zip").extractall(work / "nuclei")
    if not (work / "hippocampus" / "table.csv").exists():
        _volumes(data / "hippocampus", work / "hippocampus")
    if not (work / "oct" / "projections.npz").exists() and (data / "oct").is_dir():
        (work / "oct").mkdir(parents=True)
        with np.load(data / "oct" / "projections.npz") as kept:
            some = np.sort(np.random.default_rng(0).permutation(len(kept["name"]))[: SIMULATED["cases"]])
            chosen = {name: kept[name][some] for name in ("image", "pose", "name")}
            np.savez(work / "oct" / "projections.npz", **chosen)


def _volumes(source: Path, folder: Path) -> None:
    """Volumes as .npy of 8 bits: as they are, and resampled from 1 mm and padded to one shape."""
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
            ("scaled", resampled(whole, (1.0,) * 3, (SCALE,) * 3, SHAPE)),
        ):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            np.save(folder / kind / f"{name}.npy", made)
    with (folder / "table.csv").open("w", newline="") as file:
        written = csv.DictWriter(file, list(rows[0]))
        written.writeheader()
        written.writerows(rows)


def source_of(work: Path, name: str, way: str, seed: int) -> Any:
    """The data set as this way reads it; the seed is that of the simulation or of the split."""
    from truesigma.imaging import Source

    options = {**OPTIONS[name][way != "before"], "seed": seed}
    if name == "simulated":
        return Source(name, str(work / f"simulated-{seed}"), options)
    return Source("oct" if name == "oct" else "table", str(work / name), options)


def network(data: Any, name: str, way: str, seed: int, epochs: int) -> dict[str, dict[str, Any]]:
    """Train one network, scale its sigma on the validation cases, and score the test cases, of scaled targets.

    Returns the scores by way: `faithful` gives those of `mse`, too.
    """
    from truesigma.imaging import build, load_recipe, predict_split, train

    if way == "before":
        recipe = load_recipe(
            "exact", epochs=epochs or BEFORE[name], stage_dropout=0.0, head_dropout={"other": 0.1}
        )
    else:
        recipe = load_recipe("own", epochs=epochs or EPOCHS[name], loss="nll" if way == "laplace" else way)
    backbone = "small3d" if name == "hippocampus" else "small"
    variances = "each" if data.outputs > 1 else "one"
    net = build(backbone, data.channels, data.outputs, recipe, variances=variances, seed=seed)
    options: dict[str, Any] = {} if way == "before" else {"test": False}
    if way == "laplace":
        options["likelihood"] = "laplace"
    began, worked = time.monotonic(), time.process_time()
    trained = train(net, data, recipe, seed=seed, device="cpu", quiet=True, **options)
    told = {"epochs": len(trained.history), "kept": trained.best_epoch}
    told |= {"seconds": time.monotonic() - began, "core_seconds": time.process_time() - worked}
    law = Laplace() if way == "laplace" else Normal()
    valid, test = (
        predict_split(trained.net, data, split, scaled=True, law=law) for split in ("valid", "test")
    )
    made = {way: {**told, **scores(valid.prediction, valid.target, test.prediction, test.target)}}
    if way == "faithful":
        alike = [constant_variance(cases.prediction, data) for cases in (valid, test)]
        made["mse"] = {**told, **scores(alike[0], valid.target, alike[1], test.target)}
    return made


def constant_variance(prediction: Prediction, data: Any) -> Prediction:
    """The same mean, as a network on squared errors gives it: with the variance of the training targets."""
    known = np.asarray(data.splits["train"].target).var(0)
    same = np.broadcast_to(known, np.shape(prediction.location))
    return Prediction(prediction.location, aleatoric=same, epistemic=prediction.epistemic)


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


def forest(data: Any, seed: int, threads: int) -> dict[str, Any]:
    """A forest of scikit-learn on simple features; the spread of its trees is the sigma that is scaled."""
    from sklearn.ensemble import RandomForestRegressor

    began, worked = time.monotonic(), time.process_time()
    features = {
        split: simple_features(np.asarray(data.splits[split].images)) for split in ("train", "valid", "test")
    }
    targets = {split: np.asarray(data.splits[split].target, np.float64) for split in features}
    one = targets["train"].shape[1] == 1
    model = RandomForestRegressor(
        500, min_samples_leaf=2, max_features=0.33, random_state=seed, n_jobs=threads
    )
    model.fit(features["train"], targets["train"][:, 0] if one else targets["train"])
    told = {"epochs": 0, "kept": 0}
    told |= {"seconds": time.monotonic() - began, "core_seconds": time.process_time() - worked}

    def predict(split: str) -> Prediction:
        trees = np.stack([tree.predict(features[split]) for tree in model.estimators_])
        trees = trees[..., None] if one else trees
        return Prediction(trees.mean(0), aleatoric=trees.var(0) + 1e-6)

    return {**told, **scores(predict("valid"), targets["valid"], predict("test"), targets["test"])}


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
    if not given.unpacked:
        unpack(given.data, given.work)
    done = {
        (row["set"], row["way"], row["seed"]) for row in read(given.out) if row["threads"] == given.threads
    }
    for seed in given.seeds:
        for name in given.sets:
            for way in given.ways:
                if (name, way, seed) in done or (way == "mse" and "faithful" in given.ways):
                    continue
                data = source_of(given.work, name, way, seed).load()
                if way == "forest":
                    made = {way: forest(data, seed, given.threads)}
                else:
                    made = network(data, name, way, seed, given.epochs)
                for each, values in made.items():
                    row = {"set": name, "way": each, "seed": seed, **values, "threads": given.threads}
                    short = {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}
                    with given.out.open("a") as file:
                        file.write(json.dumps(short) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of results; none where there is none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def with_threads(rows: Sequence[dict[str, Any]], threads: int) -> list[dict[str, Any]]:
    """Those measured with so many threads."""
    return [row for row in rows if row.get("threads", 1) == threads]


def pairs(
    rows: Sequence[dict[str, Any]], name: str, way: str, other: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """One run of each of two ways for every seed that both have."""
    mine, theirs = (
        {row["seed"]: row for row in with_threads(rows, 1) if (row["set"], row["way"]) == (name, wanted)}
        for wanted in (way, other)
    )
    return [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]


def ratio(
    rows: Sequence[dict[str, Any]], sets: Sequence[str], way: str, other: str, score: str
) -> tuple[float, float, float, int]:
    """A score of one way over that of another, in the same seeds, with its 95 % interval; and how many pairs.

    The mean of log ratios over the seeds of each set, and of those over the sets; an interval of Student's t.
    """
    means, errors, freedom, count = [], [], 0, 0
    for name in sets:
        logs = [math.log(one[score] / two[score]) for one, two in pairs(rows, name, way, other)]
        if not logs:
            return (math.nan,) * 3 + (0,)
        count += len(logs)
        freedom += len(logs) - 1
        means.append(np.mean(logs))
        errors.append(np.std(logs, ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else math.inf)
    centre = float(np.mean(means))
    half = float(t.ppf(0.975, max(1, freedom)) * np.linalg.norm(errors) / len(errors)) if any(errors) else 0.0
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half), count


def difference(
    rows: Sequence[dict[str, Any]], name: str, way: str, other: str, score: str
) -> tuple[float, float, float]:
    """A score of one way less that of another, in the same seeds, with its 95 % interval of Student's t.

    Of `coverage` it is how far it is from the 90 % asked for.
    """

    def value(row: dict[str, Any]) -> float:
        return abs(row[score] - 0.9) if score == "coverage" else row[score]

    found = [value(one) - value(two) for one, two in pairs(rows, name, way, other)]
    centre, half = np.mean(found), t.ppf(0.975, len(found) - 1) * np.std(found, ddof=1) / len(found) ** 0.5
    return float(centre), float(centre - half), float(centre + half)


def chosen(rows: Sequence[dict[str, Any]], sets: Sequence[str] = SETS) -> str:
    """The loss with the best CRPS, pooled, among those that lose no accuracy for a sigma.

    That is a pooled RMSE of at most 1.02 times that of the network on squared errors, or a 95 % interval of it that
    contains 1.02 and is narrower than 0.06.
    """

    def accurate(way: str) -> bool:
        middle, low, high, _ = ratio(rows, sets, way, "mse", "rmse")
        return middle <= LOSS_OF_ACCURACY or (low <= LOSS_OF_ACCURACY <= high and high - low < 0.06)

    return min(filter(accurate, LOSSES), key=lambda way: ratio(rows, sets, way, "mse", "crps")[0])


def tables(rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """The two tables of the docs: the default beside others, and the losses."""
    rows = [row for row in rows if row["seed"] in SEEDS]
    names = {
        "before": "default of 0.1",
        DEFAULT: f"default, `{DEFAULT}`",
        "mse": "squared errors",
        "forest": "forest",
    }
    lines = [
        "| set | way | RMSE | over the default's | skill | 90 % hold | CRPS | over the default's | core minutes "
        "| on two cores |"
    ]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in SETS:
        for way, label in names.items():
            some = [one for one, _ in pairs(rows, name, way, DEFAULT)]
            (both,) = [row for row in with_threads(rows, 2) if (row["set"], row["way"]) == (name, way)]
            error, skill, held, score, seconds = (
                np.mean([row[key] for row in some])
                for key in ("rmse", "skill", "coverage", "crps", "core_seconds")
            )
            over = [
                "" if way == DEFAULT else _text(ratio(rows, [name], way, DEFAULT, key))
                for key in ("rmse", "crps")
            ]
            lines.append(
                f"| {name} | {label} | {error:.4f} | {over[0]} | {skill:.2f} | {100 * held:.0f} % "
                f"| {score:.4f} | {over[1]} | {seconds / 60:.2f} | {both['seconds'] / 60:.2f} |"
            )
    losses = [
        "| loss | set | RMSE over that of squared errors | CRPS over it |",
        "| --- | --- | ---: | ---: |",
    ]
    pooled = (("the first three", SETS), ("all", EVERY))
    for way in (*LOSSES, "laplace"):
        sets = EVERY if way in LOSSES else ("oct",)
        for label, some in (*((name, [name]) for name in sets), *(pooled if way in LOSSES else ())):
            both = (_text(ratio(rows, some, way, "mse", score)) for score in ("rmse", "crps"))
            losses.append(f"| `{way}` | {label} | {' | '.join(both)} |")
    return "\n".join(lines), "\n".join(losses)


def further(rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """RMSE on nuclei of 0.1's default over the new one's: in the pairs beyond SEEDS, and in all."""
    more = [row for row in rows if row["seed"] not in SEEDS]
    found = [ratio(some, ["nuclei"], "before", DEFAULT, "rmse") for some in (more, rows)]
    first, every = (f"{_text(one)} in {one[3]} pairs" for one in found)
    return first, every


def _text(found: tuple[float, float, float, int]) -> str:
    middle, low, high, count = found
    return f"{middle:.3f} ({low:.3f} to {high:.3f})" if count else ""


def main() -> None:
    """Measure, or print the tables."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("what", choices=("measure", "unpack", "table"))
    asked.add_argument("--data", type=Path, default=Path(os.environ.get("TRUESIGMA_DATA", "../shared/data")))
    asked.add_argument("--work", type=Path, default=Path("measured"), help="where the sets are laid out")
    asked.add_argument("--unpacked", action="store_true", help="they are")
    asked.add_argument("--sets", nargs="+", default=SETS, choices=OPTIONS)
    asked.add_argument("--ways", nargs="+", default=WAYS[1:], choices=WAYS)
    asked.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    asked.add_argument("--epochs", type=int, default=0, help="instead of the default's")
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("-o", "--out", type=Path, default=RESULTS)
    given = asked.parse_args()
    if given.what == "measure":
        measure(given)
    elif given.what == "unpack":
        unpack(given.data, given.work)
    else:
        rows = read(given.out)
        print(*tables(rows), *further(rows), sep="\n\n")
        print(
            f"\nThe rule chooses `{chosen(rows)}` on {len(SETS)} sets, `{chosen(rows, EVERY)}` on {len(EVERY)}."
        )


if __name__ == "__main__":
    main()
