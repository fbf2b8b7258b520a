"""What every guarantee covers, over many draws: python docs/scripts/measure_guarantees.py --seeds 1000

Simulated cases whose truth is known, with heavy tails, a bias, sites of different difficulty, patients with several
images, and three outputs that err together; random splits of the paper's OCT poses; and, with `--data`, another group's
bone ages by predicted age. Writes `assets/guarantees.csv`, `referral.csv`, `regions.csv` and `bands.csv`;
`guarantees.md` shows them.
"""

import argparse
import csv
import io
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import truesigma as ts
from truesigma.core.by_case import Stated
from truesigma.files.disk import write_atomically
from truesigma.recalibrate import _referral, _shift, conformal, cqr, cv_plus, region, sigma, sigma_by_group

ASSETS = Path(__file__).parents[1] / "assets"
RESULTS = Path(__file__).parents[2] / "paper" / "results"
SIZES = (50, 100, 500, 1000, 5000)
LEVEL, NEW, MOVED = 0.9, 500, 0.5
SITES = {"large": 0.5, "middle": 0.3, "small": 0.2}  # shares of the cases; the small one errs twice as much
MIX = np.array([[1.0, 0.8, 0.3], [0.0, 0.6, 0.2], [0.0, 0.0, 2.0]])
NETWORKS = {
    "oct_resnet101": "ResNet-101",
    "oct_densenet201": "DenseNet-201",
    "oct_efficientnet_b4": "EfficientNet-B4",
}
BONEAGE = {"resnet101_boneage.npz": "ResNet-101", "densenet201_boneage.npz": "DenseNet-201"}
BONEAGE["efficientnetb4_boneage.npz"] = "EfficientNet-B4"
MONTHS = 228.0 - 1.0  # targets are scaled from the youngest to the oldest
AGES = np.array([72.0, 120.0, 156.0])
RISK, DELTA, MANY = 0.05, 0.05, 1_000_000  # of the referral; cases that tell the truth about it
BANDS = ("below 6 years", "6 to 10", "10 to 13", "above 13")
Row = dict[str, Any]


def errors(rng: np.random.Generator, cases: int) -> tuple[ts.Prediction, np.ndarray]:
    """Cases whose errors have heavy tails, a skew and a bias, in units of a sigma that differs from case to case."""
    scale = np.exp(0.5 * rng.normal(size=cases))
    z = 0.3 + rng.standard_t(4, size=cases) + 0.5 * (rng.gamma(2.0, 1.0, size=cases) - 2.0)
    return ts.Prediction(np.zeros(cases), scale**2), scale * z


def inside(made: ts.Prediction, target: np.ndarray) -> np.ndarray:
    lower, upper = made.interval(LEVEL)
    return (lower <= target) & (target <= upper)


def one_output(**options: Any) -> Callable[[np.random.Generator, int], float]:
    def held(rng: np.random.Generator, cases: int) -> float:
        prediction, y = errors(rng, cases + NEW)
        fitted = conformal.fit(prediction[:cases], y[:cases], **options)
        return float(inside(fitted(prediction[cases:]), y[cases:]).mean())

    return held


def small_site(by: Any) -> Callable[[np.random.Generator, int], float]:
    """What is held among new cases of the smallest site, which is the hardest."""

    def held(rng: np.random.Generator, cases: int) -> float:
        prediction, y = errors(rng, cases + NEW)
        counts = [round(share * cases) for share in SITES.values()]
        site = np.repeat([*SITES, "small"], [*counts[:2], cases - sum(counts[:2]), NEW])
        y = np.where(site == "small", 2.0, 1.0) * y
        fitted = conformal.fit(prediction[:cases], y[:cases], group=site[:cases], by=by)
        return float(inside(fitted(prediction[cases:], group=site[cases:]), y[cases:]).mean())

    return held


