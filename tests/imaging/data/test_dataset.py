"""Splits, data sets and batches: checked when made, batches the same from memory, from a reader and in any order."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truesigma.imaging.data.augment import chain
from truesigma.imaging.data.dataset import DataSet, Reader, Split, batches, resident, shuffled
from truesigma.imaging.data.prepare import Normalise


class Slow:
    """A reader that counts what it read, and breaks where told."""

    def __init__(self, images, broken=None):
        self.images, self.broken, self.read = images, broken, []
        self.lock = threading.Lock()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        with self.lock:
            self.read.append(index)
        if index == self.broken:
            raise ValueError(f"image {index} is broken")
        return self.images[index]


def make_split(cases=7, *, reader=False, outputs=2):
    images = torch.arange(cases * 12, dtype=torch.uint8).reshape(cases, 3, 2, 2)
    target = torch.arange(cases * outputs).reshape(cases, outputs) / 100
    return Split(Slow(images) if reader else images, target, tuple(f"case {k}" for k in range(cases)))


def make_data(split, **changes):
    fields = {
        "name": "test",
        "splits": {"train": split},
        "prepare": Normalise(),
        "augment": chain(),
        "unit": ("mm", "deg"),
        "offset": torch.tensor([1.0, 0.0]),
        "factor": torch.tensor([2.0, 5.0]),
    }
    return DataSet(**(fields | changes))


@settings(max_examples=40, deadline=None)
@given(
    cases=st.integers(1, 20),
    size=st.integers(1, 8),
    drop_last=st.booleans(),
    reader=st.booleans(),
    ahead=st.integers(1, 5),
)
def test_batches_visit_the_order_once(cases, size, drop_last, reader, ahead):
    split, order = make_split(cases, reader=reader), shuffled(cases, seed=cases)
    got = list(batches(split, size, order=order, drop_last=drop_last, workers=3, ahead=ahead))
    kept = cases - cases % size if drop_last else cases
    plain = make_split(cases)
    assert [int(k) for batch in got for k in batch.cases] == order[:kept].tolist()
    assert all(len(batch.images) == size for batch in got[:-1])
    for batch in got:
        assert torch.equal(batch.images, plain.images[batch.cases])
        assert torch.equal(batch.target, plain.target[batch.cases])


def test_a_broken_file_reaches_the_caller():
    images = make_split().images
    split = Split(Slow(images, broken=4), torch.zeros(7, 1), tuple("abcdefg"))
    with pytest.raises(ValueError, match="image 4 is broken"):
        list(batches(split, 2))


def test_an_abandoned_stream_stops_reading():
    images = torch.zeros(100, 1, 2, 2)
    reader = Slow(images)
    stream = batches(Split(reader, torch.zeros(100, 1), tuple(map(str, range(100)))), 2, workers=1, ahead=2)
    next(stream)
    stream.close()
    assert len(reader.read) < 10


def test_shuffled_depends_on_seed_and_epoch_only():
    assert torch.equal(shuffled(50, seed=3, epoch=4), shuffled(50, seed=3, epoch=4))
    orders = {tuple(shuffled(50, seed=s, epoch=e).tolist()) for s in range(3) for e in range(3)}
    assert len(orders) == 9
    torch.manual_seed(0)
    before = torch.rand(1)
    torch.manual_seed(0)
    shuffled(50, seed=3)
    assert torch.equal(before, torch.rand(1))  # the global generator is left alone


def test_resident_leaves_what_streams_or_does_not_fit(monkeypatch):
    streamed, split = make_split(reader=True), make_split()
    assert isinstance(streamed.images, Reader)
    assert resident(streamed, "cpu") is streamed
    assert resident(split, "cpu") is split
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 100))
    assert resident(split, "cuda") is split  # 84 bytes are more than half of 100


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", ["resident", "host", "reader"])
def test_batches_on_the_gpu(kind):
    split, plain = make_split(reader=kind == "reader"), make_split()
    if kind == "resident":
        split = resident(split, "cuda")
        assert split.images.is_cuda
    for batch in batches(split, 3, order=shuffled(7, seed=0), device="cuda"):
        assert batch.images.is_cuda
        assert torch.equal(batch.images.cpu(), plain.images[batch.cases])
        assert torch.equal(batch.target.cpu(), plain.target[batch.cases])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": torch.zeros(2, 8)}, r"\(2, 8\); expected \(case, channel"),
        ({"target": torch.zeros(3, 1)}, r"\(3, 1\) beside 2 images"),
        ({"target": torch.zeros(2)}, "beside 2 images"),
        ({"target": torch.tensor([[0.0], [torch.inf]])}, "target of case 1 is"),
        ({"target": torch.tensor([[0.0, torch.nan], [0.0, 0.0]])}, "target of case 0 is"),
        ({"name": ("a",)}, "name has 1 entries beside 2"),
        ({"group": ("a", "b", "c")}, "group has 3 entries beside 2"),
    ],
)
def test_splits_are_checked(changes, message):
    fields = {
        "images": torch.zeros(2, 1, 4, 4),
        "target": torch.zeros(2, 1),
        "name": ("a", "b"),
        "group": None,
    }
    Split(**fields)
    with pytest.raises(ValueError, match=message):
        Split(**(fields | changes))


def test_targets_become_float32_and_missing_ones_are_known():
    split = Split(
        torch.zeros(2, 1, 4, 4), torch.tensor([[1.0], [torch.nan]], dtype=torch.float64), ("a", "b")
    )
    assert split.target.dtype == torch.float32
    assert not split.labelled
    assert make_split().labelled


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"splits": {}}, "no splits"),
        ({"unit": ("mm",)}, "2 outputs, but 1 units"),
        ({"offset": torch.zeros(1)}, r"offset is \[0.0\] and unit"),
        ({"factor": torch.tensor([1.0, 0.0])}, "expected numbers above 0"),
        ({"offset": torch.tensor([torch.nan, 0.0])}, "expected a finite number"),
    ],
)
def test_data_sets_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        make_data(make_split(), **changes)


def test_values_in_the_unit():
    data = make_data(make_split())
    assert data.in_unit(torch.tensor([[0.5, 1.0]])).tolist() == [[2.0, 5.0]]
    assert (data.channels, data.outputs) == (3, 2)
    assert repr(data) == "DataSet(test: train 7)"
    with pytest.raises(TypeError):
        data.splits["more"] = make_split()


def test_normalise_is_the_formula():
    images = torch.randint(0, 256, (4, 2, 5, 5), dtype=torch.uint8)
    mean, sd = np.array([0.25, 0.5]), np.array([0.5, 2.0])
    expected = (images.numpy() / 255 - mean[:, None, None]) / sd[:, None, None]
    assert Normalise(tuple(mean), tuple(sd))(images).numpy() == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match="2 channels, but 1 means"):
        Normalise((0.5,), (0.5,))(images)
    with pytest.raises(ValueError, match="above 0"):
        Normalise((0.5,), (0.0,))


def test_normalise_first_used_in_inference_mode_can_train_later():
    prepare = Normalise((0.123,), (0.456,))
    with torch.inference_mode():
        prepare(torch.zeros(1, 1, 2, 2))
    weight = torch.ones(1, requires_grad=True)
    (prepare(torch.ones(1, 1, 2, 2)) * weight).sum().backward()
    assert weight.grad is not None
