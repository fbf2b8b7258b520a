"""Monte-Carlo dropout and ensembles: against the plain loop, against analytic moments, and what is left untouched."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truesigma.decompose import decompose
from truesigma.imaging import folding, sampling
from truesigma.imaging.network import TwoHead
from truesigma.imaging.randomness import draw_seeds
from truesigma.imaging.sampling import dropout_draws, dropout_moments, ensemble_draws
from truesigma.law import Empirical, Laplace


class Heads(nn.Module):
    """Mean and log-variance from what a body gives."""

    def __init__(self, body: nn.Module, features: int, outputs: int = 2, second: int = 1):
        super().__init__()
        self.body, self.mean, self.log_variance = (
            body,
            nn.Linear(features, outputs),
            nn.Linear(features, second),
        )

    def forward(self, x):
        x = self.body(x)
        return self.mean(x), self.log_variance(x)


def convolutional(**heads) -> Heads:
    """A small image network with dropout in the middle and before the heads, and batch normalisation that moved."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Dropout2d(0.3),
        nn.Conv2d(4, 6, 3, stride=2),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
    )
    net = Heads(body, 24, **heads)
    for _ in range(3):
        net(torch.randn(8, 1, 12, 12) * 2 + 1)
    return net


@pytest.fixture(scope="module")
def net() -> Heads:
    return convolutional()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(7, 1, 12, 12, generator=torch.Generator().manual_seed(5))


