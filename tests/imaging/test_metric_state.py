"""The state of a TallyMetric: in any precision of its module, out of inference mode, and in checkpoints."""

import math

import pytest
import torch
from torch import nn

TallyMetric = pytest.importorskip("truesigma.imaging.metric").TallyMetric


def batch(cases=3000, seed=0):
    random = torch.Generator().manual_seed(seed)
    mean = torch.randn(cases, 1, generator=random)
    return (mean, torch.ones(cases, 1)), mean + torch.randn(cases, 1, generator=random)


def filled(*given, **settings):
    metric = TallyMetric(**settings)
    metric.update(*(given or batch()))
    return metric


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_module_of_another_precision_leaves_the_sums_in_double(dtype):
    """Lightning's `precision="16-true"` does this; half precision counts to 2048 and then stands still."""
    module = nn.Sequential(nn.Linear(1, 1), TallyMetric(levels=(0.9,))).to(dtype)
    prediction, target = batch()
    for start in range(0, 3000, 2):
        part = slice(start, start + 2)
        module[1].update(tuple(t[part].to(dtype) for t in prediction), target[part].to(dtype))
    found = module.to(dtype)[1].compute()
    error = (target.to(dtype).double() - prediction[0].to(dtype).double()).square().mean().sqrt()
    assert module[0].weight.dtype == dtype
    assert float(found["n"]) == 3000
    assert float(found["factor"]) == pytest.approx(float(error), rel=1e-6)


def test_it_still_moves():
    found = filled().to("meta", torch.float16).compute()["n"]
    assert (found.device.type, found.dtype) == ("meta", torch.float64)


def test_a_state_that_was_reset_in_inference_mode_takes_batches_outside_of_it():
    metric = filled()
    with torch.inference_mode():
        metric.update(*batch(seed=1))
        metric.reset()
    metric.update(*batch())
    assert float(metric.compute()["factor"]) == float(filled().compute()["factor"])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"levels": (0.4, 0.9, 0.95, 0.99)}, r"levels \(0.5, 0.9, 0.95, 0.99\) instead of \(0.4"),
        ({"levels": (0.9,)}, "levels"),
        ({"error": "draws"}, "error mean instead of draws"),
        ({"edges": [0.0, 1.0]}, r"edges None instead of \(0.0, 1.0\)"),
    ],
)
def test_sums_of_other_settings_are_refused(settings, problem):
    stored = filled().state_dict()
    with pytest.raises(RuntimeError, match=problem):
        TallyMetric(**settings).load_state_dict(stored)


def test_a_checkpoint_without_sums_is_noticed():
    with pytest.raises(RuntimeError, match=r"Missing key.*tally"):
        TallyMetric().load_state_dict({})


def test_a_run_resumes_with_other_levels_if_nothing_was_counted():
    """Checkpoints of Lightning are written between epochs, when the metric is empty."""
    before, after = (
        nn.Sequential(nn.Linear(1, 1), TallyMetric(levels=levels)) for levels in ((0.5,), (0.9, 0.99))
    )
    after.load_state_dict(before.state_dict())
    after[1].update(*batch())
    assert math.isfinite(after[1].compute()["coverage_0.99"])


def test_two_metrics_from_one_checkpoint_are_two():
    stored = filled().state_dict()
    first, second = TallyMetric(), TallyMetric()
    for metric in (first, second):
        metric.load_state_dict(stored)
    first.update(*batch(seed=1))
    assert float(second.tally.summary()["n"]) == 3000
    assert float(first.tally.summary()["n"]) == 6000
