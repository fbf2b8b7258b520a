"""How often each verdict is "off": python docs/scripts/measure_questions.py [seeds]

Draws calibration and test sets from models that are true, for false alarms, and from models with one fault each, for
power; errors are Normal, Laplace or Student's t with 5 degrees, by case or by patients whose ten images err together.
`report.md` quotes the table.
"""

import sys
from collections import Counter
from collections.abc import Callable

import numpy as np

import truesigma as ts
from truesigma.evaluation.questions import QUESTIONS, questions

IMAGES = 10  # of a patient
SHARED = 0.5  # of the variance of their errors
SETS = {  # law of the errors, law that is stated, cases, whether they are of patients
    "Normal, 200 cases": ("normal", ts.Normal(), 200, False),
    "Normal, 1,000 cases": ("normal", ts.Normal(), 1000, False),
    "Normal, 40 patients": ("normal", ts.Normal(), 40, True),
    "Normal, 200 patients": ("normal", ts.Normal(), 200, True),
    "Laplace, 200 cases": ("laplace", ts.Laplace(), 200, False),
    "Laplace, 1,000 cases": ("laplace", ts.Laplace(), 1000, False),
    "Laplace, 40 patients": ("laplace", ts.Laplace(), 40, True),
    "t5 stated as Normal, 1,000 cases": ("t5", ts.Normal(), 1000, False),
    "t5 stated as Normal, 200 patients": ("t5", ts.Normal(), 200, True),
}
FAULTS: dict[str, tuple[str, Callable[..., tuple[np.ndarray, ...]]]] = {
    "skill: predictions say nothing": ("skill", lambda mu, sigma, y: (0 * mu, sigma, y)),
    "centre: too low by 0.3 sigma": ("centre", lambda mu, sigma, y: (mu - 0.3 * sigma, sigma, y)),
    "size: sigma 1.25 times too small": ("size", lambda mu, sigma, y: (mu, sigma / 1.25, y)),
    "knowing: sigma of another case": ("knowing", lambda mu, sigma, y: (mu, np.roll(sigma, IMAGES), y)),
    "shape: half of the errors a third": ("shape", lambda mu, sigma, y: (y + _thinned(mu - y), sigma, y)),
}


def _thinned(error: np.ndarray) -> np.ndarray:
    half = np.arange(len(error)) // IMAGES % 2 == 0
    return np.where(half, error / 3, error * np.sqrt(2 - 1 / 9))


def errors(rng: np.random.Generator, law: str, units: int, patients: bool) -> np.ndarray:
    """Errors of variance 1; a patient's share a part, and keep the law of one of the two parts."""

    def draw(count: int) -> np.ndarray:
        if law == "laplace":
            return rng.laplace(size=count) / np.sqrt(2)
        return rng.standard_t(5, size=count) * np.sqrt(0.6) if law == "t5" else rng.normal(size=count)

    if not patients:
        return draw(units)
    # The size of the errors, or their sign, is that of the patient: every single error keeps its law.
    whose = np.repeat(np.arange(units), IMAGES)
    own, common = draw(units * IMAGES), draw(units)
    return np.where(rng.uniform(size=own.size) < SHARED, common[whose], own)


def cases(rng: np.random.Generator, kind: tuple[str, ts.Law, int, bool], fault: str = "") -> ts.Cases:
    """Cases of a kind, true but for the fault."""
    law, stated, units, patients = kind
    z = errors(rng, law, units, patients)
    sigma, mu = np.exp(0.4 * rng.normal(size=z.size)), 3 * rng.normal(size=z.size)
    y = mu + sigma * z
    mu, sigma, y = FAULTS[fault][1](mu, sigma, y) if fault else (mu, sigma, y)
    group = np.repeat(np.arange(units), IMAGES) if patients else None
    return ts.Cases(ts.Prediction(mu, sigma**2, law=stated), y, group=group)


def off(kind: tuple[str, ts.Law, int, bool], seeds: int, fault: str = "") -> Counter[str]:
    """How often each question is answered by "off": before, and size also after sigma scaling."""
    found: Counter[str] = Counter()
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        # A fault of the size is one of the test cases alone after scaling, so that power is that of "disagree".
        calibration, test = cases(rng, kind), cases(rng, kind, fault)
        fitted = ts.recalibrate.sigma.fit(calibration.prediction, calibration.target, group=calibration.group)
        pairs = {
            "none": (calibration.prediction, test.prediction),
            "sigma": (fitted(calibration.prediction), fitted(test.prediction)),
        }
        by = "group" if kind[3] else "case"
        for row in questions(calibration, test, pairs, by=by):
            if row["verdict"] == "off" and (row["recalibration"] == "none" or row["question"] == "size"):
                after = " after" if row["recalibration"] == "sigma" else ""
                found[row["question"] + after] += 1
    return found


def table(seeds: int) -> str:
    """False alarms of every verdict, then the power against its own fault, as a table in Markdown."""
    columns = [*QUESTIONS, "size after"]
    lines = ["| true model | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for name, kind in SETS.items():
        found = off(kind, seeds)
        shares = [f"{100 * found[column] / seeds:.1f} %" for column in columns]
        lines.append(f"| {name} | " + " | ".join(shares) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    lines += ["", "| fault | " + " | ".join(SETS) + " |", "| --- |" + " ---: |" * len(SETS)]
    for fault, (question, _) in FAULTS.items():
        shares = []
        for kind in SETS.values():
            found = off(kind, max(seeds // 10, 20), fault)
            shares.append(f"{100 * found[question] / max(seeds // 10, 20):.0f} %")
        lines.append(f"| {fault} | " + " | ".join(shares) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
