"""Bins and observed intervals against the diagrams, bands against the replicates."""

import numpy as np
import pytest
from report_samples import make, rows_of, subject_of

import truesigma as ts
from truesigma.page.sections import calibration, intervals


def test_calibration_bins_are_those_of_the_diagram(subject):
    rows = calibration.table(subject)
    for label, cases in subject.pair.items():
        for spacing in ("mass", "width"):
            table = ts.diagrams.calibration.table(
                cases.prediction, cases.target, weight=cases.weight, spacing=spacing
            )
            filled = np.isfinite(table.error)
            some = rows_of(rows, recalibration=label, bins=spacing)
            expected = {
                "count": table.count * table.size.sum() / table.count.sum(),  # in mean weights
                "variance": table.variance,
                "squared_error": table.error,
            }
            for name, column in expected.items():
                np.testing.assert_allclose([row[name] for row in some], column[filled], rtol=1e-9)
            np.testing.assert_allclose([row["variance_from"] for row in some], table.edges[:-1][filled])
            solid = [row for row in some if row["count"] > 20]
            assert all(
                row["squared_error_low"] < row["squared_error"] < row["squared_error_high"] for row in solid
            )


def test_bands_are_quantiles_of_replicates():
    subject = subject_of(make())
    row = rows_of(calibration.table(subject), recalibration="none", bins="mass")[4]
    p = subject.before.prediction
    inside = (p.variance >= row["variance_from"]) & (p.variance < row["variance_to"])
    error = (subject.before.target - p.location) ** 2
    means = []
    for index in subject.plan.indices():
        means.append(error[index][inside[index]].mean())
    low, high = np.quantile(means, [0.025, 0.975])
    assert (row["squared_error_low"], row["squared_error_high"]) == pytest.approx((low, high))


def test_observed_intervals_are_those_of_the_diagram(subject):
    rows = intervals.table(subject)
    for label, cases in subject.pair.items():
        table = ts.diagrams.coverage.table(cases.prediction, cases.target, weight=cases.weight)
        some = rows_of(rows, recalibration=label)
        np.testing.assert_allclose([row["observed"] for row in some], table.observed, rtol=1e-9)
        np.testing.assert_allclose([row["level"] for row in some], table.level)
        assert all(
            row["low"] <= row["observed"] + 1e-9 and row["observed"] <= row["high"] + 1e-9 for row in some
        )
