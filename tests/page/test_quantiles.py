"""The report of predictions that have no sigma."""

import numpy as np

import truesigma as ts


def test_quantiles_are_judged_by_their_own_bounds_and_moved_by_cqr():
    rng = np.random.default_rng(0)
    middle = rng.normal(size=600)
    quantiles = ts.Prediction.from_quantiles({0.05: middle - 1.2, 0.5: middle, 0.95: middle + 1.2})
    cases = ts.Cases(quantiles, middle + rng.normal(size=600))
    made = ts.report(cases[:300], cases[300:], replicates=20)
    held = np.mean(np.abs((cases.target - middle)[300:]) <= 1.2)
    assert made.headline.startswith(f"The 90 % intervals hold {100 * held:.0f} % of the cases. After")
    verdicts = {row["question"]: row["verdict"] for row in made.questions if row["recalibration"] == "cqr"}
    assert (verdicts["skill"], verdicts["centre"], verdicts["size"]) == ("fine", "fine", "unclear")
