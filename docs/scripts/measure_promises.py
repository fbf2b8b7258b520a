"""Joint regions and averages: python docs/scripts/measure_promises.py [--sets 1000]

Whether `region`, `conformal` and a referral hold what they promise, of the average that they name: each row is 1,000
sets of calibration cases with 1,000 new cases each. `guarantees.md` shows the tables.
"""

import argparse
from collections.abc import Callable

import numpy as np

import truesigma as ts
from truesigma.recalibrate import region

NEW = 1000
World = Callable[[np.random.Generator, int], np.ndarray]  # z, (case, output)


def ties(rng: np.random.Generator, cases: int) -> np.ndarray:
    """A constant sigma and errors in whole numbers."""
    return np.round(rng.normal(size=(cases, 2)))


def outliers(rng: np.random.Generator, cases: int) -> np.ndarray:
    """The same, and three in a hundred are gross."""
    gross = rng.uniform(size=(cases, 1)) < 0.03
    return np.where(gross, np.round(30 * rng.normal(size=(cases, 2))), ties(rng, cases))


def nearly_tied(rng: np.random.Generator, cases: int) -> np.ndarray:
    """All errors have nearly the same length."""
    z = rng.normal(size=(cases, 2))
    return z / np.linalg.norm(z, axis=1, keepdims=True) * (1 + 1e-9 * rng.normal(size=(cases, 1)))


def together(outputs: int) -> World:
    """Normal errors that share a part, of sizes between 1 and 3."""

    def draw(rng: np.random.Generator, cases: int) -> np.ndarray:
        z = 0.7 * rng.normal(size=(cases, 1)) + 0.7 * rng.normal(size=(cases, outputs))
        return z * np.linspace(1, 3, outputs)

    return draw


REGIONS = {
    "errors of one length, 2 outputs": (nearly_tied, (9, 50, 500)),
    "whole errors, constant sigma": (ties, (9, 50, 500)),
    "whole errors, 3 % gross": (outliers, (9, 50, 500)),
    "errors together, 2 outputs": (together(2), (9, 20, 50, 500)),
    "errors together, 6 outputs": (together(6), (9, 50, 500)),
    "errors together, 20 outputs": (together(20), (9, 50, 500)),
}


def regions(sets: int) -> None:
    print("| region at 90 % | cases | ellipsoid | box | infinite |\n| --- | ---: | ---: | ---: | ---: |")
    for name, (world, sizes) in REGIONS.items():
        for cases in sizes:
            held, infinite = np.zeros((sets, 2)), 0
            for seed in range(sets):
                rng = np.random.default_rng(seed)
                old, new = world(rng, cases), world(rng, NEW)
                for k, shape in enumerate(("ellipsoid", "box")):
                    p = ts.Prediction(0 * old, aleatoric=0 * old + 1)
                    try:
                        fitted = region.fit(p, old, shape=shape)
                    except ValueError:  # an output whose errors are all 0
                        held[seed, k] = np.nan
                        continue
                    held[seed, k] = fitted.contains(ts.Prediction(0 * new, aleatoric=0 * new + 1), new).mean()
                    infinite += fitted.bound() == np.inf
            mean = 100 * np.nanmean(held, axis=0)
            print(
                f"| {name} | {cases} | {mean[0]:.1f} % | {mean[1]:.1f} % | {infinite / (2 * sets):.0%} |",
                flush=True,
            )


LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {  # of variance 1
    "Normal": lambda rng, n: rng.normal(size=n),
    "Laplace": lambda rng, n: rng.laplace(size=n) / np.sqrt(2),
    "t3": lambda rng, n: rng.standard_t(3, size=n) / np.sqrt(3),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "uniform": lambda rng, n: rng.uniform(-np.sqrt(3), np.sqrt(3), size=n),
    "Normal, 1 % gross": lambda rng, n: rng.normal(size=n) * np.where(rng.uniform(size=n) < 0.01, 20, 1),
}


def choices(sets: int) -> None:
    """How often `compare` keeps none, and how much more CRPS than the better of both its choice has on new cases."""
    print("\n| law | sigma too small by | cases | none kept | regret |\n| --- | ---: | ---: | ---: | ---: |")
    for law, draw in LAWS.items():
        for small in (1.0, 1.1, 1.3):
            for cases in (30, 100):
                kept, chosen, best = 0, 0.0, np.zeros(2)
                for seed in range(sets):
                    rng = np.random.default_rng(seed)
                    sigma = np.exp(0.4 * rng.normal(size=cases + NEW))
                    y = sigma * draw(rng, cases + NEW)
                    p = ts.Prediction(0 * y, aleatoric=(sigma / small) ** 2)
                    known = ts.Cases(p[:cases], y[:cases])
                    found = ts.compare(known, recalibrations=["none", "sigma"], replicates=2)
                    both = [
                        ts.metrics.crps.score(r(p[cases:]), y[cases:]) for r in found.recalibrations.values()
                    ]
                    best += both
                    chosen += both[found.choice != "none"]
                    kept += found.choice == "none"
                regret = chosen / best.min() - 1
                print(f"| {law} | {small} | {cases} | {kept / sets:.1%} | {regret:.2%} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    for key, measure in {"regions": regions, "choices": choices}.items():
        if asked.only in ("", key):
            measure(asked.sets)


if __name__ == "__main__":
    main()
