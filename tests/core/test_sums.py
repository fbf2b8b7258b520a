"""Sums over blocks: the same to the last bit for any number of threads, and in memory that does not grow."""

import gc
import math
import threading
import time
import tracemalloc
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import scipy.stats
from samples import draw

from truesigma import Cases, Law, Prediction, Tally, Undefined
from truesigma.core import plugins
from truesigma.core.arrays import CHUNK, workers
from truesigma.core.bins import cell_totals, unit_counts
from truesigma.core.elements import Elements, blocks
from truesigma.core.law import Empirical, Laplace, Normal
from truesigma.core.scores import accumulate, accumulate_each, block_sums
from truesigma.core.tally import _plan
from truesigma.recalibrate.sigma import Sigma


def flat(sums):
    return [
        value for key in sorted(sums) if not isinstance(sums[key], Undefined) for value in _numbers(sums[key])
    ]


def _numbers(sums):
    return np.ravel(sums.sums if hasattr(sums, "sums") else sums).tolist()


def small_blocks(monkeypatch, size=128):
    monkeypatch.setattr("truesigma.core.arrays.CHUNK", {"cpu": size, "other": size})


def test_threads_change_nothing(monkeypatch):
    small_blocks(monkeypatch)
    sample = draw(0, cases=5000, mask=True, weight=True)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8), raising=False)
        assert workers(sample.target) == int(threads)
        found.append(flat(Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight).sums))
    assert found[0] == found[1] == found[2]


def test_what_a_thread_raises_is_raised(monkeypatch):
    small_blocks(monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    sample, calls = draw(0, cases=2000), count()

    def fail(block):
        if next(calls) > 20:
            raise ZeroDivisionError("here")
        return np.zeros(1)

    with pytest.raises(ZeroDivisionError, match="here"):
        accumulate(sample.prediction(), sample.target, {"it": fail})


def test_blocks_are_shared_by_as_many_threads_as_are_told(monkeypatch):
    small_blocks(monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8), raising=False)
    sample, seen = draw(0, cases=2000), set()

    def look(block):
        seen.add(threading.get_ident())
        time.sleep(1e-3)  # long enough for the other to begin
        return np.array([float(len(block.residual))])

    assert accumulate(sample.prediction(), sample.target, {"cases": look})["cases"] == [2000]
    assert len(seen) == 2


@pytest.mark.parametrize(("threads", "split"), [("1", True), ("2", False)])
def test_memory_does_not_grow_with_the_cases(monkeypatch, threads, split):
    """Variances, masks and weights that are only broadcast are never written out; what a block computed is let go."""
    small_blocks(monkeypatch, 1 << 10)  # of which two threads may have one more or less at a time
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    peaks = []
    for cases in (2000, 11000):
        location = np.zeros((cases, 100))
        variance = np.ones((cases, 1))
        prediction = Prediction(
            location, aleatoric=variance, epistemic=variance if split else None, mask=variance > 0
        )
        tally = Tally.empty(error="draws")
        tally.add(prediction[:50], location[:50])  # what is loaded once does not count
        tracemalloc.start()
        tally.add(prediction, location, weight=np.ones(cases))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 0.5 * 9000 * 100  # not even a byte an element


@pytest.mark.parametrize("given", ["plain", "mask", "weight", "mean", "edges", "laplace"])
def test_tensors_are_summed_where_they_are(given):
    """What a GPU does: a block of tensors, not of the numpy arrays that tensors of the processor also are."""
    torch = pytest.importorskip("torch")
    sample = draw(
        5,
        cases=300,
        law="laplace" if given == "laplace" else "normal",
        mask=given == "mask",
        weight=given == "weight",
    )
    tally = Tally.empty(
        outputs="mean" if given == "mean" else "separate",
        error="draws",
        edges=[0, 1, 2] if given == "edges" else None,
    )
    plan = _plan(tally._settings)
    (block,) = blocks(sample.prediction(), sample.target, sample.weight)
    found = block_sums(block.with_arrays(lambda a: torch.from_numpy(a.copy())), plan)
    expected = block_sums(block, plan)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-12)


def test_reasons_keep_nothing_alive():
    sample = draw(1)
    sums = Tally.empty().add(Prediction(sample.location, aleatoric=sample.aleatoric), sample.target).sums
    reason = sums["factor aleatoric"]
    assert isinstance(reason, Undefined)
    assert reason.__traceback__ is None


