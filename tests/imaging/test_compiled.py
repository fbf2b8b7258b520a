"""The compiled tally is the tally: for any number of cases, with weights, masks and several outputs."""

from dataclasses import replace

import numpy as np
import pytest
from samples import draw
from tallies import plain

torch = pytest.importorskip("torch")

from truesigma import Empirical, Prediction, Tally  # noqa: E402
from truesigma.core import arrays  # noqa: E402
from truesigma.imaging import compiled, recorded  # noqa: E402
from truesigma.imaging.compiled import compiled_add  # noqa: E402

EDGES = [0.2, 0.5, 1.0, 2.0, 9.0]


def tensor(array):
    return None if array is None else torch.tensor(array)


def assert_same(found, wanted, rel=1e-10):
    found, wanted = plain(found.summary()), plain(wanted.summary())
    assert {k for k, v in found.items() if v is None} == {k for k, v in wanted.items() if v is None}
    known = {k: v for k, v in wanted.items() if v is not None}
    assert {k: found[k] for k in known} == pytest.approx(known, rel=rel, abs=1e-13)


def both(empty, sample, law=None):
    """The compiled tally of a sample, and the tally itself."""
    prediction = sample.prediction(tensor)
    prediction = prediction if law is None else replace(prediction, law=law)
    given = prediction, tensor(sample.target)
    weight = tensor(sample.weight)
    return compiled_add(empty)(*given, weight=weight), empty.add(*given, weight=weight)


@pytest.fixture
def not_compiled(monkeypatch):
    """The recorded operations as they are, in short rows: all but the compiler itself."""
    monkeypatch.setattr(torch, "compile", lambda operations, **options: operations)
    monkeypatch.setattr(recorded, "ROW", 64)
    monkeypatch.setattr(recorded, "LONGEST", 128)


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("outputs", ["separate", "mean"])
@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize(
    ("shape", "mask", "weight"),
    [
        ((64,), False, False),  # one row
        ((63,), False, True),  # less than a row
        ((1,), False, False),
        ((333,), True, True),  # rows and a rest
        ((333,), False, False),
        ((150, 3), True, False),  # several cases in a row
        ((150, 3), False, True),
        ((5, 7, 11), True, True),  # a case is more than a row
        ((3, 512), False, False),  # rows within a case
        ((3, 509), False, True),  # a prime number of outputs
    ],
)
def test_the_same_sums_for_any_number_of_cases(shape, mask, weight, law, outputs):
    sample = draw(3, cases=shape[0], outputs=shape[1:], mask=mask, weight=weight, law=law)
    empty = Tally.empty(edges=EDGES, outputs=outputs, error="draws" if mask else "mean")
    assert_same(*both(empty, sample))


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("edges", [[0.0, 9.0], [-1.0, 0.4, 0.6], np.linspace(0.1, 4, 16)])
def test_the_bins_of_any_edges(edges):
    assert_same(*both(Tally.empty(edges=edges), draw(5, cases=200, outputs=(), weight=True)))


@pytest.mark.usefixtures("not_compiled")
def test_many_blocks_leave_one_rest(monkeypatch):
    """What is left of each block is joined, so that less than one row of all of them is added on the host."""
    monkeypatch.setitem(arrays.CHUNK, "cpu", 1000)
    sample = draw(1, cases=2000, outputs=(3,), mask=True, weight=True)
    prediction, target, weight = sample.prediction(tensor), tensor(sample.target), tensor(sample.weight)
    whole, rest = compiled.in_rows(list(compiled.blocks(prediction, target, weight)))
    assert [len(block.parts["target"]) % 21 for block in whole] == [0] * 7
    assert len(rest.parts["target"]) == 2000 % 21
    kept = np.concatenate([np.asarray(block.parts["target"]) for block in [*whole, rest]])
    assert np.array_equal(np.sort(kept, axis=None), np.sort(sample.target, axis=None))
    assert_same(*both(Tally.empty(edges=EDGES), sample))


@pytest.mark.usefixtures("not_compiled")
def test_a_rare_bin_keeps_its_digits():
    """Three elements of 20000 in the lowest bin: no difference of two sums over nearly all of them."""
    rng = np.random.default_rng(0)
    variance = rng.uniform(50, 100, size=20000).astype("float32")
    variance[:3] = [0.011, 0.012, 0.014]
    target = (np.sqrt(variance) * rng.normal(size=20000)).astype("float32")
    prediction = Prediction(torch.zeros(20000), tensor(variance))
    empty = Tally.empty(edges=[0.01, 0.02, 60.0, 100.0])
    found = compiled_add(empty)(prediction, tensor(target)).sums["variance"]
    wide = variance[:3].astype(float), target[:3].astype(float)
    assert found[:3, 1] == pytest.approx([3, np.sum(wide[1] ** 2), np.sum(wide[0])], rel=1e-6)


