"""Whether a referral keeps its promise: python docs/scripts/measure_referral.py --seeds 1000

Simulated worlds in which the truth is known: one where sigma knows, one where every threshold breaks the promise, one
where the surest are wrong more often, and one of patients. Writes `assets/referral.csv`; `guarantees.md` shows it.
"""

import math

import numpy as np
from measured import Row, markdown, measure_by_command, read

import truesigma as ts
from truesigma.recalibrate import _referral

RISK, DELTA, MANY = 0.05, 0.05, 1_000_000  # MANY cases tell the truth
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
                    ts.Prediction(0 * y, aleatoric=scale**2),
                    y,
                    tolerance=2.0,
                    risk=RISK,
                    delta=DELTA,
                    **given,
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


def table() -> str:
    """The table of the page: one line for each world and number of cases."""
    rows = [
        [r["promise"], f"{int(r['cases']):,}", *(f"{100 * r[n]:.1f}" for n in ("held", "kept", "most"))]
        for r in read("referral.csv")
    ]
    return markdown("| | cases | promise holds | kept | most that could be |", rows)


if __name__ == "__main__":
    measure_by_command(__doc__, "referral.csv", referrals, count="seeds", usual=1000)
