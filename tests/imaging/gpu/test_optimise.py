"""Hoisted weights, folded batch normalisation and joined convolutions: the same numbers as the plain network."""

import numpy as np
import pytest
import torch
from torch import nn

from truesigma.imaging.gpu import conv_relu
from truesigma.imaging.gpu.optimise import prepare
from truesigma.imaging.network.randomness import draw_seeds
from truesigma.imaging.sampling.draws import dropout_draws
from truesigma.imaging.sampling.trace import split

aten = torch.ops.aten


class Residual(nn.Module):
    """A residual block as in ResNet behind one dropout, with all that can be folded and joined, and two heads."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)
        self.conv1, self.norm1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6, affine=False)
        self.down, self.norm3 = nn.Conv2d(3, 6, 1, stride=2), nn.BatchNorm2d(6)
        self.last = nn.Conv2d(6, 6, 3)  # no normalisation, and read twice
        self.mean, self.log_variance = nn.Linear(6, 1), nn.Linear(6, 1)

    def forward(self, x):
        x = self.drop(x)
        h = torch.relu(self.norm1(self.conv1(x)))
        h = torch.relu_(self.norm2(self.conv2(h)) + self.norm3(self.down(x)))
        h = self.last(h)
        h = (torch.relu(h) + h).mean((2, 3))
        return self.mean(h), self.log_variance(h)


def trained() -> Residual:
    """Statistics and scales away from their first values, so that a forgotten factor shows."""
    torch.manual_seed(0)
    net = Residual()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.normal_(module.bias)
    return net


@pytest.fixture(scope="module")
def net() -> Residual:
    return trained()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(4, 3, 10, 10, generator=torch.Generator().manual_seed(1))


def run(call, inputs):
    torch.manual_seed(3)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return call(*inputs)


def targets(ready):
    return [n.target for n in ready.body.graph.nodes]


def test_folded_and_joined_pieces_give_the_same_numbers(net, x):
    pieces = split(net, x)
    handed = pieces.prefix(x)
    expected = run(pieces.rest, handed)
    plain, fused = prepare(pieces.rest), prepare(pieces.rest, "cudnn")
    assert targets(plain).count(aten.batch_norm.default) == 3
    assert aten.batch_norm.default not in targets(fused)
    assert targets(fused).count(conv_relu.OP) == 2
    for ready in (plain, fused):
        torch.testing.assert_close(run(ready.call, handed), expected, rtol=1e-4, atol=1e-5)


def test_weights_changed_in_place_are_read_again(x):
    net = trained()
    pieces = split(net, x)
    ready = prepare(pieces.rest, "cudnn")
    with torch.no_grad():
        net.conv1.weight.mul_(2)
        net.norm3.running_mean.add_(1)
        net.last.bias.add_(1)
    assert prepare(pieces.rest, "cudnn") is ready
    handed = pieces.prefix(x)
    torch.testing.assert_close(run(ready.call, handed), run(pieces.rest, handed), rtol=1e-4, atol=1e-5)


def test_casts_of_weights_are_hoisted_and_rounded_once(net, x):
    pieces = split(net, x, "bf16")
    plain, fused = prepare(pieces.rest), prepare(pieces.rest, "cudnn")
    handed = pieces.prefix(x)
    for ready in (plain, fused):
        assert (
            targets(ready).count(aten._to_copy.default) == 1
        )  # the input's own, though two convolutions read it
        assert all(b.dtype == torch.bfloat16 for b in ready.body.buffers() if b.ndim == 4)
        found, expected = run(ready.call, handed), run(pieces.rest, handed)
        torch.testing.assert_close(found[0].float(), expected[0].float(), rtol=0.1, atol=0.1)


def test_the_joined_operation_has_the_layout_and_shape_it_says(x):
    weight, bias = torch.randn(5, 3, 3, 3), torch.randn(5)
    given = (x.to(memory_format=torch.channels_last), weight, bias, None, [2, 2], [1, 1], [1, 1], 1)
    expected = torch.relu(torch.conv2d(x, weight, bias, 2, 1))
    torch.testing.assert_close(conv_relu.OP(*given), expected)
    other = torch.randn_like(expected)
    torch.testing.assert_close(
        conv_relu.OP(*given[:3], other, *given[4:]), torch.relu(torch.conv2d(x, weight, bias, 2, 1) + other)
    )
    torch.library.opcheck(conv_relu.OP, given, test_utils=("test_schema", "test_faketensor"))


def test_what_is_drawn_keeps_its_type_for_the_compiler(x):
    """Drop-path in bfloat16: torch.compile would make booleans of it, and float32 of all that follows."""

    class Skipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, 2)

        def forward(self, x):
            kept = x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(0.8) if self.training else 1.0
            both = self.head((x + kept * self.conv(x)).mean((2, 3)))
            return both[:, :1], both[:, 1:]

    pieces = split(Skipping().eval(), x, "bf16")
    for mode, casts in (("cudnn", False), ("default", True)):
        drawn = [n for n in prepare(pieces.rest, mode).body.graph.nodes if n.target is aten.bernoulli.p]
        assert len(drawn) == 1
        (cast,) = drawn[0].users
        assert (cast.target is aten._to_copy.default) == casts
        assert not casts or cast.kwargs == {"dtype": drawn[0].meta["val"].dtype}


def test_without_randomness_in_the_way_all_modes_agree(net, x):
    """cuDNN's joined convolutions have a stand-in elsewhere: the mode works on every machine."""
    expected = dropout_draws(net, x.split(3), draws=4, seed=0, chunk=1)
    found = dropout_draws(net, x.split(3), draws=4, seed=0, chunk=1, compile="cudnn")
    np.testing.assert_allclose(found.mean[:, :3], expected.mean[:, :3], rtol=1e-3, atol=1e-4)
    assert found.mean.shape == (4, 4, 1)  # the last batch was filled up and cut back


