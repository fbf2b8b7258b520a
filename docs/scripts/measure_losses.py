"""What a sigma costs the mean: RMSE of each loss over that of `mse`, and CRPS after sigma scaling, in paired seeds.

    python docs/scripts/measure_losses.py simulated DIR --seeds 5 --epochs 40 --option cases=1500 -o losses.csv

For any data set of `truesigma list datasets`. A row for each loss and seed goes to the file as it is done, so that a
stopped run is resumed; the table that is printed has the mean ratio and its 95 % interval (t, over seeds).
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from scipy import stats

from truesigma.cli.train import pairs
from truesigma.core.values import Cases
from truesigma.imaging.data.source import Source
from truesigma.imaging.network.two_head import build
from truesigma.imaging.prediction.predict import predict_split
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.training.loop import train
from truesigma.metrics import crps, rmse
from truesigma.recalibrate import sigma

LOSSES = ("mse", "nll", "beta_nll", "faithful")
COLUMNS = ("loss", "seed", "rmse", "crps")


def measure(source: Source, loss: str, seed: int, epochs: int, backbone: str) -> tuple[float, float]:
    """Train one network, scale its sigma on the validation split, and score the test split; scaled targets."""
    data, recipe = source.load(), load_recipe("exact", epochs=epochs, schedule="cosine", loss=loss)
    net = build(backbone, data.channels, data.outputs, recipe, seed=seed)
    trained = train(net, data, recipe, seed=seed, quiet=True)
    drawn = [
        predict_split(trained.net, data, split, scaled=True, moments=True) for split in ("valid", "test")
    ]
    valid, test = (cases for cases in drawn if isinstance(cases, Cases))
    scaled = sigma.fit(valid.prediction, valid.target)(test.prediction)
    return float(rmse.score(scaled, test.target)), float(crps.score(scaled, test.target))


def table(rows: list[dict[str, str]]) -> str:
    """The mean over seeds of each score over that of `mse` at the same seed, with its interval."""
    values = {(row["loss"], row["seed"]): [float(row[name]) for name in COLUMNS[2:]] for row in rows}
    lines = ["loss       RMSE / mse's             CRPS / mse's"]
    for loss in LOSSES[1:]:
        seeds = [seed for one, seed in values if one == loss and ("mse", seed) in values]
        if len(seeds) < 2:
            continue
        ratios = np.array([np.divide(values[loss, seed], values["mse", seed]) for seed in seeds])
        half = stats.t.ppf(0.975, len(seeds) - 1) * ratios.std(0, ddof=1) / np.sqrt(len(seeds))
        cells = [f"{m:.3f} [{m - h:.3f}, {m + h:.3f}]" for m, h in zip(ratios.mean(0), half)]
        lines.append(f"{loss:10s} {cells[0]:24s} {cells[1]}")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing in the file, and print the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("dataset")
    asked.add_argument("root")
    asked.add_argument("--option", action="append")
    asked.add_argument("--backbone", default="small")
    asked.add_argument("--epochs", type=int, default=40)
    asked.add_argument("--seeds", type=int, default=5)
    asked.add_argument("-o", "--out", type=Path, required=True)
    given = asked.parse_args()
    source = Source(given.dataset, given.root, pairs(given.option))
    rows = list(csv.DictReader(given.out.open())) if given.out.exists() else []
    done = {(row["loss"], row["seed"]) for row in rows}
    for seed in range(given.seeds):
        for loss in LOSSES:
            if (loss, str(seed)) in done:
                continue
            scores = measure(source, loss, seed, given.epochs, given.backbone)
            rows.append(dict(zip(COLUMNS, (loss, str(seed), *(f"{score:.6g}" for score in scores)))))
            with given.out.open("w", newline="") as file:
                written = csv.DictWriter(file, COLUMNS)
                written.writeheader()
                written.writerows(rows)
    print(table(rows))


if __name__ == "__main__":
    main()
