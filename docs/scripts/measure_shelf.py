"""Every recalibration on every real set: python docs/scripts/measure_shelf.py --data DIR

Another group's bone ages and instrument tips (`--data`, the folder with predictions/*.npz), and our own OCT poses and
bone ages, from the draws in paper/results. Each recalibration is fitted on the calibration cases and scored on the
test cases; `compare` chooses one on the calibration cases alone, by CRPS. Writes `assets/shelf.csv`, in which `alike`
says that a score cannot be told from the best of the test cases, and `within` that `compare` had it behind the lowest
score of the calibration cases by at most two standard errors.
"""

import warnings
from pathlib import Path

import numpy as np
from measure_bands import AGES, MONTHS
from measure_regions import RESULTS
from measured import Row, command, read, write

import truesigma as ts
from truesigma.core.values import changed
from truesigma.evaluation.bootstrap import paired
from truesigma.evaluation.compare import compare
from truesigma.evaluation.fit import fit_all
from truesigma.evaluation.recipe import load_recipe
from truesigma.evaluation.replicates import clusters_by

ALL = (
    "none", "sigma", "sigma_by_output", "sigma_by_group", "two_factor", "aux", "isotonic", "conformal",
    "conformal:by=group",
)  # fmt: skip
TITLES = {"resnet101": "ResNet-101", "densenet201": "DenseNet-201", "efficientnetb4": "EfficientNet-B4"}
TITLES["efficientnet_b4"] = TITLES["efficientnetb4"]
BLOCK = 25  # frames of a video, which err alike
ERRORS = 2  # standard errors of compare, within which one may be as good as the first
Pair = tuple[ts.Cases, ts.Cases]


def elsewhere(path: Path) -> Pair:
    """Another group's predictions: bone ages in months by bands of predicted age, tips of instruments in pixels."""
    with np.load(path) as archive:
        stored = {key: np.asarray(archive[key], dtype=np.float64) for key in archive}
    age = "boneage" in path.name
    unit = MONTHS if age else 1.0
    found = []
    for split, pick in (("calib", slice(None)), ("test", 0)):
        mu, y, alea, total = (
            unit * stored[name][pick]
            for name in (f"mu_{split}", f"target_{split}", f"sd_{split}_alea", f"sd_{split}_total")
        )
        a, e = (
            np.broadcast_to(part, mu.shape) + 0.0 for part in (alea**2, np.maximum(total**2 - alea**2, 0))
        )
        if age:
            mu, y, a, e = (part[:, 0] for part in (mu, y, a, e))
        group = np.digitize(mu, AGES).astype(str) if age else None
        patient = None if age else np.arange(len(mu)) // BLOCK
        found.append(ts.Cases(ts.Prediction(mu, aleatoric=a, epistemic=e), y, group=group, patient=patient))
    return found[0], found[1]


def ours(network: str) -> Pair:
    """Our draws, which are kept as residuals, so that the target is 0."""
    found = []
    with np.load(RESULTS / network / "draws.npz") as stored:
        for split in ("valid", "test"):
            mean, log_variance = (
                stored[f"{split}.{name}"][0].astype(np.float64) for name in ("residual", "log_variance")
            )
            p = ts.decompose(ts.Draws(mean, np.exp(log_variance)))
            if p.location.shape[1] == 1:
                p = p.with_arrays(lambda part: part[:, 0])
            found.append(ts.Cases(p, np.zeros_like(p.location)))
    return found[0], found[1]


def sets(data: Path | None) -> dict[str, Pair]:
    """Every set; if nothing else gives groups, they are thirds of the predicted sigma."""
    found = {}
    for path in sorted((data / "predictions").glob("*.npz")) if data else ():
        network, _, what = path.stem.partition("_")
        if what in ("boneage", "endovis"):
            title = {"boneage": "bone age", "endovis": "instruments"}[what]
            found[f"{title}, another group's {TITLES[network]}"] = elsewhere(path)
    for what, title in (("oct", "OCT poses"), ("boneage", "bone age")):
        for network in ("resnet101", "densenet201", "efficientnet_b4"):
            found[f"{title}, {TITLES[network]}"] = ours(f"{what}_{network}")
    return {name: thirds(*pair) for name, pair in found.items()}


