"""Splits by a seed, with groups kept together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truesigma.imaging.data.splits import by_group, check_groups


@given(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=60), st.integers(0, 9))
def test_groups_are_never_torn(groups, seed):
    index = by_group(groups, valid=0.25, test=0.25, seed=seed)
    assert sorted(np.concatenate(list(index.values()))) == list(range(len(groups)))
    check_groups(groups, index)


def test_a_patient_with_most_of_the_images_leaves_room_for_every_split():
    groups = ["a"] * 60 + [*"bcdefghijkl"]
    index = by_group(groups, valid=0.2, test=0.2)
    assert [len(index[key]) for key in ("train", "valid", "test")] == [67, 2, 2]
    for count in (2, 3):  # with as many patients as splits each has one
        index = by_group(["a", "b", "c"][:count] * 4, valid=0.15, test=0.15 * (count > 2))
        assert [len(index[key]) for key in ("train", "valid", "test")] == [4, 4, 4 * (count > 2)]
    assert len(by_group(["a", "b"], valid=0.2, test=0.2)["valid"]) == 0  # too few


def test_shares_are_met_with_many_groups():
    groups = [f"p{k}" for k in np.random.default_rng(0).integers(0, 300, 1000)]
    index = by_group(groups, valid=0.2, test=0.3)
    assert [len(index[key]) for key in ("train", "valid", "test")] == pytest.approx([500, 200, 300], abs=5)
    with pytest.raises(ValueError, match="leave something to train on"):
        by_group(groups, valid=0.5, test=0.5)


def test_torn_groups_are_named_and_counted():
    groups = [f"p{k % 15}" for k in range(45)]
    with pytest.raises(ValueError, match=r"15 of 15 groups.*'p0' in test and train.*and 5 more"):
        check_groups(groups, {"train": np.arange(20), "test": np.arange(20, 45)})
