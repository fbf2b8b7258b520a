"""The tally as a torchmetrics Metric: the same numbers in batches and across ranks."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import draw

from truesigma import Empirical, Prediction, Tally
from truesigma.recalibrate import sigma

TallyMetric = pytest.importorskip("truesigma.imaging.metric").TallyMetric


def plain(summary):
    found = {}
    for name, value in summary.items():
        found.update(
            {f"{name}_{k:g}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
        )
    return {k: v for k, v in found.items() if v is not None}


def batches(sample, size=7):
    for start in range(0, len(sample.target), size):
        part = sample.take(slice(start, start + size))
        weight = None if part.weight is None else torch.tensor(part.weight)
        yield (
            part.prediction(lambda a: None if a is None else torch.tensor(a)),
            torch.tensor(part.target),
            weight,
        )


def fill(metric, sample):
    for prediction, target, weight in batches(sample):
        metric.update(prediction, target, weight=weight)
    return metric


def expected(sample, **settings):
    return Tally.empty(**settings).add(sample.prediction(), sample.target, weight=sample.weight)


def assert_same(found, summary, rel=1e-10):
    wanted = plain(summary)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert float(found[name]) == pytest.approx(value, rel=rel, abs=1e-13), name


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"edges": [0.1, 0.5, 1.0, 5.0]},
        {"outputs": "mean", "error": "draws"},
        {"levels": [0.8], "error": "draws", "edges": [0.0, 1.0, 9.0], "outputs": "mean"},
    ],
)
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_batches_give_the_tally(settings, law):
    sample = draw(0, law=law, mask=True, weight=True)
    metric = fill(TallyMetric(**settings), sample)
    assert_same(metric.compute(), expected(sample, **settings).summary())
    fitted, direct = sigma.fit(metric.tally), sigma.fit(expected(sample, **settings))
    assert fitted.factor == pytest.approx(direct.factor, rel=1e-12)
    assert fitted.standard_error == pytest.approx(direct.standard_error, rel=1e-9)


def test_calling_it_gives_the_batch_and_keeps_the_whole():
    sample = draw(1)
    metric = TallyMetric()
    for prediction, target, _ in batches(sample, 20):
        now = metric(prediction, target)
        assert_same(now, Tally.empty().add(prediction, target).summary())
    assert_same(metric.compute(), expected(sample).summary())


@pytest.mark.parametrize("change", [{"weight": torch.zeros(40)}, {"target": torch.full((40, 3), math.nan)}])
def test_a_batch_that_is_refused_leaves_the_whole_as_it_was(change):
    sample = draw(6)
    metric = fill(TallyMetric(), sample)
    given = {"target": torch.tensor(sample.target), **change}
    with pytest.raises(ValueError, match=r"no element is left|target is not finite"):
        metric(sample.prediction(torch.tensor), **given)
    assert_same(metric.compute(), expected(sample).summary())
    metric(sample.prediction(torch.tensor), torch.tensor(sample.target))
    assert metric.compute()["n"] == 2 * 120
    assert metric._to_sync  # across ranks, as before


@pytest.mark.parametrize("given", [torch.zeros(3), (torch.zeros(3),), (torch.zeros(3),) * 4])
def test_what_is_no_prediction_is_refused(given):
    with pytest.raises(ValueError, match=r"expected a Prediction, or \(location, variance\)"):
        TallyMetric().update(given, torch.zeros(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_predictions_on_the_host_go_with_targets_of_a_loader(dtype):
    metric, plain = TallyMetric(), TallyMetric()
    target, weight = (torch.tensor(a, dtype=dtype) for a in ([0.0, 3.0, 4.0], [1.0, 2.0, 1.0]))
    metric.update(Prediction(np.zeros(3), aleatoric=np.ones(3), epistemic=np.ones(3)), target, weight=weight)
    plain.update(
        Prediction(torch.zeros(3), aleatoric=torch.ones(3), epistemic=torch.ones(3)), target, weight=weight
    )
    assert metric.compute()["nll"] == pytest.approx(float(plain.compute()["nll"]))


def test_reset_and_nothing():
    metric = fill(TallyMetric(), draw(3))
    metric.reset()
    with pytest.raises(ValueError, match="no element is left"), pytest.warns(UserWarning, match="before"):
        metric.compute()


def test_what_one_batch_lacks_the_whole_lacks():
    sample = draw(4)
    metric = fill(TallyMetric(error="draws"), sample)
    metric.update(
        (torch.zeros(4), torch.ones(4)), torch.zeros(4)
    )  # without the split there is no error of the draws
    found = metric.compute()
    assert "uce" not in found
    assert math.isfinite(found["nll"])
    law = Empirical(np.random.default_rng(0).normal(size=50))
    empirical = TallyMetric()
    empirical.update(Prediction(torch.zeros(4), aleatoric=torch.ones(4), law=law), torch.arange(4.0))
    assert "nll" not in empirical.compute()
    assert math.isfinite(empirical.compute()["crps"])


def test_laws_do_not_mix():
    metric = fill(TallyMetric(), draw(5))
    before = metric.compute()
    with pytest.raises(ValueError, match="different likelihoods"):
        fill(metric, draw(5, law="laplace"))
    assert metric.compute() == before


def test_groups_have_tallies_of_their_own():
    sample = draw(7, mask=True, weight=True)
    group = np.array(["Basel", "Oslo"] * 20)
    metric = TallyMetric(edges=[0.1, 1.0, 9.0])
    for start, (prediction, target, weight) in zip(range(0, 40, 7), batches(sample)):
        metric.update(prediction, target, weight=weight, group=group[start : start + 7])
    found = metric.compute()
    tally = Tally.empty(edges=[0.1, 1.0, 9.0]).add(
        sample.prediction(), sample.target, weight=sample.weight, group=group
    )
    names = {"": tally, "Basel/": tally.groups["Basel"], "Oslo/": tally.groups["Oslo"]}
    summary = {start + name: value for start, t in names.items() for name, value in t.summary().items()}
    assert_same(found, summary)
    assert sigma.fit(metric.tally).standard_error == pytest.approx(sigma.fit(tally).standard_error, rel=1e-9)
    with pytest.raises(ValueError, match="give the group of every case"):
        metric.update((torch.zeros(2), torch.ones(2)), torch.ones(2))
    assert_same(metric.compute(), summary)


def work(rank, folder):
    """One of two ranks: it sees every other batch, of a group that the other does not know."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    sample = draw(6, cases=101, law="laplace", weight=True)
    metric = TallyMetric()
    for number, (prediction, target, weight) in enumerate(batches(sample)):
        if number % 2 == rank:
            metric.update(prediction, target, weight=weight, group=[("even", "odd")[rank]] * len(target))
    found = {name: float(value) for name, value in metric.compute().items()}
    with metric.sync_context():
        found["standard_error"] = sigma.fit(metric.tally).standard_error
    alone = float(metric.tally.summary()["n"])
    Path(folder, f"{rank}.json").write_text(json.dumps({**found, "alone": alone}))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_make_one_whole(tmp_path):
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    sample = draw(6, cases=101, law="laplace", weight=True)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    alone = [one.pop("alone") for one in found]
    errors = [one.pop("standard_error") for one in found]
    assert found[0] == found[1]
    group = ["odd" if k // 7 % 2 else "even" for k in range(101)]
    tally = Tally.empty().add(sample.prediction(), sample.target, weight=sample.weight, group=group)
    parts = {"": tally, **{f"{name}/": part for name, part in tally.groups.items()}}
    summary = {start + name: value for start, t in parts.items() for name, value in t.summary().items()}
    assert_same(found[0], summary)
    assert errors == pytest.approx([sigma.fit(tally).standard_error] * 2, rel=1e-9)
    assert sum(alone) == tally.summary()["n"]  # and each rank keeps its own part
