"""How often each verdict is "off": python docs/scripts/measure_questions.py [seeds] [processes]

Draws calibration and test sets from models that are true, for false alarms, and from models with one fault each, for
power (a quarter as many seeds); errors are Normal, Laplace or Student's t with 5 degrees, by case or by patients whose
ten images, or one to 50, err together. Then how often any of three outputs, or of five sites, is called off for a true
model, and how often UCE and ENCE lie above their range, for a true model and for a sigma that is 1.5 times too small.
`report.md` quotes the tables.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import truesigma as ts
from truesigma.evaluation.chance import calibrated_range
from truesigma.evaluation.questions import QUESTIONS, questions

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


def cases(
    rng: np.random.Generator,
    kind: tuple[str, ts.Law, int, bool | str],
    fault: str = "",
    *,
    outputs: int = 1,
    sites: int = 0,
    small: float = 1.0,
) -> ts.Cases:
    """Cases of a kind, true but for the fault, and for a sigma that is `small` times too small."""
    law, stated, units, patients = kind
    patient = whose_of(rng, units, patients)
    z = np.stack([errors(rng, law, units, patient) for _ in range(outputs)], axis=1)
    z = z[:, 0] if outputs == 1 else z
    sigma, mu = np.exp(0.4 * rng.normal(size=z.shape)), 3 * rng.normal(size=z.shape)
    y = mu + sigma * z
    mu, sigma, y = FAULTS[fault][1](mu, sigma, y) if fault else (mu, sigma, y)
    group = np.arange(len(z)) // IMAGES % sites if sites else None
    return ts.Cases(
        ts.Prediction(mu, aleatoric=(sigma / small) ** 2, law=stated), y, patient=patient, group=group
    )


def answered(
    seed: int, kind: tuple[str, ts.Law, int, bool | str], fault: str = "", **more: int
) -> list[dict]:
    """Rows of the questions about one pair of sets, before and after sigma scaling."""
    rng = np.random.default_rng(seed)
    # A fault of the size is one of the test cases alone after scaling, so that power is that of "disagree".
    calibration, test = cases(rng, kind, **more), cases(rng, kind, fault, **more)
    fitted = ts.recalibrate.sigma.fit(calibration.prediction, calibration.target, patient=calibration.patient)
    pairs = {
        "none": (calibration.prediction, test.prediction),
        "sigma": (fitted(calibration.prediction), fitted(test.prediction)),
    }
    return questions(calibration, test, pairs, by="patient" if kind[3] else "case")


def off(seed: int, **about: object) -> set[str]:
    """Which questions are answered by "off": before, and size also after sigma scaling."""
    found = set()
    for row in answered(seed, **about):
        if row["verdict"] == "off" and (row["recalibration"] == "none" or row["question"] == "size"):
            found.add(row["question"] + (" after" if row["recalibration"] == "sigma" else ""))
    return found


def any_off(seed: int, **about: object) -> set[str]:
    """Which questions are answered by "off" for any part (an output, or a site) of all."""
    rows = answered(seed, **about)
    return {
        row["question"]
        for row in rows
        if row["recalibration"] == "none"
        and row["verdict"] == "off"
        and (row["output"], row["group"]) != (None, None)
    }


def above(seed: int, kind: tuple[str, ts.Law, int, bool | str], small: float) -> set[str]:
    """Which of UCE and ENCE lie above the range of chance."""
    test = cases(np.random.default_rng(seed), kind, small=small)
    names = ("uce", "ence")
    ranges = calibrated_range(test, [(name, {}) for name in names], grouped=kind[3], seed=seed)
    scores = {n: getattr(ts.metrics, n).score(test.prediction, test.target) for n in names}
    return {name for name, found in zip(names, ranges) if found is None or scores[name] > found[1]}


def shares(task: Callable[[int], set[str]], seeds: int, columns: Iterable[str], pool: object) -> list[str]:
    found: Counter[str] = Counter()
    for one in pool.map(task, range(seeds), chunksize=max(1, seeds // 200)):
        found.update(one)
    return [f"{100 * found[column] / seeds:.1f} %" for column in columns]


def rows_of(title: str, columns: list[str], lines: Iterable[tuple[str, list[str]]]) -> Iterable[str]:
    yield f"| {title} | " + " | ".join(columns) + " |"
    yield "| --- |" + " ---: |" * len(columns)
    for name, cells in lines:
        yield f"| {name} | " + " | ".join(cells) + " |"


def tables(seeds: int, pool: object) -> Iterable[str]:
    """Every table in Markdown, line by line, as they are ready."""
    columns = [*QUESTIONS, "size after"]
    levels = ((name, shares(partial(off, kind=kind), seeds, columns, pool)) for name, kind in SETS.items())
    yield from rows_of("true model", columns, levels)
    parts = {"three outputs": {"outputs": 3}, "five sites": {"sites": 5}}
    families = (
        (f"{name}, {part}", shares(partial(any_off, kind=kind, **more), seeds, QUESTIONS, pool))
        for part, more in parts.items()
        for name, kind in SETS.items()
        if "1,000" in name or "200 patients" in name
    )
    yield from ("", *rows_of("true model, any part", list(QUESTIONS), families))
    fewer = max(seeds // 4, 20)
    sizes = (
        (
            name,
            [
                share
                for small in (1.0, 1.5)
                for share in shares(partial(above, kind=kind, small=small), fewer, ("uce", "ence"), pool)
            ],
        )
        for name, kind in SETS.items()
    )
    heads = ["UCE, true", "ENCE, true", "UCE, 1.5 times too small", "ENCE, 1.5 times too small"]
    yield from ("", *rows_of("above the range", heads, sizes))
    powers = (
        (
            fault,
            [shares(partial(off, kind=kind, fault=fault), fewer, [asked], pool)[0] for kind in SETS.values()],
        )
        for fault, (asked, _) in FAULTS.items()
    )
    yield from ("", *rows_of("fault", list(SETS), powers))


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    with ProcessPoolExecutor(given[1] if len(given) > 1 else 1) as pool:
        for line in tables(given[0] if given else 2000, pool):
            print(line, flush=True)