def new_patient(promise: Any, known: bool = True) -> Callable[[np.random.Generator, int], float]:
    """What is held of patients with 1 to 9 images that err alike: of their images, or of patients with all inside."""

    def held(rng: np.random.Generator, cases: int) -> float:
        sizes = rng.integers(1, 10, size=cases + 100)
        patient = np.repeat(np.arange(sizes.size), sizes)
        # As many images as the size says; patients are fewer.
        old = np.arange(patient.size) < cases
        new = patient > patient[cases - 1]
        z = 0.9 * rng.standard_t(4, size=sizes.size)[patient] + 0.4 * rng.normal(size=patient.size)
        prediction = ts.Prediction(0 * z, 0 * z + 1)
        given = {"patient": patient[old]} if known else {}
        fitted = conformal.fit(prediction[old], z[old], promise=promise, **given)
        good, who = inside(fitted(prediction[new]), z[new]), patient[new]
        count = np.bincount(who, minlength=sizes.size)
        share = np.bincount(who, good, minlength=sizes.size)[count > 0] / count[count > 0]
        return float((share == 1).mean() if promise == "all" else share.mean())

    return held


def all_outputs(shape: Any) -> Callable[[np.random.Generator, int], float]:
    def held(rng: np.random.Generator, cases: int) -> float:
        scale = np.exp(0.5 * rng.normal(size=(cases + NEW, 1)))
        y = scale * (rng.standard_t(4, size=(cases + NEW, 3)) @ MIX)
        prediction = ts.Prediction(0 * y, np.broadcast_to(scale**2, y.shape) + 0.0)
        fitted = region.fit(prediction[:cases], y[:cases], shape=shape)
        return float(fitted.contains(prediction[cases:], y[cases:]).mean())

    return held


def quantiles(rng: np.random.Generator, cases: int) -> float:
    """What conformalized quantiles hold: predicted bounds that are too narrow, and not equally so everywhere."""
    x, noise = rng.normal(size=(2, cases + NEW))
    y = x + np.exp(0.5 * x) * rng.standard_t(4, size=x.size)
    ends = -np.exp(0.5 * x) + 0.2 * noise, np.exp(0.4 * x)
    prediction = ts.Prediction(x, 0 * x + 1, bounds=Stated((LEVEL,), *([end] for end in ends)))
    fitted = cqr.fit(prediction[:cases], y[:cases])
    return float(inside(fitted(prediction[cases:]), y[cases:]).mean())


class Known:
    """The true weights of cases whose predictions have moved by `MOVED`."""

    def weights(self, features: np.ndarray) -> np.ndarray:
        return np.exp(MOVED * features[:, 0] - MOVED**2 / 2)


def elsewhere(weights: str) -> Callable[[np.random.Generator, int], float]:
    """What is held at a new site with larger predictions, where errors grow with the prediction."""

    def held(rng: np.random.Generator, cases: int) -> float:
        many = cases + 200 + NEW
        location = rng.normal(size=many) + MOVED * (np.arange(many) >= cases)
        scale = np.exp(0.3 * rng.normal(size=many))
        y = location + scale * (1 + 0.5 * np.maximum(location, 0)) * rng.standard_t(4, size=many)
        prediction = ts.Prediction(location, scale**2)
        old, like, new = slice(0, cases), slice(cases, cases + 200), slice(cases + 200, many)
        given: dict[str, Any] = {}
        features = _shift.features_of(prediction)
        if weights == "known":
            given = {"shift": Known(), "weight": Known().weights(features[old])}
        if weights == "estimated":
            try:
                given = dict(zip(("shift", "weight"), _shift.fit(features[old], features[like])))
            except ValueError:  # an effective size below 30
                return math.nan
        return float(inside(conformal.fit(prediction[old], y[old], **given)(prediction[new]), y[new]).mean())

    return held


def across_folds(rng: np.random.Generator, cases: int) -> float:
    """What CV+ holds: least squares on as many as 10 features, in five folds, and its own residuals as sigma."""
    x = rng.normal(size=(cases + 100, 10))
    y = x @ np.linspace(-1, 1, 10) + np.exp(0.3 * x[:, 0]) * rng.standard_t(4, size=len(x))
    fold, old = np.arange(cases) % 5, slice(0, cases)
    location, variance, members = np.zeros(cases), np.zeros(cases), []
    for k in range(5):
        some = fold != k
        model, *_ = np.linalg.lstsq(x[old][some], y[old][some], rcond=None)
        square = float(((y[old][some] - x[old][some] @ model) ** 2).mean())
        location[~some], variance[~some] = x[old][~some] @ model, square
        members.append((x[cases:] @ model, np.full(100, square)))
    fitted = cv_plus.fit(ts.Prediction(location, variance), y[old], fold=fold)
    made = fitted.of_members(ts.Draws(*(np.stack(column) for column in zip(*members))))
    return float(inside(made, y[cases:]).mean())