def thirds(calibration: ts.Cases, test: ts.Cases) -> Pair:
    if calibration.group is not None:
        return calibration, test
    sigma = [c.prediction.total.reshape(len(c), -1).mean(axis=1) for c in (calibration, test)]
    edges = np.quantile(sigma[0], [1 / 3, 2 / 3])
    pair = (changed(c, group=np.digitize(s, edges).astype(str)) for c, s in zip((calibration, test), sigma))
    old, new = pair
    return old, new


def measure(name: str, calibration: ts.Cases, test: ts.Cases) -> list[Row]:
    """The scores of every recalibration, and what `compare` chose."""
    recipe = load_recipe("exact")
    several = calibration.prediction.location.ndim > 1
    choices = [one for one in ALL if several or one != "sigma_by_output"]
    fits = fit_all(choices, calibration, recipe)
    # Patients are divided or, without any, cases, since the groups here are bands and not patients.
    chosen = compare(calibration, recalibrations=choices, metric="crps", replicates=300)
    made = {
        label: changed(test, prediction=fit.fitted(test.prediction, group=test.first_group))
        for label, fit in fits.items()
    }
    scored = {label: ts.metrics.crps.score(c.prediction, c.target) for label, c in made.items()}
    best = min(scored, key=scored.__getitem__)
    behind_first = {row["recalibration"]: row for row in chosen.rows}
    rows = []
    for label, cases in made.items():
        low, high = cases.prediction.interval(0.9)
        inside = ((low <= cases.target) & (cases.target <= high)).reshape(len(cases), -1).mean(axis=1)
        held = [float(inside[test.first_group == one].mean()) for one in np.unique(test.first_group)]
        behind = paired(
            changed(made[best], group=None), changed(cases, group=None), "crps", by=clusters_by(test, "auto")
        )[0]
        row: Row = {"set": name, "recalibration": label, "held": float(inside.mean())}
        row |= {"least": min(held), "most": max(held), "width": float((high - low).mean())}
        for metric in ("nll", "crps"):
            try:
                row[metric] = getattr(ts.metrics, metric).score(cases.prediction, cases.target)
            except ts.Undefined:
                row[metric] = ""
        row |= {"chosen": int(label == chosen.choice), "best": int(label == best)}
        row["alike"] = int(label == best or (behind.low is not None and behind.low <= 0))
        known = behind_first[label]
        error = known["standard_error"] or 0.0
        row["within"] = int(known["behind"] is not None and known["behind"] <= ERRORS * error)
        rows.append(row)
        print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return rows


def table() -> str:
    """The table of the page: one line for each set and recalibration."""
    head = "| | | held | groups | width | NLL | CRPS |"
    lines, last = [head, "| --- | --- |" + " ---: |" * 5], ""
    for r in read("shelf.csv"):
        held = f"{100 * r['held']:.1f}"
        groups = f"{100 * r['least']:.0f} to {100 * r['most']:.0f}"
        numbers = [f"{r[n]:.4g}" if r[n] != "" else "–" for n in ("width", "nll", "crps")]
        name = f"`{r['recalibration']}`"
        name = f"**{name}**" if r["chosen"] else name
        crps = f"**{numbers[2]}**" if r["best"] else numbers[2]
        cells = [held, groups, numbers[0], numbers[1], crps]
        lines.append(f"| {r['set'] if r['set'] != last else ''} | {name} | " + " | ".join(cells) + " |")
        last = r["set"]
    return "\n".join(lines)


def counts() -> str:
    """In how many sets the choice does as well as the best, in the words of the page."""
    rows = read("shelf.csv")
    sets = len({r["set"] for r in rows})
    alike = sum(r["chosen"] and r["alike"] for r in rows)
    within = sum(r["best"] and (r["chosen"] or r["within"]) for r in rows)
    return (
        f"In {within:.0f} of {sets} sets the best of the test cases is what `compare` chose, or was within two of its "
        f"standard errors of its lowest score. In {alike:.0f} of {sets} the choice is the best, or its CRPS cannot be "
        "told from the best one's"
    )


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--data", type=Path, help="folder with predictions/*.npz")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    write("shelf.csv", [row for name, pair in sets(given.data).items() for row in measure(name, *pair)])
    print(counts())


if __name__ == "__main__":
    main()