@pytest.mark.parametrize("ask", [False, True])
def test_counts_of_tensors(monkeypatch, ask):
    """Also where torch is asked for deterministic algorithms, which its counts on a GPU are not."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("truesigma.core.bins._must_be_deterministic", lambda tensor: ask)
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.uniform(size=5000), [0.0, 1.0, 0.5, 0.999]])
    found = unit_counts(torch.from_numpy(values), 1000)
    np.testing.assert_array_equal(found.numpy(), unit_counts(values, 1000))
    np.testing.assert_array_equal(found.numpy(), np.histogram(values, 1000, (0, 1))[0])
    index, column = rng.integers(0, 7, size=500), rng.normal(size=500)
    found = cell_totals(torch.from_numpy(index), 9, [None, torch.from_numpy(column)])
    np.testing.assert_allclose(found.numpy(), cell_totals(index, 9, [None, column]), rtol=1e-12)


@pytest.mark.parametrize("law", [Normal(), Laplace(), Empirical(np.random.default_rng(0).normal(size=40))])
def test_folded_elements_score_as_they_are(law):
    """|z| in place of z where the law is symmetric: CRPS, density and central level are the same."""
    sample = draw(2)
    prediction = Prediction(sample.location, aleatoric=sample.aleatoric, epistemic=sample.epistemic, law=law)
    (block,) = blocks(prediction, sample.target)
    part = block.elements
    np.testing.assert_allclose(part.central, abs(2 * law.cdf(part.z) - 1), atol=1e-15)
    np.testing.assert_allclose(
        law.crps(part.folded, part.folded_cdf), law.crps(part.z, law.cdf(part.z)), rtol=1e-12
    )
    if law.symmetric:
        np.testing.assert_allclose(law.log_density(part.folded), law.log_density(part.z), rtol=1e-14)
        assert math.isclose(law.cdf(np.array([0.0]))[0], 0.5)


class Own:
    """A law as a user writes it: what the protocol asks for, and no more."""

    name, unit, moment, symmetric, mean, variance = "own", 1.0, 2, True, 0.0, 1.0

    def quantile(self, probability):
        return float(scipy.stats.norm.ppf(probability))

    def cdf(self, z):
        return scipy.stats.norm.cdf(z)

    def log_density(self, z):
        return scipy.stats.norm.logpdf(z)

    def crps(self, z, cdf):
        return z * (2 * cdf - 1) + 2 * scipy.stats.norm.pdf(z) - 1 / math.sqrt(math.pi)

    def draw(self, rng, size):
        return rng.normal(size=size)

    def to_dict(self):
        return {"name": self.name}


@pytest.mark.parametrize("weighted", [False, True])
def test_a_law_of_ones_own_is_scored_as_ours(weighted):
    sample = draw(3, cases=400, mask=weighted, weight=weighted)
    assert isinstance(Own(), Law)
    sums = []
    for law in (Own(), Normal()):
        prediction = replace(sample.prediction(), law=law)
        sums.append(flat(Tally.empty().add(prediction, sample.target, weight=sample.weight).sums))
    np.testing.assert_allclose(*sums, rtol=1e-12)


@pytest.mark.parametrize("name", ["sigma", "sigma_by_output", "two_factor"])
def test_what_is_recalibrated_in_passing_is_what_is_recalibrated_before(monkeypatch, name):
    """Block by block, in threads, or all of it at once: the same sums, bit for bit."""
    sample = draw(6, cases=900, mask=True, weight=True)
    p, y, w = sample.prediction(), sample.target, sample.weight
    fitted = plugins.load("recalibrate", name).fit(p, y, weight=w)
    assert fitted.by_block
    small_blocks(monkeypatch)
    plan = _plan(Tally.empty(error="draws")._settings)
    found = accumulate_each(Cases(p, y, weight=w), [(fitted, plan)])[0]
    assert flat(found) == flat(accumulate(fitted(p), y, plan, weight=w))


def test_an_error_in_passing_tells_the_case(monkeypatch):
    small_blocks(monkeypatch, 16)
    v = np.ones(200)
    v[150] = 1e300
    with pytest.raises(ValueError, match=r"not finite in 1 place, the first at index \(150,\)"):
        accumulate_each(
            Cases(Prediction(0 * v, aleatoric=v), v), [(Sigma(1e10, None), {"it": lambda block: np.zeros(1)})]
        )


def test_a_target_that_is_not_a_number_is_named_by_its_case_in_any_block(monkeypatch):
    small_blocks(monkeypatch, 16)
    y = np.ones(200)
    y[[150, 170]] = np.nan
    with pytest.raises(ValueError, match=r"target is not finite in 2 places, the first at index \(150,\)"):
        Tally.empty().add(Prediction(np.zeros(200), aleatoric=np.ones(200)), y)
    masked = Tally.empty().add(Prediction(np.zeros(200), aleatoric=np.ones(200), mask=np.isfinite(y)), y)
    assert masked.summary()["n"] == 198


@pytest.mark.parametrize("outputs", ["separate", "mean"])
def test_a_pass_lets_its_blocks_go(outputs):
    """Without the help of the garbage collector, or blocks would fill the memory before it looks for them."""
    y = np.ones((1000, 1))
    gc.collect()
    gc.disable()
    try:
        Tally.empty(outputs=outputs).add(Prediction(0 * y, aleatoric=y), y).summary()
        left = [one for one in gc.get_objects() if isinstance(one, Elements)]
    finally:
        gc.enable()
    assert not left


def test_a_large_case_is_masked_in_pieces():
    size = 8 * CHUNK["cpu"]
    y = np.ones((1, size))
    prediction = Prediction(0 * y, aleatoric=y, mask=np.arange(size)[None] % 3 > 0)
    tracemalloc.start()
    found = Tally.empty().add(prediction, y).summary()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["n"] == prediction.mask.sum()
    assert found["rmse"] == 1
    assert peak < 5 * y.nbytes  # masked whole, it would be copied five times, and then again for every term
