"""Six outputs at once: python docs/scripts/measure_regions.py --splits 200

Random splits of the paper's OCT poses, from the draws in `paper/results`: what ellipsoid, box and Bonferroni's box hold
jointly, and their volumes. Writes `assets/regions.csv`; `guarantees.md` shows it.
"""

import math
from pathlib import Path

import numpy as np
from measured import Row, markdown, measure_by_command, read

import truesigma as ts
from truesigma.recalibrate import conformal, region

RESULTS = Path(__file__).parents[2] / "paper" / "results"
LEVEL = 0.9
NETWORKS = {
    "oct_resnet101": "ResNet-101",
    "oct_densenet201": "DenseNet-201",
    "oct_efficientnet_b4": "EfficientNet-B4",
}


def poses(network: str) -> tuple[ts.Prediction, np.ndarray]:
    """The paper's OCT poses, validation and test cases together; residuals, so that the target is 0."""
    stored = np.load(RESULTS / network / "draws.npz")
    parts = []
    for split in ("valid", "test"):
        mean, log_variance = (
            stored[f"{split}.{name}"][0].astype(float) for name in ("residual", "log_variance")
        )
        parts.append(ts.decompose(ts.Draws(mean, np.exp(log_variance))))
    location, aleatoric, epistemic = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("location", "aleatoric", "epistemic")
    )
    prediction = ts.Prediction(location, aleatoric=aleatoric, epistemic=epistemic)
    return prediction, np.zeros_like(prediction.location)


def regions(splits: int = 200, sizes: tuple[int, ...] = (50, 100, 400, 850)) -> list[Row]:
    """Joint coverage of new poses over random splits, and the volume beside that of Bonferroni's box."""
    rows = []
    for network, title in NETWORKS.items():
        prediction, y = poses(network)
        outputs = y.shape[1]
        for cases in sizes:
            found = []
            for seed in range(splits):
                order = np.random.default_rng(seed).permutation(len(y))
                old, new = order[:cases], order[cases : cases + 850]
                made = [region.fit(prediction[old], y[old], shape=shape) for shape in ("ellipsoid", "box")]
                boxes = np.ones(len(new), bool), np.zeros(len(new))
                for k in range(outputs):
                    one = prediction.with_arrays(lambda part, k=k: part[:, k])
                    each = conformal.fit(one[old], y[old, k])(one[new]).interval(1 - (1 - LEVEL) / outputs)
                    boxes[0][:] &= (each.lower <= 0) & (each.upper >= 0)
                    boxes[1][:] += np.log(each.upper - each.lower)
                held = [r.contains(prediction[new], y[new]).mean() for r in made]
                ratio = [math.exp(np.mean(np.log(r.volume(prediction[new])) - boxes[1])) for r in made]
                found.append([*held, boxes[0].mean(), *ratio])
            mean = np.mean(found, axis=0)
            names = ("ellipsoid", "box", "bonferroni", "ellipsoid_volume", "box_volume")
            rows.append({"network": title, "cases": cases, "splits": splits, **dict(zip(names, mean))})
            print(rows[-1], flush=True)
    return rows


def table() -> str:
    """The table of the page: one line for each network and number of cases."""
    rows = []
    for r in read("regions.csv"):
        # Where Bonferroni's box is infinite there is nothing to compare with.
        volumes = [f"{r[n]:.2f}" if r[n] > 0 else "–" for n in ("ellipsoid_volume", "box_volume")]
        shares = [f"{100 * r[n]:.1f}" for n in ("ellipsoid", "box", "bonferroni")]
        rows.append([r["network"], f"{int(r['cases'])}", *shares, *volumes])
    return markdown("| | cases | ellipsoid | box | Bonferroni | volume of the ellipsoid | of the box |", rows)


if __name__ == "__main__":
    measure_by_command(__doc__, "regions.csv", regions, count="splits", usual=200)