PROMISES: dict[str, Callable[[np.random.Generator, int], float]] = {
    "`conformal`": one_output(),
    "`conformal:tails=apart`": one_output(tails="apart"),
    "`conformal:tails=lower`": one_output(tails="lower"),
    "`conformal:tails=upper`": one_output(tails="upper"),
    "`conformal:by=group`, in the hardest site": small_site("group"),
    "one image of a new patient": new_patient("one"),
    "all images of a new patient, `promise=all`": new_patient("all"),
    "`region`, all outputs": all_outputs("ellipsoid"),
    "`region:shape=box`, all outputs": all_outputs("box"),
    "`cqr`": quantiles,
    "`conformal --like`, weights known": elsewhere("known"),
    "`cv_plus` (promises 80)": across_folds,
    "*no promise:* `conformal --like`, weights estimated": elsewhere("estimated"),
    "*no promise:* `conformal`, at the site `--like` is for": elsewhere("none"),
    "*no promise:* `conformal`, in the hardest site": small_site("all"),
}


def measure(seeds: int, sizes: tuple[int, ...] = SIZES, names: Iterable[str] = tuple(PROMISES)) -> list[Row]:
    """Mean coverage of each promise and number of calibration cases, with its Monte-Carlo error."""
    rows = []
    for name in names:
        held = PROMISES[name]
        for cases in sizes:
            found = np.array([held(np.random.default_rng(seed), cases) for seed in range(seeds)])
            found = found[np.isfinite(found)]  # what was refused is not counted
            error = found.std(ddof=1) / math.sqrt(found.size)
            rows.append(
                {"promise": name, "cases": cases, "seeds": found.size, "held": found.mean(), "error": error}
            )
            print(f"{name}, {cases} cases: {found.mean():.4f} +- {error:.4f}", flush=True)
    return rows


World = tuple[np.ndarray, np.ndarray, np.ndarray]  # sigma, error and patient of each case


def knowing(rng: np.random.Generator, cases: int) -> World:
    scale = np.exp(0.5 * rng.normal(size=cases))
    return scale, 0.7 * scale * rng.standard_t(4, size=cases), np.arange(cases)


def senseless(rng: np.random.Generator, cases: int) -> World:
    """Large errors are as frequent as they just may not be, at every sigma: each threshold breaks the promise."""
    scale, _, case = knowing(rng, cases)
    return scale, 2.0 / 1.955 * rng.normal(size=cases), case


def misled(rng: np.random.Generator, cases: int) -> World:
    """The surest are wrong more often than the next."""
    scale, y, case = knowing(rng, cases)
    return scale, np.where(scale < 0.5, 3.0, 1.0) * y, case


def many_images(rng: np.random.Generator, cases: int) -> World:
    """Patients with 1 to 9 images that err alike."""
    sizes = rng.integers(1, 10, size=cases)
    patient = np.repeat(np.arange(cases), sizes)[:cases]
    scale = np.exp(0.4 * rng.normal(size=cases)[patient] + 0.3 * rng.normal(size=cases))
    z = 0.9 * rng.normal(size=cases)[patient] + 0.4 * rng.normal(size=cases)
    return scale, 0.8 * scale * z, patient


WORLDS = {
    "a sigma that knows, errors with heavy tails": knowing,
    "a sigma that says nothing, errors just too frequent": senseless,
    "the surest cases wrong more often than the next": misled,
    "patients with one to nine images": many_images,
}


def referrals(seeds: int, sizes: tuple[int, ...] = (100, 500, 1000, 5000)) -> list[Row]:
    """In how many sets of calibration cases the promise of a referral holds, and how many cases it keeps."""
    rows = []
    for name, world in WORLDS.items():
        scale, y, patient = world(np.random.default_rng(10**6), MANY)
        order = np.argsort(scale)
        patients, shares = _referral._running(abs(y[order]) > 2, patient[order])
        share, known = shares / patients, scale[order]
        if world is senseless:  # known better than from any number of cases
            share[:] = math.erfc(1.955 / math.sqrt(2))
        for cases in sizes:
            held, kept = [], []
            for seed in range(seeds):
                scale, y, patient = world(np.random.default_rng(seed), cases)
                given = {"patient": patient} if world is many_images else {}
                found = _referral.fit(
                    ts.Prediction(0 * y, scale**2), y, tolerance=2.0, risk=RISK, delta=DELTA, **given
                )
                end = 0 if found.threshold is None else int(np.searchsorted(known, found.threshold, "right"))
                kept.append(end / MANY)
                held.append(end == 0 or share[end - 1] <= RISK)
            possible = np.flatnonzero(share <= RISK)
            most = float(possible[-1] + 1) / MANY if possible.size else 0.0
            rows.append({"promise": name, "cases": cases, "seeds": seeds, "held": float(np.mean(held))})
            rows[-1] |= {"kept": float(np.mean(kept)), "most": most}
            print(rows[-1], flush=True)
    return rows


