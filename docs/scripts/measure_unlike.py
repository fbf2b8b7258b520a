"""The default on images unlike any in its training: python docs/scripts/measure_unlike.py NUCLEI

Networks of recipe `own` count nuclei and are trained on fluorescence alone: set up as `init` proposes, 128 pixels a
side, and in short trainings on 64 pixels, as in the tutorial. What they say of stained images, and of fluorescence
images they have not seen, after sigma scaling on the validation cases; and whether `predict` warns of them. NUCLEI is
the folder with table.csv and images/ of BBBC038 (2018 Data Science Bowl). Writes `assets/unlike.csv`.
"""

import csv
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measured import Row, command, markdown, read, write

import truesigma as ts
from truesigma.evaluation.card import calibrate
from truesigma.imaging import Source, TwoHead, build, load_recipe, predict_split, train

HOME, OTHER = "fluorescence", "stained"
KINDS = {"as proposed": (128, None, 3), "short": (64, 20, 5)}  # pixels a side, epochs, networks
SEEN = 16_000  # images in all that `init` proposes


def data_of(root: Path, size: int, seed: int) -> Any:
    """Fluorescence images in three splits, 6 : 2 : 2, and the stained ones in a fourth."""
    with (root / "table.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    parts = np.random.default_rng(seed).permutation(np.arange(len(rows)) % 10)
    for row, part in zip(rows, parts):
        home = (["train"] * 6 + ["valid"] * 2 + ["test"] * 2)[part]
        row["split"] = home if row["modality"] == HOME else row["modality"]
        row["image"] = str((root / row["image"]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "table.csv").open("w", newline="") as file:
            out = csv.DictWriter(file, list(rows[0]))
            out.writeheader()
            out.writerows(row for row in rows if row["split"] in ("train", "valid", "test", OTHER))
        options = {"target": "count", "unit": "nuclei", "size": size, "turn": True, "intensity": 0.1}
        return Source("table", folder, options).load()


def trained(data: Any, epochs: int | None, seed: int) -> TwoHead:
    """The network of recipe `own`, with as many epochs as `init` proposes unless they are given."""
    recipe = load_recipe("own", epochs=epochs or round(SEEN / len(data.splits["train"])))
    net = build("small", data.channels, data.outputs, recipe, seed=seed)
    train(net, data, recipe, seed=seed, device="cpu", quiet=True, test=False)
    return net


def looked_at(net: TwoHead, data: Any) -> Row:
    """What the network says of fluorescence images it has not seen (home), and of stained ones (other)."""
    cases = {split: predict_split(net, data, split) for split in ("valid", "test", OTHER)}
    card, found = calibrate(cases["valid"]), {}
    for kind, split in (("home", "test"), ("other", OTHER)):
        made, target = card(cases[split]), np.asarray(cases[split].target)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            card.doubt(cases[split])
        values = {
            "error": np.median(np.abs(target - made.location)),
            "sigma": np.median(made.scale),
            "largest": made.scale.max(),
            "held": ts.metrics.coverage.score(made, target, level=0.9),
            "warned": len(said),
        }
        found |= {f"{kind}_{name}": float(value) for name, value in values.items()}
    return found


def table() -> str:
    """The table of the page: a row for each network."""
    head = "| trained | error | sigma | 90 % hold | warned | error at home | sigma | 90 % hold | warned |"
    rows = [
        [str(r["kind"])]
        + [
            text
            for where in ("other", "home")
            for text in (
                f"{r[f'{where}_error']:.0f}",
                f"{r[f'{where}_sigma']:.0f}",
                f"{100 * r[f'{where}_held']:.0f} %",
                ("no", "yes")[int(r[f"{where}_warned"])],
            )
        ]
        for r in read("unlike.csv")
    ]
    return markdown(head, rows)


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for kind in given.kinds:
        size, epochs, networks = KINDS[kind]
        for seed in range(networks):
            data = data_of(given.root, size, seed)
            rows.append({"kind": kind, "seed": seed, **looked_at(trained(data, epochs, seed), data)})
            print(rows[-1], flush=True)
    write("unlike.csv", rows)
    print(table())


if __name__ == "__main__":
    main()
