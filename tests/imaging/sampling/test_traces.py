"""Traces: kept until something changes, keeping nothing alive, and leaving the network as it was."""

import gc
import weakref

import pytest
import torch
from partition_checks import ControlFlow
from torch import nn

from truesigma.imaging.metric import TallyMetric
from truesigma.imaging.sampling.fold import Sampler
from truesigma.imaging.sampling.trace import Untraceable, partition, split


class FixedBatch(ControlFlow):
    def forward(self, x):
        return self.drop(x) if x.shape[0] < 3 else self.drop(x) - 1


@pytest.mark.parametrize("net", [ControlFlow(), FixedBatch()])
def test_control_flow_is_untraceable_and_the_network_is_put_back(net, capfd):
    net.train()
    with pytest.raises(Untraceable):
        partition(net, torch.ones(2, 3))
    assert capfd.readouterr() == ("", "")  # torch.export would print its graph
    assert net.training
    assert net.drop.training


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout(0.5)

    def forward(self, x):
        self.norm(self.drop(x))
        raise RuntimeError("broken on purpose")


def test_modes_and_buffers_come_back_after_an_exception():
    net = Breaks().train()
    net.drop.eval()
    with pytest.raises(RuntimeError, match="on purpose"):
        partition(net, torch.ones(2, 3))
    assert (net.training, net.norm.training, net.drop.training) == (True, True, False)
    assert torch.equal(net.norm.running_mean, torch.zeros(3))
    assert not net._forward_hooks
    assert not net._forward_pre_hooks


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))


def test_traces_are_kept_until_something_changes():
    net, x = small(), torch.randn(3, 4)
    first = split(net, x)
    assert split(net, torch.randn(7, 4)) is first  # the number of cases is free
    assert split(net.eval(), x) is first
    with torch.no_grad():
        net[0].weight.fill_(2.0)  # weights changed in place are seen, without a new trace
    assert split(net, x) is first
    net.eval()
    torch.testing.assert_close(first.prefix(x)[0], net[1](net[0](x)))

    net[2].p = 0.25
    second = split(net, x)
    assert second is not first
    net[0].weight = nn.Parameter(torch.ones(8, 4))
    third = split(net, x)
    assert third is not second
    torch.testing.assert_close(third.prefix(x)[0], net[1](net[0](x)))
    net[2] = nn.Dropout(0.25)
    fourth = split(net, x)
    assert fourth is not third
    assert split(net.double(), x.double()) is not fourth


def test_what_a_metric_has_counted_asks_for_no_new_trace():
    """A LightningModule holds its metrics; each batch of a validation epoch would be traced anew."""
    net, x = nn.ModuleDict({"net": small(), "metric": TallyMetric()}), torch.randn(3, 4)
    net.forward = lambda x: net["net"](x)
    first = split(net, x)
    net["metric"].update((torch.zeros(3), torch.ones(3)), torch.zeros(3))
    assert split(net, x) is first
    net["metric"].reset()
    assert split(net, x) is first
    net["net"][2].p = 0.25
    assert split(net, x) is not first


def test_a_network_is_not_kept_alive():
    net = small()
    split(net, torch.randn(3, 4))
    broken = ControlFlow()
    with pytest.raises(Untraceable):
        split(broken, torch.randn(3, 4))
    seen = [weakref.ref(net), weakref.ref(broken)]
    del net, broken
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_a_network_that_cannot_be_traced_takes_buffers_as_before():
    net = ControlFlow()
    net.register_buffer("seen", torch.zeros(1))
    with pytest.raises(Untraceable):
        split(net, torch.randn(3, 4))
    net.seen = torch.ones(1)
    assert torch.equal(net.state_dict()["seen"], torch.ones(1))


def test_no_weight_is_kept_alive_by_what_was_prepared_for_drawing():
    net = small()
    Sampler(net, "fp32", "", None).draw(torch.randn(3, 4), 0, 2, lambda count, outputs: None)
    seen = [weakref.ref(parameter) for parameter in net.parameters()]
    del net
    gc.collect()
    gc.collect()  # the first frees the network, and with it the key of its traces
    assert {ref() for ref in seen} == {None}


def test_mixed_precision_is_part_of_the_trace():
    net, x = small(), torch.randn(3, 4)
    low, high = split(net, x, "bf16"), split(net, x)
    assert low is not high
    assert low.prefix(x)[0].dtype == torch.bfloat16
    assert low.rest(*low.prefix(x)).dtype == torch.bfloat16
    assert high.prefix(x)[0].dtype == torch.float32