@pytest.mark.usefixtures("not_compiled")
def test_what_a_law_does_not_have_is_undefined_here_too():
    sample = draw(2, cases=200, outputs=())
    law = Empirical(np.linspace(-2, 2, 9))
    found, wanted = both(Tally.empty(edges=EDGES, levels=[0.5, 0.95]), sample, law)
    assert_same(found, wanted)
    assert found.summary()["nll"] is None
    assert found.summary()["width"][0.95] is None
    # Without the split there is no factor of the aleatoric part, and no error of the draws.
    prediction, target = Prediction(tensor(sample.location), tensor(sample.aleatoric)), tensor(sample.target)
    empty = Tally.empty(edges=EDGES, error="draws")
    found, wanted = compiled_add(empty)(prediction, target), empty.add(prediction, target)
    assert_same(found, wanted)
    assert found.summary()["factor_aleatoric"] is None
    assert found.summary()["uce"] is None


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("weighted", [False, True])
def test_an_aleatoric_variance_of_zero(weighted):
    """It has no factor; with weight 0 it does not count."""
    sample = draw(4, cases=100, outputs=())
    sample.aleatoric[7] = 0
    weight = np.ones(100)
    weight[7] = 0
    found, wanted = both(Tally.empty(edges=EDGES), replace(sample, weight=weight if weighted else None))
    assert_same(found, wanted)
    assert (found.summary()["factor_aleatoric"] is None) is not weighted


@pytest.mark.usefixtures("not_compiled")
def test_only_the_sums_that_overflow_are_added_again(monkeypatch):
    sample = draw(6, cases=256, outputs=()).astype("float32")
    sample.target[5] = 1e25  # whose square is no float32
    asked, added = [], compiled.block_sums
    monkeypatch.setattr(
        compiled, "block_sums", lambda block, some: asked.append(set(some)) or added(block, some)
    )
    assert_same(*both(Tally.empty(edges=EDGES), sample), rel=1e-5)
    assert {"mse", "variance", "factor total"} <= asked[0]
    assert not asked[0] & {"mae", "sharpness", "coverage 0.9", "n"}


@pytest.mark.usefixtures("not_compiled")
def test_a_block_that_overflows_stands_beside_those_that_do_not(monkeypatch):
    monkeypatch.setitem(arrays.CHUNK, "cpu", 64)
    sample = draw(8, cases=300, outputs=()).astype("float32")
    sample.target[100] = 1e25
    asked, added = [], compiled.block_sums
    monkeypatch.setattr(
        compiled, "block_sums", lambda block, some: asked.append(block.rows) or added(block, some)
    )
    assert_same(*both(Tally.empty(edges=EDGES), sample), rel=1e-5)
    assert len(asked) == 2  # the rest, and the one block


def test_rows_divide_what_they_are_rows_of():
    for size in (1, 63, 8192, 8190, 3 * 16384, 240 * 240 * 155, 181 * 217 * 181, 193 * 229 * 193):
        row = recorded._row(size)
        assert size % row == 0
        assert recorded.SHORTEST <= row <= recorded.LONGEST or row == size
    assert recorded._row(65537) == 65537  # prime: the compiler divides it as it likes


def test_edges_are_needed():
    with pytest.raises(ValueError, match="needs its edges"):
        compiled_add(Tally.empty())
    with pytest.raises(ValueError, match="no factors of each output"):
        compiled_add(Tally.empty(edges=[0.0, 1.0], by_output=True))


def test_what_is_no_empty_tally_or_no_prediction_is_refused():
    empty, few = Tally.empty(edges=[0.0, 1.0]), torch.ones(3)
    for given in (None, empty.add(Prediction(few, few), few)):
        with pytest.raises(ValueError, match="expected one of nothing"):
            compiled_add(given)
    with pytest.raises(ValueError, match="prediction is a tuple"):
        compiled_add(empty)((few, few), few)


def test_kernels_of_a_gpu_are_kept_small(monkeypatch):
    """One kernel of all sums is slower on a GPU: the compiler is told to cut it, by an option that it has."""
    asked = []
    monkeypatch.setattr(torch, "compile", lambda module, options: asked.append(options) or module)
    few = torch.ones(recorded.ROW)
    compiled_add(Tally.empty(edges=EDGES))(Prediction(few, few), few)
    assert asked == [recorded.OPTIONS]
    assert 0 < recorded.OPTIONS["max_fusion_size"] < torch._inductor.config.max_fusion_size


@pytest.mark.slow
def test_compiled_once_for_any_number_of_cases(monkeypatch):
    from torch._dynamo.utils import counters

    monkeypatch.setattr(recorded, "ROW", 64)
    empty = Tally.empty(edges=EDGES, error="draws")
    sample = draw(7, cases=1000, outputs=(2,), mask=True, weight=True).astype("float32")
    add, before, merged, wanted = compiled_add(empty), counters["stats"]["unique_graphs"], empty, empty
    for start, end in ((0, 300), (300, 456), (456, 900), (900, 990), (990, 1000)):
        part = sample.take(slice(start, end))
        given = part.prediction(tensor), tensor(part.target)
        merged = merged.merge(add(*given, weight=tensor(part.weight)))
        wanted = wanted.add(*given, weight=tensor(part.weight))
    assert_same(merged, wanted, rel=1e-5)
    assert counters["stats"]["unique_graphs"] == before + 1
