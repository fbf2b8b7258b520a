"""Shares of the variance."""

import numpy as np
import pytest
from report_samples import subject_of

import truesigma as ts
from truesigma.page.sections import shares


def test_shares_of_the_variance(subject):
    rows, share = shares.table(subject)
    p = subject.before.prediction
    weight = np.ones(len(p)) if subject.before.weight is None else subject.before.weight
    a, e = (np.reshape(part, (len(p), -1)).mean(axis=1) for part in (p.aleatoric, p.epistemic))
    assert share.value == pytest.approx((weight @ e) / (weight @ (a + e)))
    assert sum(row["count"] for row in rows) == pytest.approx(weight.sum())
    assert sum(row["count"] * row["epistemic"] for row in rows) == pytest.approx(weight @ e)
    assert [row["sigma"] for row in rows] == sorted(row["sigma"] for row in rows)


def test_without_the_split_there_are_no_shares():
    y = np.arange(50.0)
    subject = subject_of(ts.Cases(ts.Prediction(y + 1, aleatoric=0 * y + 1), y))
    assert shares.table(subject) is None
    assert shares.section(subject) is None
