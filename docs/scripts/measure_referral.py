"""Whether a referral keeps its promise: python docs/scripts/measure_referral.py [--sets 1000] [--row ...] [--jobs 8]

Simulated worlds in which the truth is known: one where sigma knows, one where every threshold breaks the promise, one
where errors are rare, one where the surest are wrong more often, and some of patients. Writes `assets/referral.csv`;
`guarantees.md` shows it.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from measured import Simulation, markdown, simulate, simulated

import truesigma as ts
from truesigma.recalibrate import _referral

TOLERANCE, RISK, DELTA, MANY = 2.0, 0.05, 0.05, 1_000_000  # MANY cases tell the truth
SIZES = (100, 500, 1000, 5000)
MOST = 30  # images of a patient, at most
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


def rare(rng: np.random.Generator, cases: int) -> World:
    """Large errors are rare, and as frequent at every sigma: in 2 % of the cases."""
    scale, _, case = knowing(rng, cases)
    return scale, 2.0 / 2.3263 * rng.normal(size=cases), case


def uneven(rng: np.random.Generator, cases: int) -> World:
    """Patients with 1 to 30 images; those with more than 20 err twice as much, and sigma knows a part of it."""
    sizes = rng.integers(1, MOST + 1, size=cases)
    patient = np.repeat(np.arange(cases), sizes)[:cases]
    hard = np.where(sizes[patient] > 20, 2.0, 1.0)
    scale = np.sqrt(hard) * np.exp(0.3 * rng.normal(size=cases))
    z = 0.7 * rng.normal(size=cases)[patient] + 0.4 * rng.normal(size=cases)
    return scale, 0.8 * hard * z, patient


WORLDS: dict[str, tuple[Callable[[np.random.Generator, int], World], tuple[int, ...], dict[str, Any]]] = {
    "a sigma that knows, errors with heavy tails": (knowing, SIZES, {}),
    "a sigma that says nothing, errors just too frequent": (senseless, SIZES, {}),
    "a sigma that says nothing, 2 % off": (rare, (400, *SIZES[2:]), {}),
    "the surest cases wrong more often than the next": (misled, SIZES, {}),
    "patients with one to nine images": (many_images, SIZES, {"patient": True}),
    "patients with many images err more; of a patient's cases": (uneven, (1000, 5000), {"patient": True}),
    f"patients with many images err more; of all cases, `most={MOST}`": (
        uneven,
        (5000, 20_000),
        {"patient": True, "most": MOST},
    ),
}


@lru_cache(maxsize=1)
def truth(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Sigma of many cases, rising, and the share of large errors up to each: of the cases, or the patients' mean."""
    world, _, options = WORLDS[name]
    scale, y, patient = world(np.random.default_rng(10**6), MANY)
    order = np.argsort(scale)
    wrong = abs(y[order]) > TOLERANCE
    if options == {"patient": True}:
        patients, held = _referral._running(wrong, patient[order])
        share = held / patients
    else:
        share = np.cumsum(wrong) / np.arange(1, MANY + 1)
    known = {senseless: math.erfc(1.955 / math.sqrt(2)), rare: 0.02}  # better than from any number of cases
    return scale[order], np.full(MANY, known[world]) if world in known else share


def referred(seed: int, name: str, cases: int) -> dict[str, float]:
    """Whether a threshold is given and the promise holds, and how many cases are kept."""
    world, _, options = WORLDS[name]
    sigma, share = truth(name)
    scale, y, patient = world(np.random.default_rng(seed), cases)
    given = {**options, "patient": patient} if options else {}
    prediction = ts.Prediction(0 * y, aleatoric=scale**2)
    found = _referral.fit(prediction, y, tolerance=TOLERANCE, risk=RISK, delta=DELTA, **given)
    end = 0 if found.threshold is None else int(np.searchsorted(sigma, found.threshold, "right"))
    possible = np.flatnonzero(share <= RISK)
    return {
        "holds": end == 0 or share[end - 1] <= RISK,
        "given": found.threshold is not None,
        "kept": end / MANY,
        "most": float(possible[-1] + 1) / MANY if possible.size else 0.0,
    }


def simulations() -> Iterator[Simulation]:
    for name, (_, sizes, _) in WORLDS.items():
        for cases in sizes:
            yield Simulation(name, f"{cases:,}", partial(referred, name=name, cases=cases))


def table() -> str:
    """The table of the page: one line for each world and number of cases."""
    rows = [
        [
            name,
            cases,
            *(
                f"{100 * row[what][0]:.1f}" if what in row else "–"
                for what in ("holds", "given", "kept", "most")
            ),
        ]
        for name in WORLDS
        for cases, row in simulated("referral.csv", name).items()
    ]
    return markdown("| | cases | promise holds | given | kept | most that could be |", rows)


if __name__ == "__main__":
    simulate(__doc__, "referral.csv", simulations())
