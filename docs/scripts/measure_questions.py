"""How often UCE and ENCE lie above their range: python docs/scripts/measure_questions.py [--sets 1000] [--jobs 8]

Draws test sets from models that are true, and whose sigma is 1.5 times too small; errors are Normal, Laplace or t
with 5 degrees, by case or by patients whose ten images, or one to 50, err together. Writes
`assets/questions.csv`; `report.md` shows it. What verdicts do is measured by `measure_verdicts.py`.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from measured import Simulation, shares, simulate

import truesigma as ts
from truesigma.evaluation.chance import calibrated_range

IMAGES = 10  # of a patient
UNEVEN = "1 to 50 images"
SHARED = 0.5  # of the variance of their errors
LAWS = {
    "Normal": ("normal", ts.Normal()),
    "Laplace": ("laplace", ts.Laplace()),
    "t5 stated as Normal": ("t5", ts.Normal()),
}
OF_PATIENTS = {"cases": False, "patients": True, f"patients, {UNEVEN}": UNEVEN}
SETS = {  # law of the errors, law that is stated, cases, whether they are of patients
    f"{law}, {count:,} {unit}": (*LAWS[law], count, OF_PATIENTS[unit])
    for law, unit, counts in (
        ("Normal", "cases", (10, 20, 200, 1000)),
        ("Normal", "patients", (40,)),
        ("Normal", f"patients, {UNEVEN}", (40,)),
        ("Normal", "patients", (200,)),
        ("Laplace", "cases", (200, 1000)),
        ("Laplace", "patients", (40,)),
        ("t5 stated as Normal", "cases", (1000,)),
        ("t5 stated as Normal", "patients", (200,)),
    )
    for count in counts
}


def whose_of(rng: np.random.Generator, units: int, patients: bool | str) -> np.ndarray | None:
    """The patient of each case."""
    images = rng.integers(1, 51, units) if patients == UNEVEN else IMAGES
    return np.repeat(np.arange(units), images) if patients else None


def errors(rng: np.random.Generator, law: str, units: int, whose: np.ndarray | None) -> np.ndarray:
    """Errors of variance 1; a patient's share a part, and keep the law of one of the two parts."""

    def draw(count: int) -> np.ndarray:
        if law == "laplace":
            return rng.laplace(size=count) / np.sqrt(2)
        return rng.standard_t(5, size=count) * np.sqrt(0.6) if law == "t5" else rng.normal(size=count)

    if whose is None:
        return draw(units)
    # The size of the errors, or their sign, is that of the patient: every single error keeps its law.
    own, common = draw(whose.size), draw(units)
    return np.where(rng.uniform(size=own.size) < SHARED, common[whose], own)


def cases(rng: np.random.Generator, kind: tuple[str, ts.Law, int, bool | str], small: float) -> ts.Cases:
    """Cases of a kind, true but for a sigma that is `small` times too small."""
    law, stated, units, patients = kind
    patient = whose_of(rng, units, patients)
    z = errors(rng, law, units, patient)
    sigma, mu = np.exp(0.4 * rng.normal(size=z.shape)), 3 * rng.normal(size=z.shape)
    prediction = ts.Prediction(mu, aleatoric=(sigma / small) ** 2, law=stated)
    return ts.Cases(prediction, mu + sigma * z, patient=patient)


def above(seed: int, kind: tuple[str, ts.Law, int, bool | str], small: float) -> set[str]:
    """Which of UCE and ENCE lie above the range of chance."""
    test = cases(np.random.default_rng(seed), kind, small)
    names = ("uce", "ence")
    ranges = calibrated_range(test, [(name, {}) for name in names], grouped=kind[3], seed=seed)
    scores = {n: getattr(ts.metrics, n).score(test.prediction, test.target) for n in names}
    return {name for name, found in zip(names, ranges) if found is None or scores[name] > found[1]}


def both(seed: int, kind: tuple[str, ts.Law, int, bool | str]) -> dict[str, float]:
    found = {}
    for small, words in ((1.0, "true"), (1.5, "1.5 times too small")):
        high = above(seed, kind, small)
        found |= {f"{name.upper()}, {words}": name in high for name in ("uce", "ence")}
    return found


def simulations() -> Iterator[Simulation]:
    for name, kind in SETS.items():
        yield Simulation("above", name, partial(both, kind=kind))


def table() -> str:
    """The table of the page."""
    return shares("questions.csv", "above", title="above the range")


if __name__ == "__main__":
    simulate(__doc__, "questions.csv", simulations())