def plain_loop(net, batches, draws, seed):
    """The published way: the whole network for every draw, seeded before each pass."""
    net = copy.deepcopy(net).train()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    means, variances = [], []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for number, batch in enumerate(batches):
            found = []
            for one in draw_seeds(seed, number, draws):
                torch.manual_seed(one)
                found.append(net(batch))
            means.append(torch.stack([m for m, _ in found]))
            variances.append(torch.stack([v.exp() for _, v in found]))
    return torch.cat(means, 1).numpy(), torch.cat(variances, 1).numpy()


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 100])
@pytest.mark.parametrize("training", [True, False])
def test_equals_the_plain_loop_for_the_same_masks(net, images, chunk, training):
    net.train(training)
    draws = dropout_draws(net, images.split(3), draws=5, seed=3, chunk=chunk)
    mean, variance = plain_loop(net, images.split(3), 5, 3)
    assert draws.mean.shape == (5, 7, 2)
    assert draws.variance.shape == (5, 7, 1)
    assert draws.mean.dtype == draws.variance.dtype == np.float32
    np.testing.assert_allclose(draws.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(draws.variance, variance, rtol=1e-5)


def test_draws_differ_between_draws_and_between_cases(net, images):
    same = images[:1].repeat(6, 1, 1, 1)
    mean = dropout_draws(net, [same], draws=8, seed=0).mean[..., 0]
    assert len(np.unique(mean)) == mean.size


def test_the_seed_alone_decides(net, images):
    one = dropout_draws(net, images.split(4), draws=4, seed=11)
    torch.manual_seed(99)
    again = dropout_draws(net, images.split(4), draws=4, seed=11)
    other = dropout_draws(net, images.split(4), draws=4, seed=12)
    more = dropout_draws(net, images.split(4), draws=6, seed=11)
    assert np.array_equal(one.mean, again.mean)
    assert np.array_equal(one.variance, again.variance)
    assert not np.isclose(one.mean, other.mean).any()
    np.testing.assert_allclose(more.mean[:4], one.mean, rtol=1e-5, atol=1e-6)


def test_network_and_generators_are_left_as_found(net, images):
    net.train()
    net.body[4].eval()
    modes = [m.training for m in net.modules()]
    state = {k: v.clone() for k, v in net.state_dict().items()}
    generator = torch.get_rng_state()
    dropout_draws(net, images.split(3), draws=3, seed=0)
    dropout_moments(net, images.split(3), draws=3, seed=0)
    ensemble_draws([net], images.split(3))
    assert torch.equal(torch.get_rng_state(), generator)
    assert modes == [m.training for m in net.modules()]
    for key, value in net.state_dict().items():
        assert torch.equal(value, state[key]), key


class Sometimes(nn.Module):
    """Breaks on the second batch."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if x.abs().max() > 1e3:
            raise RuntimeError("broken on purpose")
        return self.inner(x)


@pytest.mark.filterwarnings("ignore:torch.export cannot follow")
@pytest.mark.parametrize("draw", [dropout_draws, dropout_moments, ensemble_draws])
def test_modes_come_back_after_an_exception(net, images, draw):
    net.train()
    broken = Sometimes(net).train()
    state = {k: v.clone() for k, v in net.state_dict().items()}
    generator = torch.get_rng_state()
    batches = [images[:2], images[2:] * 1e6]
    given, options = ([broken], {}) if draw is ensemble_draws else (broken, {"draws": 2, "seed": 0})
    with pytest.raises(RuntimeError, match="on purpose"):
        draw(given, batches, **options)
    assert all(module.training for module in broken.modules())
    assert torch.equal(torch.get_rng_state(), generator)
    for key, value in net.state_dict().items():
        assert torch.equal(value, state[key]), key


def test_a_network_that_cannot_be_traced_falls_back_with_a_reason(net, images):
    net.eval()
    with pytest.warns(UserWarning, match=r"cannot follow Sometimes.*Reason"):
        draws = dropout_draws(Sometimes(net), images.split(3), draws=3, seed=3)
    mean, variance = plain_loop(net, images.split(3), 3, 3)
    np.testing.assert_allclose(draws.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(draws.variance, variance, rtol=1e-5)


class DropConnect(nn.Module):
    """One mask on the weights for a whole pass: draws must not share it, so they cannot be folded."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 5))

    def forward(self, x):
        found = F.linear(x, F.dropout(self.weight, 0.5))
        return found[:, :1], found[:, 1:]


def test_masks_shared_by_a_batch_stay_different_between_draws():
    net, x = DropConnect(), torch.randn(4, 5)
    draws = dropout_draws(net, [x], draws=6, seed=1)
    np.testing.assert_allclose(draws.mean, plain_loop(net, [x], 6, 1)[0], rtol=1e-5, atol=1e-6)
    assert len(np.unique(draws.mean[:, 0])) > 1


def test_moments_of_a_linear_network_are_the_analytic_ones():
    """y = w . (m x) / (1 - p) + c with m ~ Bernoulli(1 - p): mean w.x + c, variance p / (1 - p) sum (w x)^2."""
    p, count = 0.3, 4000
    torch.manual_seed(2)
    net = Heads(nn.Dropout(p), 6, outputs=1)
    nn.init.zeros_(net.log_variance.weight)
    x = torch.randn(3, 6)
    prediction = dropout_moments(net, [x], draws=count, seed=7)
    with torch.no_grad():
        mean = net.mean(x).numpy()
        variance = (p / (1 - p) * ((net.mean.weight * x) ** 2).sum(1, keepdim=True)).numpy()
    error = 4 * np.sqrt(variance / count)
    assert (np.abs(prediction.location - mean) < error).all()
    np.testing.assert_allclose(prediction.epistemic, variance, rtol=0.12)
    np.testing.assert_allclose(prediction.aleatoric, math.exp(net.log_variance.bias.item()), rtol=1e-5)
    draws = dropout_draws(net, [x], draws=count, seed=7).mean[..., 0]
    between = np.corrcoef(draws.T)[np.triu_indices(3, 1)]
    assert np.abs(between).max() < 4 / math.sqrt(count)  # masks of different cases are independent


@pytest.mark.parametrize("law", [sampling.Normal(), Laplace()])
@pytest.mark.parametrize("chunk", [None, 1, 4])
def test_moments_equal_the_decomposed_draws(net, images, law, chunk):
    expected = decompose(dropout_draws(net, images.split(3), draws=9, seed=5, law=law))
    found = dropout_moments(net, images.split(3), draws=9, seed=5, law=law, chunk=chunk)
    assert found.law == law
    for name in ("location", "aleatoric", "epistemic"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7, err_msg=name)


def test_moments_survive_a_mean_far_above_the_spread():
    net = Heads(nn.Dropout(0.5), 6, outputs=1)
    nn.init.constant_(net.mean.bias, 1e4)
    near = copy.deepcopy(net)
    nn.init.constant_(near.mean.bias, 0.0)
    x = torch.randn(4, 6)
    far, expected = (dropout_moments(n, [x], draws=50, seed=0, chunk=7).epistemic for n in (net, near))
    np.testing.assert_allclose(far, expected, rtol=1e-2)


def test_moments_never_hold_all_draws(net, images, monkeypatch):
    """Counts the values alive in the running state: as many as without draws, whatever their number."""
    most = []
    add = sampling._Moments.add

    def counting(self, mean, variance):
        add(self, mean, variance)
        held = [v.numel() for v in vars(self).values() if isinstance(v, torch.Tensor)]
        most.append((len(mean), sum(held)))

    monkeypatch.setattr(sampling._Moments, "add", counting)
    dropout_moments(net, [images], draws=40, seed=0, chunk=5)
    assert most == [(5, 7 * 2 + 7 * 2 + 7)] * 8


def test_chunks_follow_the_memory(net, images, monkeypatch):
    sizes = []
    one_pass = folding.Sampler._one_pass

    def watched(sampler, pieces, rest, handed, seeds):
        sizes.append(len(seeds))
        return one_pass(sampler, pieces, rest, handed, seeds)

    monkeypatch.setattr(folding.Sampler, "_one_pass", watched)
    whole = dropout_draws(net, [images], draws=10, seed=0)
    assert sizes == [10]
    sizes.clear()
    monkeypatch.setattr(folding, "_CPU_BYTES", 1)
    small = dropout_draws(net, [images], draws=8, seed=0)
    assert sizes == [3, 3, 2]  # passes of at least 16 cases: smaller ones are slower
    np.testing.assert_allclose(small.mean, whole.mean[:8], rtol=1e-5, atol=1e-6)


def test_running_out_of_memory_halves_the_chunk(net, images, monkeypatch):
    one_pass = folding.Sampler._one_pass

    def short(sampler, pieces, rest, handed, seeds):
        if len(seeds) > 3:
            raise torch.OutOfMemoryError("on purpose")
        return one_pass(sampler, pieces, rest, handed, seeds)

    monkeypatch.setattr(folding.Sampler, "_one_pass", short)
    with pytest.warns(UserWarning, match="out of memory"):
        draws = dropout_draws(net, [images], draws=10, seed=3)
    np.testing.assert_allclose(draws.mean, plain_loop(net, [images], 10, 3)[0], rtol=1e-5, atol=1e-6)


def test_the_prefix_runs_once_for_all_draws(images):
    """Counted by a layer before the dropout that notes every call through a custom operation's stand-in."""
    net = convolutional()
    calls = []
    sampler = folding.Sampler(net, "fp32", "", 2)
    pieces, prefix, rest = sampler._prepare(images)
    counted = type(prefix)(prefix.body, prefix.weights, lambda *x: (calls.append(1), prefix.body(*x))[1])
    sampler.prepared[images.shape[1:], images.dtype, images.device] = pieces, counted, rest
    found = []
    sampler.draw(images, list(range(6)), lambda count, outputs: found.append(count))
    assert found == [2, 2, 2]
    assert len(calls) == 1


@pytest.mark.parametrize("sizes", [[1], [4, 1], [2, 3, 1]])
@pytest.mark.parametrize("draws", [1, 3])
def test_small_and_uneven_batches(net, images, sizes, draws):
    batches = images[: sum(sizes)].split(sizes)
    found = dropout_draws(net, batches, draws=draws, seed=2)
    assert found.mean.shape == (draws, sum(sizes), 2)
    np.testing.assert_allclose(found.mean, plain_loop(net, batches, draws, 2)[0], rtol=1e-5, atol=1e-6)


def test_batches_as_a_loader_gives_them(net, images):
    data = torch.utils.data.TensorDataset(images, torch.zeros(7, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=3)
    one = dropout_draws(net, loader, draws=2, seed=0)
    other = dropout_draws(
        net, iter([images[:3].double(), [images[3:6]], (images[6:], "id")]), draws=2, seed=0
    )
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-5, atol=1e-6)


class Dense(nn.Module):
    """A field of values for each case, of any size."""

    def __init__(self, second=1):
        super().__init__()
        self.body, self.drop = nn.Conv2d(1, 4, 3, padding=1), nn.Dropout2d(0.5)
        self.mean, self.log_variance = nn.Conv2d(4, 2, 1), nn.Conv2d(4, second, 1)

    def forward(self, x):
        x = self.drop(self.body(x))
        return self.mean(x), self.log_variance(x)


@pytest.mark.parametrize("second", [1, 2])
def test_dense_outputs(second):
    net, x = Dense(second), torch.randn(3, 1, 6, 5)
    draws = dropout_draws(net, x.split(2), draws=4, seed=0)
    assert draws.mean.shape == (4, 3, 2, 6, 5)
    assert draws.variance.shape == (4, 3, second, 6, 5)
    moments, expected = dropout_moments(net, x.split(2), draws=4, seed=0), decompose(draws)
    np.testing.assert_allclose(moments.total, expected.total, rtol=1e-4)
    with pytest.raises(ValueError, match="different shapes"):
        dropout_draws(net, [x, torch.randn(1, 1, 4, 4)], draws=2, seed=0)


def test_volumes():
    body = nn.Sequential(nn.Conv3d(1, 2, 3), nn.Dropout3d(0.5), nn.Flatten())
    net, x = Heads(body, 2 * 8, outputs=1), torch.randn(3, 1, 4, 4, 4)
    draws = dropout_draws(net, [x], draws=5, seed=4)
    np.testing.assert_allclose(draws.mean, plain_loop(net, [x], 5, 4)[0], rtol=1e-5, atol=1e-6)


def test_channels_last_is_kept():
    net, seen = Heads(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout(0.5), nn.Flatten()), 4 * 36), []
    x = torch.randn(2, 3, 8, 8)
    expected = dropout_draws(net, [x], draws=2, seed=0)
    net.to(memory_format=torch.channels_last)
    net.body[1].register_forward_pre_hook(
        lambda _, x: seen.append(x[0].is_contiguous(memory_format=torch.channels_last))
    )
    found = dropout_draws(net, [x], draws=2, seed=0)
    assert seen
    assert all(seen)
    assert not np.array_equal(found.mean, expected.mean)  # masks follow the layout: the same law, other draws
    np.testing.assert_allclose(
        found.mean, plain_loop(net, [x.to(memory_format=torch.channels_last)], 2, 0)[0], rtol=1e-4
    )


