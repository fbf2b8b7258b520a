"""The report of predictions that have no sigma."""

import numpy as np

import truesigma as ts
from truesigma.core.laws import Stated
from truesigma.evaluation.headline import whole
from truesigma.evaluation.questions import questions


def test_quantiles_are_judged_by_their_own_bounds_and_moved_by_cqr():
    rng = np.random.default_rng(0)
    middle = rng.normal(size=600)
    quantiles = ts.Prediction.from_quantiles({0.05: middle - 1.2, 0.5: middle, 0.95: middle + 1.2})
    cases = ts.Cases(quantiles, middle + rng.normal(size=600))
    made = ts.report(cases[:300], cases[300:], replicates=20)
    held = np.mean(np.abs((cases.target - middle)[300:]) <= 1.2)
    assert made.headline.startswith(
        "Intervals are too narrow; after conformalized quantiles recalibration there is"
    )
    assert f"The 90 % intervals hold {100 * held:.0f} % of the cases. After" in made.headline
    before, after = (whole(made.questions, label) for label in ("none", "cqr"))
    assert before["size"]["verdict"] == "off"
    assert before["size"]["estimate"] == held
    assert [row["verdict"] for row in after.values()] == ["unclear", "fine", "unclear", "unclear", "unclear"]


def test_heavy_tails_of_bounds_known_at_one_level_are_judged_by_what_they_hold():
    """They have no kurtosis that could be compared: such a set could not be judged at all."""
    rng = np.random.default_rng(0)
    middle = rng.normal(size=400)
    bounds = Stated((0.9,), np.full((400, 1), -1.2), np.full((400, 1), 1.2))
    cases = ts.Cases(
        ts.Prediction(middle, aleatoric=0 * middle + 1, law=bounds), middle + rng.standard_t(3, size=400)
    )
    rows = questions(cases[:200], cases[200:], {"none": (cases.prediction[:200], cases.prediction[200:])})
    size = next(row for row in rows if row["question"] == "size")
    assert size["verdict"] == "off"
    assert "too narrow: 90 % intervals hold" in size["words"]