def test_a_failing_compiler_falls_back(net, x, monkeypatch):
    def broken(*_, **__):
        def call(*_):
            raise RuntimeError("no compiler on purpose")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.warns(UserWarning, match=r"torch.compile failed.*on purpose"):
        found = dropout_draws(trained(), [x], draws=2, seed=0, compile=True)
    assert np.isfinite(found.mean).all()


@pytest.mark.slow
def test_compiled_draws_follow_the_same_law(net, x):
    expected = dropout_draws(net, [x], draws=400, seed=0)
    compiled = dropout_draws(net, [x], draws=400, seed=0, compile=True, chunk=100)
    again = dropout_draws(net, [x], draws=400, seed=0, compile=True, chunk=100)
    assert np.array_equal(compiled.mean, again.mean)
    error = np.sqrt(expected.mean.var(0) / 400)
    assert (np.abs(compiled.mean.mean(0) - expected.mean.mean(0)) < 6 * error).all()
    np.testing.assert_allclose(compiled.mean.std(0), expected.mean.std(0), rtol=0.25)
    assert len(np.unique(compiled.mean)) == compiled.mean.size


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA card")


@needs_cuda
def test_on_a_card_single_draws_equal_the_plain_loop_and_generators_stay(x):
    net, x = trained().cuda().eval(), x.cuda()
    net.drop.train()
    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    each = {"draws": 3, "seed": 5, "masks": "independent"}  # as a plain loop draws them
    found = dropout_draws(net, x.split(3), chunk=1, **each)
    folded = dropout_draws(net, x.split(3), **each)
    again = dropout_draws(net, x.split(3), **each)
    assert torch.equal(states[0], torch.get_rng_state())
    assert torch.equal(states[1], torch.cuda.get_rng_state())
    assert np.array_equal(folded.mean, again.mean)
    assert len(np.unique(folded.mean)) == folded.mean.size
    expected = []
    with torch.no_grad(), torch.random.fork_rng():
        for number, part in enumerate(x.split(3)):
            for seed in draw_seeds(5, number, 3):
                torch.manual_seed(seed)
                expected.append(net(part)[0].cpu())
    joined = torch.cat([torch.stack(expected[:3]), torch.stack(expected[3:])], 1)
    np.testing.assert_allclose(found.mean, joined.numpy(), rtol=1e-3, atol=1e-4)


@needs_cuda
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["", "cudnn", "default", "cudnn+default"])
def test_on_a_card_every_mode_follows_the_same_law(x, mode):
    net, x = trained().cuda(), x.cuda()
    expected = dropout_draws(net, [x], draws=400, seed=0)
    found = dropout_draws(net, [x], draws=400, seed=1, precision="bf16", compile=mode, chunk=100)
    error = np.sqrt(expected.mean.var(0) / 400)
    assert (np.abs(found.mean.mean(0) - expected.mean.mean(0)) < 6 * error + 0.02).all()
    np.testing.assert_allclose(found.mean.std(0), expected.mean.std(0), rtol=0.25)
    assert not conv_relu._refused