def test_bf16_rounds_but_draws_the_same_kind(net, images):
    exact = dropout_draws(net, images.split(3), draws=4, seed=0)
    rounded = dropout_draws(net, images.split(3), draws=4, seed=0, precision="bf16")
    assert rounded.mean.dtype == np.float32
    assert not np.array_equal(rounded.mean, exact.mean)
    np.testing.assert_allclose(rounded.mean.mean((0, 1)), exact.mean.mean((0, 1)), atol=0.05)


def test_bf16_keeps_the_heads_of_our_network_exact():
    """TwoHead leaves autocast before its heads, which a trace made without autocast would lose."""
    net, x = TwoHead(nn.Flatten(), 16, 2, dropout=0.5), torch.rand(4, 1, 4, 4)
    exact, low = (dropout_draws(net, [x], draws=3, seed=0, precision=p).mean for p in ("fp32", "bf16"))
    np.testing.assert_allclose(low, exact, rtol=1e-5, atol=1e-6)


def test_an_ambient_autocast_does_not_change_the_draws(net, images):
    expected = dropout_draws(net, [images], draws=2, seed=0)
    with torch.autocast("cpu", torch.bfloat16):
        found = dropout_draws(net, [images], draws=2, seed=0)
    assert np.array_equal(found.mean, expected.mean)


