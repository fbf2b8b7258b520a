"""Joint regions, averages and choices: python docs/scripts/measure_promises.py [--sets 1000] [--row ...] [--jobs 8]

Whether `region` and `conformal` hold what they promise, of the average that they name, and what `compare` chooses
between none and sigma: each row is 1,000 sets of calibration cases, each with 1,000 new cases or 100 new patients.
Writes `assets/promises.csv`; `guarantees.md` and `choosing.md` show it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from measured import Simulation, markdown, shares, simulate, simulated

import truesigma as ts
from truesigma.recalibrate import conformal, region

NEW, LEVEL, MOST = 1000, 0.9, 30
CHOICE = "{}, {:.0f} % too small, {} cases"
SMALL = (1.0, 1.1, 1.3)  # how many times too small sigma is, where none or sigma is chosen
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


def region_holds(seed: int, name: str, cases: int) -> dict[str, float]:
    """What both shapes hold of new cases, whether one is infinite, and how far the ellipsoid of two outputs reaches."""
    rng, draw = np.random.default_rng(seed), REGIONS[name][0]
    old, new = draw(rng, cases), draw(rng, NEW)
    p, q = (ts.Prediction(0 * z, aleatoric=0 * z + 1) for z in (old, new))
    found = {}
    try:
        fitted = {shape: region.fit(p, old, shape=shape) for shape in ("ellipsoid", "box")}
    except ValueError:  # an output whose errors are all 0
        return dict.fromkeys(("ellipsoid", "box", "infinite", "reach"), math.nan)
    for shape, one in fitted.items():
        found[shape] = float(one.contains(q, new).mean())
    found["infinite"] = float(any(one.bound() == math.inf for one in fitted.values()))
    volume, before = fitted["ellipsoid"].volume(q[:1])[0], jackknife_volume(old)
    found["reach"] = (volume / before) ** (1 / old.shape[1]) if 0 < before < math.inf else math.nan
    return found


def jackknife_volume(z: np.ndarray) -> float:
    """The volume of the ellipsoid whose scores leave out one case at a time: smaller, and without a promise."""
    cases, outputs = z.shape
    place = math.ceil((cases + 1) * LEVEL) - 1
    if cases <= outputs + 1 or place >= cases:
        return math.nan
    whole = z.T @ z
    scores = []
    for one in z:
        try:
            scores.append((cases - 1) * one @ np.linalg.solve(whole - np.outer(one, one), one))
        except np.linalg.LinAlgError:
            return math.nan
    size = math.pi ** (outputs / 2) / math.gamma(outputs / 2 + 1) * math.sqrt(np.linalg.det(whole / cases))
    return size * np.sort(scores)[place] ** (outputs / 2)


def uneven(rng: np.random.Generator, patients: int) -> tuple[ts.Prediction, np.ndarray, np.ndarray]:
    """Patients of 1 to 30 cases that err alike; those of more than 20 err twice as much, and sigma does not know."""
    sizes = rng.integers(1, MOST + 1, size=patients)
    patient = np.repeat(np.arange(patients), sizes)
    z = 0.7 * rng.normal(size=patients)[patient] + 0.7 * rng.normal(size=patient.size)
    z = np.where(sizes[patient] > 20, 2.0, 1.0) * z
    scale = np.exp(0.4 * rng.normal(size=patient.size))
    return ts.Prediction(0 * z, aleatoric=scale**2), scale * z, patient


def average_holds(seed: int, patients: int, options: Mapping[str, Any]) -> dict[str, float]:
    """What conformal intervals hold of new cases, and of new patients."""
    rng = np.random.default_rng(seed)
    (old, y, patient), (new, truth, who) = uneven(rng, patients), uneven(rng, 100)
    given = {"patient": patient} if options else {}
    made = conformal.fit(old, y, **given, **options)(new).interval(LEVEL)
    inside = (made.lower <= truth) & (truth <= made.upper)
    of_patients = np.bincount(who, inside) / np.bincount(who)
    return {
        "of cases": inside.mean(),
        "of patients": of_patients.mean(),
        "infinite": np.isinf(made.upper).mean(),
    }


AVERAGES = {
    "a patient's cases (`of=patient`)": {"of": "patient"},
    f"all cases (`of=case:most={MOST}`)": {"of": "case", "most": MOST},
    "*no promise:* patients are not named": {},
}


LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {  # of variance 1
    "Normal": lambda rng, n: rng.normal(size=n),
    "Laplace": lambda rng, n: rng.laplace(size=n) / np.sqrt(2),
    "t3": lambda rng, n: rng.standard_t(3, size=n) / np.sqrt(3),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "uniform": lambda rng, n: rng.uniform(-np.sqrt(3), np.sqrt(3), size=n),
    "Normal, 1 % gross": lambda rng, n: rng.normal(size=n) * np.where(rng.uniform(size=n) < 0.01, 20, 1),
}


def choice_of(seed: int, law: str, small: float, cases: int) -> dict[str, float]:
    """Whether `compare` keeps none, and the CRPS of none, of sigma and of its choice on new cases."""
    rng = np.random.default_rng(seed)
    sigma = np.exp(0.4 * rng.normal(size=cases + NEW))
    y = sigma * LAWS[law](rng, cases + NEW)
    p = ts.Prediction(0 * y, aleatoric=(sigma / small) ** 2)
    found = ts.compare(ts.Cases(p[:cases], y[:cases]), recalibrations=["none", "sigma"], replicates=2)
    both = {
        name: ts.metrics.crps.score(made(p[cases:]), y[cases:]) for name, made in found.recalibrations.items()
    }
    return {"kept": found.choice == "none", **both, "chosen": both[found.choice]}


def simulations() -> Iterator[Simulation]:
    for name, (_, sizes) in REGIONS.items():
        for cases in sizes:
            yield Simulation(
                "regions", f"{name}, {cases} cases", partial(region_holds, name=name, cases=cases)
            )
    for name, options in AVERAGES.items():
        for patients in (20, 50, 200):
            draw = partial(average_holds, patients=patients, options=options)
            yield Simulation("averages", f"{name}, {patients} patients", draw)
    for law in LAWS:
        for small in SMALL:
            for cases in (30, 100):
                draw = partial(choice_of, law=law, small=small, cases=cases)
                yield Simulation("choices", CHOICE.format(law, 100 * (small - 1), cases), draw)


def tables() -> dict[str, str]:
    """The tables of `docs/guarantees.md`, and that of `docs/choosing.md`."""
    found = simulated("promises.csv", "choices")
    head = "sigma too small by", "cases", "`none` kept", "CRPS above the better one's"
    head += "kept, other laws", "CRPS, the worst of them"
    lines = []
    for small in SMALL:
        for cases in (30, 100):
            names = [CHOICE.format(law, 100 * (small - 1), cases) for law in LAWS]
            rows = [found[name] for name in names if name in found]
            regrets = [row["chosen"][0] / min(row[name][0] for name in ("none", "sigma")) - 1 for row in rows]
            kept = [100 * row["kept"][0] for row in rows]
            cells = [
                f"{100 * (small - 1):.0f} %",
                str(cases),
                f"{kept[0]:.1f} %",
                f"{100 * regrets[0]:.2f} %",
            ]
            lines.append(
                [*cells, f"{min(kept[1:]):.0f} to {max(kept[1:]):.0f} %", f"{100 * max(regrets[1:]):.2f} %"]
            )
    return {
        "regions": shares("promises.csv", "regions", title="region at 90 %"),
        "averages": shares("promises.csv", "averages", title="90 % of", errors=True),
        "choices": markdown(f"| {' | '.join(head)} |", lines),
    }


if __name__ == "__main__":
    simulate(__doc__, "promises.csv", simulations())
