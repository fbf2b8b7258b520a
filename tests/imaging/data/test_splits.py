"""Where published index lists are looked for, and the seeded splits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truesigma.imaging.data.splits import by_group, check_groups, published, seeded

SIZES = {"train": 5, "valid": 2, "test": 3}


def lists(seed=0):
    order = np.random.default_rng(seed).permutation(10)
    return {"x_train": order[:5], "x_valid": order[5:7], "x_test": order[7:]}


def test_found_beside_in_and_by_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("TRUESIGMA_DATA", raising=False)
    root = tmp_path / "here" / "x"
    root.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for seed, place in enumerate([root, root.parent, tmp_path / "elsewhere"]):
        np.savez(place / "splits.npz", **lists(seed))
    monkeypatch.setenv("TRUESIGMA_DATA", str(tmp_path / "elsewhere"))
    for seed, place in enumerate([root, root.parent, tmp_path / "elsewhere"]):
        index = published("x", 10, 10, SIZES, root=root)
        assert {f"x_{key}": rows.tolist() for key, rows in index.items()} == {
            key: rows.tolist() for key, rows in lists(seed).items()
        }
        (place / "splits.npz").unlink()
    with pytest.warns(UserWarning, match="published splits not found"):
        index = published("x", 10, 10, SIZES, root=root)
    assert sorted(np.concatenate(list(index.values()))) == list(range(10))


@pytest.mark.parametrize("new", [True, False])
def test_published_torch_files(tmp_path, new):
    for key, rows in lists().items():
        path = tmp_path / f"{key}_indices.pth"
        torch.save(torch.from_numpy(rows), path, _use_new_zipfile_serialization=new)
    index = published("x", 10, 10, SIZES, root=tmp_path, path=str(tmp_path))
    assert index["test"].tolist() == lists()["x_test"].tolist()


def test_wrong_lists_are_refused(tmp_path):
    def load(cases=10, **changes):
        np.savez(
            tmp_path / "s.npz", **{key: rows for key, rows in (lists() | changes).items() if rows is not None}
        )
        return published("x", cases, 10, SIZES, root=tmp_path, path=str(tmp_path / "s.npz"))

    load()
    with pytest.raises(ValueError, match="has no 'x_test'"):
        load(x_test=None)
    with pytest.raises(ValueError, match="overlap or leave"):
        load(x_test=lists()["x_train"])
    with pytest.raises(ValueError, match="overlap or leave"):
        load(x_test=np.array([99]))
    with pytest.raises(ValueError, match="has 11 rows, but the published splits index 10"):
        load(cases=11)
    with pytest.raises(ValueError, match="no such file or folder"):
        published("x", 10, 10, SIZES, root=tmp_path, path=str(tmp_path / "none.npz"))
    with pytest.warns(UserWarning, match="of 10 published indices are beyond the 4 rows"):
        assert sum(len(rows) for rows in load(cases=4).values()) == 4


@given(st.integers(0, 200), st.integers(0, 9))
def test_seeded_splits_share_no_case(cases, seed):
    index = seeded(cases, {"train": 60, "valid": 20, "test": 20}, seed=seed)
    everything = np.concatenate(list(index.values()))
    assert len(np.unique(everything)) == len(everything) == min(cases, 100)


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