def test_laplace_stores_twice_b_squared(net, images):
    normal = dropout_draws(net, [images], draws=2, seed=0)
    laplace = dropout_draws(net, [images], draws=2, seed=0, law=Laplace())
    np.testing.assert_allclose(
        laplace.variance, 2 * normal.variance**2, rtol=1e-5
    )  # normal.variance is exp(log b)
    assert laplace.law == Laplace()


def test_an_ensemble_of_one_equals_its_member(net, images):
    draws = ensemble_draws([net.train()], images.split(3))
    member = copy.deepcopy(net).eval()
    with torch.no_grad():
        parts = [member(part) for part in images.split(3)]
    assert np.array_equal(draws.mean[0], torch.cat([m for m, _ in parts]).numpy())
    assert np.array_equal(draws.variance[0], torch.cat([v.exp() for _, v in parts]).numpy())


def test_an_ensemble_keeps_every_member_and_its_variance(images):
    nets = [convolutional() for _ in range(3)]
    for index, member in enumerate(nets):
        nn.init.constant_(member.log_variance.bias, float(index))
    draws = ensemble_draws(nets, iter(images.split(4)))
    assert draws.mean.shape == (3, 7, 2)
    np.testing.assert_allclose(draws.variance[2] / draws.variance[0], math.exp(2), rtol=1e-5)


