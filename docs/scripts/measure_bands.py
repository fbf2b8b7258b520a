"""Twenty labels of a band of ages: python docs/scripts/measure_bands.py DATA

Another group's bone ages by predicted age: 20 labelled cases of one band, drawn 200 times, beside all calibration cases
of the others. DATA is the folder with predictions/*_boneage.npz. Writes `assets/bands.csv`; `guarantees.md` shows it.
"""

from pathlib import Path

import numpy as np
from measure_guarantees import inside
from measured import Row, command, markdown, read, write

import truesigma as ts
from truesigma.recalibrate import conformal, sigma, sigma_by_group

BONEAGE = {
    "resnet101_boneage.npz": "ResNet-101",
    "densenet201_boneage.npz": "DenseNet-201",
    "efficientnetb4_boneage.npz": "EfficientNet-B4",
}
MONTHS = 228.0 - 1.0  # targets are scaled from the youngest to the oldest
AGES = np.array([72.0, 120.0, 156.0])
BANDS = ("below 6 years", "6 to 10", "10 to 13", "above 13")


def bands(data: Path, draws: int = 200, labels: int = 20) -> list[Row]:
    """Another group's bone ages by predicted age: 20 labels of one band, beside all calibration cases of the others."""
    rows = []
    for file, title in BONEAGE.items():
        with np.load(data / "predictions" / file) as archive:
            stored = {key: np.asarray(archive[key], dtype=np.float64) for key in archive}
        parts = []
        for split, pick in (("calib", slice(None)), ("test", 0)):
            mu, target, sd = (
                MONTHS * stored[f"{k}"][pick][:, 0]
                for k in (f"mu_{split}", f"target_{split}", f"sd_{split}_total")
            )
            parts.append((ts.Prediction(mu, aleatoric=sd**2), target, np.digitize(mu, AGES).astype(str)))
        (old, y, age), (new, truth, new_age) = parts
        for number, name in enumerate(BANDS):
            mine, others = np.flatnonzero(age == str(number)), np.flatnonzero(age != str(number))
            there = new_age == str(number)
            found = []
            for seed in range(draws):
                some = np.random.default_rng(seed).choice(mine, labels, replace=False)
                used = np.concatenate([others, some])
                given = {"group": age[used]}
                made = [
                    sigma.fit(old[used], y[used])(new[there]),
                    sigma_by_group.fit(old[used], y[used], **given)(new[there], group=new_age[there]),
                    conformal.fit(old[used], y[used], by="group", **given)(new[there], group=new_age[there]),
                ]
                found.append([inside(p, truth[there]).mean() for p in made])
            off = sigma.fit(old[mine], y[mine]).factor / sigma.fit(old[others], y[others]).factor
            names = ("sigma", "sigma_by_group", "conformal")
            held = dict(zip(names, np.mean(found, axis=0)))
            rows.append({"network": title, "band": name, "draws": draws, "off": off, **held})
            print(rows[-1], flush=True)
    return rows


def table() -> str:
    """The table of the page: one line for each network and band."""
    rows = [
        [
            f"{r['network']}, {r['band']}",
            f"{r['off']:.2f}",
            *(f"{100 * r[n]:.1f}" for n in ("sigma", "sigma_by_group", "conformal")),
        ]
        for r in read("bands.csv")
    ]
    return markdown("| | off by | `sigma` | `sigma_by_group` | `conformal:by=group` |", rows)


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("data", type=Path)
    write("bands.csv", bands(parser.parse_args().data))


if __name__ == "__main__":
    main()
