"""The state of a TallyMetric: in any precision of its module, and out of inference mode."""

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