def test_an_ensemble_with_dropout_wired_on_is_refused(images):
    class Wired(nn.Module):
        def forward(self, x):
            x = F.dropout(x.flatten(1), 0.5)
            return x[:, :1], x[:, 1:2]

    with pytest.raises(ValueError, match=r"member 0 draws random numbers.*Wired"):
        ensemble_draws([Wired()], [images])


class Gives(nn.Module):
    """Returns whatever a function makes of dropped-out numbers."""

    def __init__(self, make):
        super().__init__()
        self.make, self.drop = make, nn.Dropout(0.5)

    def forward(self, x):
        return self.make(self.drop(x))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda x: x, "returned a Tensor; expected two tensors"),
        (lambda x: (x, x, x), "returned a tuple of 3"),
        (lambda x: {"mean": x, "log_variance": x}, "returned a dict with 'mean', 'log_variance'"),
        (lambda x: (x, x[:, 0]), "output axes"),
        (lambda x: (x, x[:, :2]), "output axes"),
        (lambda x: (x * torch.nan, x), "batch 0 .*not finite"),
        (lambda x: (x, x[:, :1] / 0), "batch 0 .*not finite"),
    ],
)
def test_wrong_outputs_are_named(make, problem):
    with pytest.raises(ValueError, match=problem):
        dropout_draws(Gives(make), [torch.ones(4, 3)], draws=2, seed=0)


def test_one_network_is_no_ensemble(net, images):
    with pytest.raises(ValueError, match=r"\[net\] for one alone"):
        ensemble_draws(net, [images])


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*is deprecated")
def test_torchscript_can_be_a_member_but_has_no_dropout_to_find():
    net = torch.jit.script(nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3)))
    with pytest.raises(ValueError, match=r"TorchScript .*give the nn.Module that it was made from"):
        dropout_draws(net, [torch.ones(4, 3)], seed=0)
    member = Gives(lambda x: (x, x))
    member.drop = net
    assert ensemble_draws([member], [torch.ones(4, 3)]).mean.shape == (1, 4, 3)


def test_the_bad_batch_is_named(net, images):
    with pytest.raises(ValueError, match=r"batch 1 .*not finite"):
        dropout_draws(net, [images[:3], images[3:] * torch.nan], draws=2, seed=0)


def test_exponents_out_of_bounds_are_kept_in_and_told():
    net = Gives(lambda x: (x, (x[:, :1] - 1) * 500))
    with pytest.warns(UserWarning, match=r"beyond \+-80"):
        draws = dropout_draws(net, [torch.ones(20, 3)], draws=3, seed=0)
    assert len(np.unique(draws.variance)) == 2
    assert np.isfinite(draws.variance.sum(0)).all()
    assert (draws.variance > 0).all()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"draws": 0}, "draws is 0"),
        ({"draws": 2.5}, "draws is 2.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": None}, "seed is None"),
        ({"chunk": 0}, "chunk is 0"),
        ({"precision": "fp16"}, "precision is 'fp16'"),
        ({"law": Empirical([0.0, 1.0])}, "expected Normal"),
        ({"batches": []}, "batches is empty"),
        ({"batches": torch.zeros(4, 1, 12, 12)}, "batches is one array"),
        ({"batches": [np.zeros((2, 1, 12, 12))]}, "batch 0 leads with a ndarray"),
        ({"batches": [torch.zeros(0, 1, 12, 12)]}, "at least one case"),
        ({"batches": [{"image": 1}]}, "batch 0 leads with a dict"),
    ],
)
def test_wrong_arguments_are_named(net, change, problem):
    given = {"batches": [torch.zeros(2, 1, 12, 12)], "draws": 2, "seed": 0} | change
    with pytest.raises(ValueError, match=problem):
        dropout_draws(net, given.pop("batches"), **given)


def test_no_dropout_is_an_error_and_no_member_too(images):
    with pytest.raises(ValueError, match="ensemble_draws"):
        dropout_draws(Heads(nn.Flatten(), 144), [images], seed=0)
    with pytest.raises(ValueError, match="nets is empty"):
        ensemble_draws([], [images])
