"""Groups have tallies of their own, and are the clusters of sigma's standard error."""

import math

import numpy as np
import pytest
from samples import draw
from tallies import assert_equal, tally_of

from truesigma import Tally
from truesigma.recalibrate import sigma


def test_groups_are_tallies_of_their_own():
    sample = draw(7, mask=True, weight=True)
    group = np.array(["b", "a", "c", "a"] * 10)
    tally = Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight, group=group)
    assert_equal(tally, tally_of(sample))
    assert sorted(tally.groups) == ["a", "b", "c"]
    for name in "abc":
        assert_equal(tally.groups[name], tally_of(sample.take(group == name)))
    halves = [
        Tally.empty().add(s.prediction(), s.target, weight=s.weight, group=g)
        for s, g in ((sample.take(slice(0, 21)), group[:21]), (sample.take(slice(21, 40)), group[21:]))
    ]
    merged = halves[1].merge(halves[0])
    for name in "abc":
        assert_equal(merged.groups[name], tally.groups[name])


def test_a_group_of_one_case_has_a_summary_and_no_standard_error():
    sample = draw(8, cases=5)
    tally = Tally.empty().add(sample.prediction(), sample.target, group=["a", "a", "a", "a", "b"])
    assert math.isfinite(tally.groups["b"].summary()["nll"])
    with pytest.raises(ValueError, match="one calibration case"):
        sigma.fit(tally.groups["b"])


@pytest.mark.parametrize("outputs", ["separate", "mean"])
@pytest.mark.parametrize("part", ["total", "aleatoric"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_sigma_from_a_tally_is_sigma_from_the_cases(outputs, part, grouped, law):
    sample = draw(9, mask=True, weight=True, law=law)
    group = np.arange(40) // 3 if grouped else None
    tally = Tally.empty(outputs=outputs)
    for rows in (slice(0, 12), slice(12, 40)):
        some = sample.take(rows)
        names = None if group is None else group[rows]
        tally = tally.add(some.prediction(), some.target, weight=some.weight, group=names)
    found = sigma.fit(tally, part=part)
    assert sigma.fit(tally, part=part) == found
    with pytest.raises(ValueError, match=r"beside a Tally"):
        sigma.fit(tally, sample.target)
    expected = sigma.fit(
        sample.prediction(), sample.target, weight=sample.weight, group=group, part=part, outputs=outputs
    )
    assert found.factor == pytest.approx(expected.factor, rel=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)
    assert found.part == part


def test_cases_with_and_without_group_have_no_clusters():
    sample = draw(10)
    half = Tally.empty().add(sample.prediction(), sample.target, group=["a", "b"] * 20)
    with pytest.raises(ValueError, match="expected a group in every add, or in none"):
        sigma.fit(tally_of(sample, half))
