"""Folds: patients whole, every case held out once, and no network trained on what it predicts."""

import numpy as np
import pytest
import torch

from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.data.folds import HELD, Fold, Picked, fold_numbers, pooled
from truesigma.imaging.data.splits import by_fold


def make(group: bool = True, reader: bool = False) -> DataSet:
    def some(first: int, count: int) -> Split:
        images = torch.arange(first, first + count).reshape(-1, 1, 1, 1).float()
        stored = Picked(tuple((images, k) for k in range(count))) if reader else images
        patients = tuple(f"p{k // 3}" for k in range(first, first + count)) if group else None
        return Split(stored, images[:, :, 0, 0] / 100, tuple(map(str, range(first, first + count))), patients)

    splits = {"train": some(0, 60), "valid": some(60, 15), "test": some(75, 15)}
    return DataSet(
        "numbers", splits, torch.Tensor.float, lambda x, y, g: (x, y), ("",), torch.zeros(1), torch.ones(1)
    )


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("reader", [True, False])
def test_every_case_is_held_once_and_never_by_a_network_that_saw_its_patient(
    group: bool, reader: bool
) -> None:
    data, held = make(group, reader), []
    for number in range(5):
        made = Fold(number, 5, seed=3).of(data)
        parts = {name: made.splits[name] for name in ("train", "valid", HELD)}
        names = [set(part.group or part.name) for part in parts.values()]
        assert not names[0] & names[1]
        assert not (names[0] | names[1]) & names[2]
        assert sum(map(len, parts.values())) == 75
        assert all(len(part) > 5 for part in parts.values())
        assert made.splits["test"] is data.splits["test"]
        for part in parts.values():  # images, targets and names still belong together
            assert [float(part.images[k]) for k in range(len(part))] == [float(name) for name in part.name]
            assert torch.allclose(part.target[:, 0] * 100, torch.tensor([float(name) for name in part.name]))
        held += parts[HELD].name
    assert sorted(held, key=int) == [str(k) for k in range(75)]
    numbers = fold_numbers(pooled(data), 5, 3)
    assert len(numbers) == 75


def test_folds_are_even_where_patients_differ() -> None:
    rng = np.random.default_rng(0)
    groups = [f"p{k}" for k, count in enumerate(rng.integers(1, 9, 60)) for _ in range(count)]
    fold = by_fold(groups, 5, seed=1)
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 2
    assert all(len(set(fold[np.array(groups) == name])) == 1 for name in set(groups))
    assert not np.array_equal(fold, by_fold(groups, 5, seed=2))


@pytest.mark.parametrize("folds", [1, 9])
def test_too_few_or_too_many_folds_are_refused(folds: int) -> None:
    with pytest.raises(ValueError, match="expected 2 or more, and a group for each"):
        by_fold(list("aabbcc"), folds)
