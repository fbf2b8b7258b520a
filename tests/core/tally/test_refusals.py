"""Bad cases, groups and settings are refused, and nothing is an error."""

import numpy as np
import pandas
import pytest
from samples import Sample, draw
from tallies import tally_of

from truesigma import Tally
from truesigma.recalibrate import sigma


def test_nothing_is_an_error():
    with pytest.raises(ValueError, match="no element is left"):
        Tally.empty().summary()
    with pytest.raises(ValueError, match="no element is left"):
        sigma.fit(Tally.empty())
    hidden = Sample(**{**vars(draw(15)), "mask": np.zeros((40, 3), dtype=bool)})
    with pytest.raises(ValueError, match="no element is left"):
        tally_of(hidden).summary()
    with pytest.raises(ValueError, match="no element is left"):
        sigma.fit(tally_of(hidden))
    unweighted = Sample(**{**vars(draw(15)), "weight": np.zeros(40)})
    with pytest.raises(ValueError, match="no element is left"):
        tally_of(unweighted).summary()


@pytest.mark.parametrize("group", [None, ["a", "b"] * 20])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weight": -np.ones(40)}, "weight is negative"),
        ({"weight": np.ones(7)}, "weight has shape"),
        ({"target": np.full((40, 3), np.nan)}, "target is not finite"),
        ({"target": np.zeros((40, 2))}, "target has shape"),
    ],
)
def test_bad_cases_are_refused(change, words, group):
    sample = Sample(**{**vars(draw(16)), **change})
    with pytest.raises(ValueError, match=words):
        Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight, group=group)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (["a"], "group has shape"),
        (set(map(str, range(40))), "one name for each of the 40 cases"),  # in any order
        (dict.fromkeys(range(40), "a"), "one name for each of the 40 cases"),
        (pandas.array([1] * 39 + [None], dtype="Int64"), "group is empty in 1 of 40 cases"),
    ],
)
def test_groups_are_checked(group, words):
    sample = draw(17)
    with pytest.raises(ValueError, match=words):
        Tally.empty().add(sample.prediction(), sample.target, group=group)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"levels": [90]}, "level is 90"),
        ({"edges": [1.0]}, "edges is .*two or more numbers that rise"),
        ({"edges": [1.0, 1.0]}, "edges is .*two or more numbers that rise"),
        ({"edges": [1.0, np.nan]}, "edges is .*two or more numbers that rise"),
        ({"outputs": "all"}, "outputs is 'all'"),
        ({"error": "all"}, "error is 'all'"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        Tally.empty(**settings)
