"""Twenty labels of another modality: python docs/scripts/measure_nuclei.py NUCLEI

A small network counts nuclei (the logarithm of their number) and is trained on fluorescence alone. Sigma is calibrated
on fluorescence images it has not seen and 20 images of another modality, drawn 200 times; what the 90 % intervals hold
among the rest of that modality. NUCLEI is the folder with table.csv and images/ of BBBC038 (2018 Data Science Bowl).
Writes `assets/nuclei.csv`.
"""

import csv
import math
import tempfile
import warnings
from pathlib import Path

import numpy as np
from measure_guarantees import inside
from measured import Row, command, markdown, read, write

import truesigma as ts
from truesigma.imaging.data.source import Source
from truesigma.imaging.network.two_head import build
from truesigma.imaging.prediction.predict import predict_split
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.training.loop import train
from truesigma.recalibrate import conformal, sigma, sigma_by_group

HOME, LABELS = "fluorescence", 20


def predictions(
    root: Path, *, size: int, epochs: int, seed: int
) -> tuple[ts.Prediction, np.ndarray, np.ndarray]:
    """What a network that has seen fluorescence alone predicts for images of all modalities; targets; modalities."""
    with (root / "table.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    rng = np.random.default_rng(seed)
    splits = rng.permutation(np.arange(len(rows)) % 10)
    for row, part in zip(rows, splits):
        kinds = ["train"] * 5 + ["valid"] + ["test"] * 4
        row["split"] = kinds[part] if row["modality"] == HOME else "test"
        row["log_count"] = str(math.log(float(row["count"])))
        row["image"] = str((root / row["image"]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "table.csv").open("w", newline="") as file:
            out = csv.DictWriter(file, list(rows[0]))
            out.writeheader()
            out.writerows(rows)
        options = {"target": "log_count", "size": size, "flip": True, "shift": size // 16}
        data = Source("table", folder, options).load()
        recipe = load_recipe("exact", epochs=epochs, schedule="cosine")
        net = build("small", data.channels, data.outputs, recipe, seed=seed)
        trained = train(net, data, recipe, seed=seed, quiet=True)
        found = predict_split(trained.net, data, "test", draws=25, moments=True)
    assert isinstance(found, ts.Cases)
    kind = {Path(row["image"]).name: row["modality"] for row in rows}
    modality = np.array([kind[Path(str(name)).name] for name in found.id])
    p = found.prediction
    parts = (getattr(p, name)[:, 0].astype(float) for name in ("location", "aleatoric", "epistemic"))
    return ts.Prediction(*parts), np.asarray(found.target)[:, 0].astype(float), modality


def twenty(prediction: ts.Prediction, y: np.ndarray, modality: np.ndarray, draws: int = 200) -> list[Row]:
    """Coverage among the rest of each other modality, over draws of its labels; and of half the home modality."""
    home = np.flatnonzero(modality == HOME)
    rows = []
    for kind in sorted(set(modality) - {HOME}):
        there = np.flatnonzero(modality == kind)
        if there.size < 2 * LABELS:
            continue
        found = []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            some, mine = rng.permutation(there), rng.permutation(home)
            used = np.concatenate([mine[: home.size // 2], some[:LABELS]])
            new, group = some[LABELS:], {"group": modality[used]}
            here = mine[home.size // 2 :]
            common = sigma.fit(prediction[used], y[used])
            by = sigma_by_group.fit(prediction[used], y[used], **group)
            cp = conformal.fit(prediction[used], y[used], by="group", **group)
            held = [inside(common(prediction[new]), y[new])]
            held += [inside(one(prediction[new], group=modality[new]), y[new]) for one in (by, cp)]
            held += [inside(common(prediction[here]), y[here])]
            held += [inside(one(prediction[here], group=modality[here]), y[here]) for one in (by, cp)]
            found.append([float(h.mean()) for h in held])
        off = sigma.fit(prediction[there], y[there]).factor / sigma.fit(prediction[home], y[home]).factor
        names = (
            "sigma",
            "sigma_by_group",
            "conformal",
            "sigma_home",
            "sigma_by_group_home",
            "conformal_home",
        )
        rows.append({"promise": kind, "cases": there.size, "draws": draws, "off": off})
        rows[-1] |= dict(zip(names, np.mean(found, axis=0)))
        print(rows[-1], flush=True)
    return rows


def table() -> str:
    """The table of the page: the other modality, and the home one beside it."""
    rows = []
    for r in read("nuclei.csv"):
        for name, end, off in ((r["promise"], "", f"{r['off']:.2f}"), (HOME, "_home", "1")):
            shares = [f"{100 * r[n + end]:.1f}" for n in ("sigma", "sigma_by_group", "conformal")]
            rows.append([name, off, *shares])
    return markdown("| | off by | `sigma` | `sigma_by_group` | `conformal:by=group` |", rows)


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    made = predictions(given.root, size=given.size, epochs=given.epochs, seed=given.seed)
    home = made[2] == HOME
    rmse = float(np.sqrt(((made[1] - made[0].location)[home] ** 2).mean()))
    print(f"{HOME}: RMSE {rmse:.3f} of the logarithm, sd {made[1][home].std():.3f}")
    write("nuclei.csv", twenty(*made))
    print(table())


if __name__ == "__main__":
    main()
