"""How often the report's box "A true sigma would seldom give this" is chance: python docs/measure_box.py

Draws sets whose sigma is true, 600 cases to fit on and 1000 to report about, and counts the reports that show the box.
`report.md` quotes the count.
"""

import numpy as np

import truesigma as ts
from truesigma.report import report

SPREADS = (0.1, 0.5, 1.0)  # nearly the same sigma everywhere, or one that varies over two decades
BOX = "A true sigma would seldom give this"


def cases(rng: np.random.Generator, count: int, spread: float) -> ts.Cases:
    """Normal errors with the sigma that is predicted, whose logarithm differs by so much from case to case."""
    sigma = np.exp(spread * rng.normal(size=count))
    return ts.Cases(ts.Prediction(np.zeros(count), sigma**2), sigma * rng.normal(size=count))


def boxes(spread: float, sets: int = 100) -> int:
    """The number of such sets whose report shows the box."""
    found = 0
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        found += BOX in report(cases(rng, 600, spread), cases(rng, 1000, spread)).page
    return found


if __name__ == "__main__":
    for spread in SPREADS:
        print(f"sigma spread by {spread}: {boxes(spread)} of 100 reports show the box")
