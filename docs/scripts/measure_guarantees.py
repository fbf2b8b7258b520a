"""What every promise covers: python docs/scripts/measure_guarantees.py [--sets 1000] [--row 500] [--jobs 8]

Simulated cases whose truth is known, with heavy tails, a bias, sites of different difficulty, patients with several
images, and three outputs that err together. Writes `assets/guarantees.csv`; `guarantees.md` shows it.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from measured import Simulation, markdown, simulate, simulated

import truesigma as ts
from truesigma.core.laws import Stated
from truesigma.recalibrate import _shift, conformal, cqr, cv_plus, region

SIZES = (50, 100, 500, 1000, 5000)
LEVEL, NEW, MOVED = 0.9, 500, 0.5
SITES = {"large": 0.5, "middle": 0.3, "small": 0.2}  # shares of the cases; the small one errs twice as much
MIX = np.array([[1.0, 0.8, 0.3], [0.0, 0.6, 0.2], [0.0, 0.0, 2.0]])


def errors(rng: np.random.Generator, cases: int) -> tuple[ts.Prediction, np.ndarray]:
    """Cases whose errors have heavy tails, a skew and a bias, in units of a sigma that differs from case to case."""
    scale = np.exp(0.5 * rng.normal(size=cases))
    z = 0.3 + rng.standard_t(4, size=cases) + 0.5 * (rng.gamma(2.0, 1.0, size=cases) - 2.0)
    return ts.Prediction(np.zeros(cases), aleatoric=scale**2), scale * z


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
        prediction = ts.Prediction(0 * z, aleatoric=0 * z + 1)
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
        prediction = ts.Prediction(0 * y, aleatoric=np.broadcast_to(scale**2, y.shape) + 0.0)
        fitted = region.fit(prediction[:cases], y[:cases], shape=shape)
        return float(fitted.contains(prediction[cases:], y[cases:]).mean())

    return held


def quantiles(rng: np.random.Generator, cases: int) -> float:
    """What conformalized quantiles hold: predicted bounds that are too narrow, and not equally so everywhere."""
    x, noise = rng.normal(size=(2, cases + NEW))
    y = x + np.exp(0.5 * x) * rng.standard_t(4, size=x.size)
    ends = -np.exp(0.5 * x) + 0.2 * noise, np.exp(0.4 * x)
    prediction = ts.Prediction(x, aleatoric=0 * x + 1, law=Stated((LEVEL,), *(end[:, None] for end in ends)))
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
        prediction = ts.Prediction(location, aleatoric=scale**2)
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
    fitted = cv_plus.fit(ts.Prediction(location, aleatoric=variance), y[old], fold=fold)
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


def drawn(seed: int, name: str, cases: int) -> dict[str, float]:
    return {"held": PROMISES[name](np.random.default_rng(seed), cases)}


def simulations(sizes: tuple[int, ...] = SIZES) -> Iterator[Simulation]:
    """Mean coverage of each promise and number of calibration cases."""
    for name in PROMISES:
        for cases in sizes:
            yield Simulation(str(cases), name, partial(drawn, name=name, cases=cases))


def table() -> str:
    """The table of the page: promises down, numbers of calibration cases across."""
    held = {n: simulated("guarantees.csv", str(n)) for n in SIZES}
    rows = [
        [
            name,
            *(
                f"{100 * mean:.1f} ± {100 * error:.1f}"
                for n in SIZES
                for mean, error in [held[n][name]["held"]]
            ),
        ]
        for name in PROMISES
    ]
    return markdown("| | " + " | ".join(f"{n:,}" for n in SIZES) + " |", rows)


if __name__ == "__main__":
    simulate(__doc__, "guarantees.csv", simulations())
