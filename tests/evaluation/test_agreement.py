"""Limits of agreement: from their equations, loop by loop, and their content by simulation."""

import math

import numpy as np
import pytest

from truesigma.evaluation.inference.agreement import limits


def by_loops(difference, code):
    """One-way analysis of variance of unequal sizes, as Bland and Altman write it."""
    groups = {c: [d for d, k in zip(difference, code) if k == c] for c in set(code)}
    total, count = len(difference), len(groups)
    grand = sum(difference) / total
    within = between = 0.0
    for own in groups.values():
        mean = sum(own) / len(own)
        within += sum((d - mean) ** 2 for d in own)
        between += len(own) * (mean - grand) ** 2
    ms_within = within / (total - count) if total > count else 0.0
    ms_between = between / (count - 1)
    m0 = (total - sum(len(own) ** 2 for own in groups.values()) / total) / (count - 1)
    component = max(0.0, (ms_between - ms_within) / m0)
    reach = 1.96 * math.sqrt(component + ms_within)
    return grand, grand - reach, grand + reach, math.sqrt(ms_within), math.sqrt(component)


@pytest.mark.parametrize("seed", range(3))
def test_limits_are_those_of_the_equations(seed):
    rng = np.random.default_rng(seed)
    code = rng.integers(12, size=60)
    difference = rng.normal(size=12)[code] + rng.normal(size=60)
    assert limits(difference, code) == pytest.approx(by_loops(difference.tolist(), code.tolist()), rel=1e-12)
    alone = limits(difference, np.arange(60))
    reach = 1.96 * difference.std(ddof=1)
    mean = difference.mean()
    assert alone[:3] == pytest.approx((mean, mean - reach, mean + reach), rel=1e-12)


def test_limits_hold_a_new_patient():
    """Of patients with many and with few cases: by case the limits would be those of the many."""
    rng = np.random.default_rng(0)
    size = np.where(np.arange(400) % 4 == 0, 20, 1)
    code = np.repeat(np.arange(400), size)
    found = limits(rng.normal(size=400)[code] + 0.5 * rng.normal(size=code.size), code)
    assert found.between == pytest.approx(1.0, abs=0.12)
    assert found.within == pytest.approx(0.5, abs=0.03)
    assert limits(np.ones(3), np.zeros(3, int)) is None