def poses(network: str) -> tuple[ts.Prediction, np.ndarray]:
    """The paper's OCT poses, validation and test cases together; residuals, so that the target is 0."""
    stored = np.load(RESULTS / network / "draws.npz")
    parts = []
    for split in ("valid", "test"):
        mean, log_variance = (
            stored[f"{split}.{name}"][0].astype(float) for name in ("residual", "log_variance")
        )
        parts.append(ts.decompose(ts.Draws(mean, np.exp(log_variance))))
    joined = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("location", "aleatoric", "epistemic")
    )
    prediction = ts.Prediction(*joined)
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
                    one = ts.Prediction(
                        *(getattr(prediction, n)[:, k] for n in ("location", "aleatoric", "epistemic"))
                    )
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
            parts.append((ts.Prediction(mu, sd**2), target, np.digitize(mu, AGES).astype(str)))
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


def tables() -> dict[str, str]:
    """The tables of the page, from the numbers that were written."""
    held = {(r["promise"], int(r["cases"])): r for r in read("guarantees.csv")}
    lines = ["| | " + " | ".join(f"{n:,}" for n in SIZES) + " |", "| --- |" + " ---: |" * len(SIZES)]
    for name in PROMISES:
        cells = [f"{100 * held[name, n]['held']:.1f} ± {100 * held[name, n]['error']:.1f}" for n in SIZES]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    head = "| | cases | ellipsoid | box | Bonferroni | volume of the ellipsoid | of the box |"
    ages = ["| | off by | `sigma` | `sigma_by_group` | `conformal:by=group` |", "| --- |" + " ---: |" * 4]
    for r in read("bands.csv"):
        shares = [f"{100 * r[n]:.1f}" for n in ("sigma", "sigma_by_group", "conformal")]
        ages.append(f"| {r['network']}, {r['band']} | {r['off']:.2f} | " + " | ".join(shares) + " |")
    poses = [head, "| --- |" + " ---: |" * 6]
    for r in read("regions.csv"):
        # Where Bonferroni's box is infinite there is nothing to compare with.
        volumes = [f"{r[n]:.2f}" if r[n] > 0 else "–" for n in ("ellipsoid_volume", "box_volume")]
        shares = [f"{100 * r[n]:.1f}" for n in ("ellipsoid", "box", "bonferroni")]
        poses.append(f"| {r['network']} | {int(r['cases'])} | " + " | ".join([*shares, *volumes]) + " |")
    refer = ["| | cases | promise holds | kept | most that could be |", "| --- |" + " ---: |" * 4]
    for r in read("referral.csv"):
        shares = [f"{100 * r[n]:.1f}" for n in ("held", "kept", "most")]
        refer.append(f"| {r['promise']} | {int(r['cases']):,} | " + " | ".join(shares) + " |")
    lines = {"referral": "\n".join(refer), "guarantees": "\n".join(lines)}
    return {**lines, "regions": "\n".join(poses), "bands": "\n".join(ages)}


def read(name: str) -> list[Row]:
    with (ASSETS / name).open(newline="", encoding="utf-8") as lines:
        words = ("promise", "network", "band")
        return [{k: v if k in words else float(v) for k, v in row.items()} for row in csv.DictReader(lines)]


def write(name: str, rows: list[Row]) -> None:
    text = io.StringIO()
    out = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    out.writeheader()
    out.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    write_atomically(ASSETS / name, lambda part: part.write_text(text.getvalue(), encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument(
        "--data", type=Path, help="folder with predictions/*_boneage.npz, for the bands of age"
    )
    given = parser.parse_args()
    if given.data:
        write("bands.csv", bands(given.data))
    write("referral.csv", referrals(given.seeds))
    write("guarantees.csv", measure(given.seeds))
    write("regions.csv", regions(given.splits))


if __name__ == "__main__":
    main()
