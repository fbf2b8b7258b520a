"""How often two averages are shown: python docs/scripts/measure_averages.py [--sets 1000] [--row ...] [--jobs 8]

Patients have 1 to 29 cases each, whose errors may be correlated. Either sigma is right for all, so that both averages
are the same, or it is 1.5 times too small for patients of more than 20 cases. Writes `assets/averages.csv`: the share
of sets in which each score has two averages; `report.md` shows it.
"""

from functools import partial

import numpy as np
from measured import Simulation, shares, simulate

from truesigma import Cases, Prediction
from truesigma.evaluation.headline import whole
from truesigma.evaluation.questions import questions


def two(seed: int, patients: int, correlation: float, worse: float) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, size=patients)
    patient = np.repeat(np.arange(patients), sizes)
    own, each = rng.normal(size=patients)[patient], rng.normal(size=patient.size)
    z = np.sqrt(correlation) * own + np.sqrt(1 - correlation) * each
    z = z * np.where(sizes[patient] > 20, worse, 1.0)
    cases = Cases(Prediction(0 * z, scale=0 * z + 1), z, patient=patient)
    rows = questions(cases, cases, {"none": (cases.prediction, cases.prediction)})
    shown = whole(rows, "none")["size"]["parts"].get("averages", {})
    names = {"90 % intervals": "90 % intervals hold", "RMSE": "RMSE", "CRPS": "CRPS"}
    return {name: key in shown for name, key in names.items()} | {"any": bool(shown)}


def table() -> str:
    """The table of the page."""
    return shares("averages.csv", "averages", title="patients")


if __name__ == "__main__":
    simulate(
        __doc__,
        "averages.csv",
        (
            Simulation("averages", f"{patients}, correlated {shared:g}, {words}", partial(two, **world))
            for words, worse in (("sigma is right", 1.0), ("too small for some", 1.5))
            for patients in (15, 40, 150)
            for shared in (0.0, 0.5)
            for world in [{"patients": patients, "correlation": shared, "worse": worse}]
        ),
    )
