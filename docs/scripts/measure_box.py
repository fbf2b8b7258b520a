"""How often the report's box "A true sigma would seldom give this" is chance: python docs/scripts/measure_box.py

Draws sets whose sigma is true, 600 cases to fit on and 1000 to report about, or as many patients for both, and counts
the reports that show the box. `report.md` quotes the counts.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

import truesigma as ts
from truesigma.report import report

SPREADS = (0.1, 0.5, 1.0)  # nearly the same sigma everywhere, or one that varies over two decades
PATIENTS = ((100, 10), (40, 25))  # how many, and the images of each, whose errors correlate by 0.8
Draw = Callable[[np.random.Generator], ts.Cases]
BOX = "A true sigma would seldom give this"


def cases(rng: np.random.Generator, count: int, spread: float) -> ts.Cases:
    """Normal errors with the sigma that is predicted, whose logarithm differs by so much from case to case."""
    sigma = np.exp(spread * rng.normal(size=count))
    return ts.Cases(ts.Prediction(np.zeros(count), sigma**2), sigma * rng.normal(size=count))


def patients(rng: np.random.Generator, count: int, images: int) -> ts.Cases:
    """The same with images of patients, which err together."""
    sigma = np.exp(0.5 * rng.normal(size=count * images))
    z = np.sqrt(0.8) * np.repeat(rng.normal(size=count), images) + np.sqrt(0.2) * rng.normal(size=sigma.size)
    return ts.Cases(ts.Prediction(0 * z, sigma**2), sigma * z, group=np.repeat(np.arange(count), images))


def boxes(fitted: Draw, tested: Draw, sets: int = 100) -> int:
    """The number of sets, drawn to fit on and to report about, whose report shows the box."""
    found = 0
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        found += BOX in report(fitted(rng), tested(rng)).page
    return found


if __name__ == "__main__":
    for spread in SPREADS:
        made = boxes(*(partial(cases, count=count, spread=spread) for count in (600, 1000)))
        print(f"sigma spread by {spread}: {made} of 100 reports show the box")
    for count, images in PATIENTS:
        made = boxes(*[partial(patients, count=count, images=images)] * 2)
        print(f"{count} patients of {images} images: {made} of 100 reports show the box")
