"""What intervals hold by sigma and by predicted value."""

import numpy as np
import pytest
from report_samples import make, subject_of

from truesigma.page.sections.content import by_size


def test_tenths_hold_what_a_loop_counts(subject):
    """Each row holds the weighted share of targets inside, of the cases between its ends."""
    cases = subject.before
    scale = np.reshape(np.sqrt(np.asarray(cases.prediction.variance)), (len(cases), -1))
    weight = np.broadcast_to(
        (np.ones(len(cases)) if cases.weight is None else np.asarray(cases.weight))[:, None], scale.shape
    )
    interval = cases.prediction.interval(subject.level)
    inside = ((interval.lower <= cases.target) & (cases.target <= interval.upper)).reshape(scale.shape)
    rows = [row for row in by_size(subject) if row["by"] == "sigma"]
    rows = [row for row in rows if row["recalibration"] == rows[0]["recalibration"]]
    assert len(rows) == 10
    for k, row in enumerate(rows):
        last = k == len(rows) - 1
        count = held = 0.0
        for sigma, w, hit in zip(scale.ravel(), weight.ravel(), inside.ravel()):
            if row["from"] <= sigma and (sigma < row["to"] or last):
                count, held = count + w, held + w * hit
        assert row["count"] == pytest.approx(count)
        assert row["observed"] == pytest.approx(held / count)
        assert row["low"] <= row["observed"] <= row["high"]


@pytest.mark.filterwarnings("error")
def test_tenths_of_six_cases_are_those_that_hold_some():
    rows = by_size(subject_of(make(6)))
    assert all(row["count"] > 0 and np.isfinite(row["observed"]) for row in rows)
    assert {sum(row["count"] for row in rows if row["by"] == by) for by in ("sigma", "prediction")} == {12.0}
