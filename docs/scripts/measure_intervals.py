"""How often 95 % intervals hold the truth: python docs/scripts/measure_intervals.py

Draws sets whose truth is known: the factor's interval, bootstrap intervals of scores by case and by patient, and the
choice between `none` and `sigma`. `cases.md`, `report.md` and `choosing.md` quote the shares.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

import truesigma as ts
from truesigma.evaluation.bootstrap import bootstrap

SCORES = ["coverage:level=0.9", "rmse", "crps"]
Errors = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(size=count)


def heavy(rng: np.random.Generator, count: int) -> np.ndarray:
    """Student's t with 5 degrees of freedom, of variance 1."""
    return rng.standard_t(5, size=count) * 0.6**0.5


def cases(
    rng: np.random.Generator, count: int, *, images: int = 1, errors: Errors = normal, off: float = 1.0
) -> ts.Cases:
    """So many patients with images each, whose errors correlate by 0.8; sigma is too small by the factor `off`."""
    shared = 0.8 if images > 1 else 0.0
    sigma = np.exp(0.5 * np.repeat(rng.normal(size=count), images))
    own, common = errors(rng, count * images), np.repeat(errors(rng, count), images)
    y = off * sigma * (shared**0.5 * common + (1 - shared) ** 0.5 * own)
    group = np.repeat(np.arange(count), images) if images > 1 else None
    return ts.Cases(ts.Prediction(0 * y, aleatoric=sigma**2), y, group=group)


def factor_holds(count: int, errors: Errors, sets: int = 4000) -> float:
    """Share of sets whose interval of the factor, Student's t on log s, holds the true one: 1."""
    found = 0
    for seed in range(sets):
        one = cases(np.random.default_rng(seed), count, errors=errors)
        fitted = ts.recalibrate.sigma.fit(one.prediction, one.target)
        reach = stdtrit(count - 1, 0.975) * fitted.standard_error / fitted.factor
        found += abs(np.log(fitted.factor)) <= reach
    return found / sets


def scores_hold(count: int, *, images: int = 1, by: str = "case", sets: int = 1000) -> dict[str, float]:
    """Share of sets whose bootstrap interval of each score holds that of endless cases."""
    large = cases(np.random.default_rng(10**6), 2_000_000)
    truth = [e.value for e in bootstrap(large, SCORES, replicates=2)]
    found = np.zeros(len(SCORES))
    for seed in range(sets):
        drawn = bootstrap(
            cases(np.random.default_rng(seed), count, images=images), SCORES, by=by, seed=sets + seed
        )
        found += [e.low <= value <= e.high for e, value in zip(drawn, truth)]
    return dict(zip(SCORES, found / sets))


if __name__ == "__main__":
    for count in (10, 20, 50, 100, 500):
        held = [f"{100 * factor_holds(count, errors):.0f} %" for errors in (normal, heavy)]
        print(f"{count} cases: the factor's interval holds it in {held[0]} (Normal), {held[1]} (heavy tails)")
    settings = [(n, 1, "case") for n in (20, 50, 200, 1000)]
    settings += [(n, 10, "group") for n in (10, 20, 50, 100)] + [(15, 10, "case")]
    for count, images, by in settings:
        held = {
            name: f"{100 * share:.0f} %" for name, share in scores_hold(count, images=images, by=by).items()
        }
        print(f"{count} patients, {images} images each, by {by}: {held}")
