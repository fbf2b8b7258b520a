"""Simulate how often two averages are shown: python docs/scripts/measure_averages.py, for docs/report.md.

Patients have 1 to 29 cases each, whose errors may be correlated. Either sigma is right for all, so that both averages
are the same, or it is 1.5 times too small for patients of more than 20 cases. Prints rows of the table: patients,
correlation, and the share of sets with two averages under either.
"""

import numpy as np

from truesigma import Cases, Prediction
from truesigma.evaluation.inference.clustered import both_averages, view_of

SETS = 1000


def main() -> None:
    for patients in (15, 40, 150):
        for correlation in (0.0, 0.5):
            shown = [
                np.mean([two(seed, patients, correlation, worse) for seed in range(SETS)])
                for worse in (1.0, 1.5)
            ]
            print(
                f"| {patients} | {correlation:g} | "
                + " | ".join(f"{100 * share:.1f} %" for share in shown)
                + " |"
            )


def two(seed: int, patients: int, correlation: float, worse: float) -> bool:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, size=patients)
    patient = np.repeat(np.arange(patients), sizes)
    own, each = rng.normal(size=patients)[patient], rng.normal(size=patient.size)
    z = np.sqrt(correlation) * own + np.sqrt(1 - correlation) * each
    z = z * np.where(sizes[patient] > 20, worse, 1.0)
    cases = Cases(Prediction(0 * z, scale=0 * z + 1), z, patient=patient)
    view = view_of(cases, cases.prediction, grouped=True)
    return both_averages(view.holds(0.9), view) is not None


if __name__ == "__main__":
    main()
