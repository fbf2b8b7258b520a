"""Likelihoods and losses against torch.distributions, slow loops and finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truesigma.imaging.network.losses import beta_nll, faithful, gaussian, laplace, mse


def arrays(
    cases: int, outputs: int, seed: int, each: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mean = 3 * torch.randn(cases, outputs, generator=generator, dtype=torch.float64)
    spread = torch.randn(cases, outputs if each else 1, generator=generator, dtype=torch.float64)
    target = mean + torch.randn(cases, outputs, generator=generator, dtype=torch.float64)
    return mean, spread, target


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6), st.booleans())
def test_equal_torch_distributions(cases: int, outputs: int, seed: int, each: bool) -> None:
    mean, spread, target = arrays(cases, outputs, seed, each)
    normal = torch.distributions.Normal(mean, (0.5 * spread).exp().expand_as(mean))
    double = torch.distributions.Laplace(mean, spread.exp().expand_as(mean))
    torch.testing.assert_close(gaussian(mean, spread, target), -normal.log_prob(target).mean(1))
    torch.testing.assert_close(laplace(mean, spread, target), -double.log_prob(target).mean(1))


@pytest.mark.parametrize("each", [False, True])
def test_equal_slow_loops(each: bool) -> None:
    mean, spread, target = arrays(4, 3, 7, each)
    for case in range(4):
        normal, double = 0.0, 0.0
        for output in range(3):
            s = float(spread[case, output if each else 0])
            e = float(target[case, output] - mean[case, output])
            normal += 0.5 * (e * e / math.exp(s) + s + math.log(2 * math.pi)) / 3
            double += (abs(e) / math.exp(s) + s + math.log(2)) / 3
        assert float(gaussian(mean, spread, target)[case]) == pytest.approx(normal, rel=1e-12)
        assert float(laplace(mean, spread, target)[case]) == pytest.approx(double, rel=1e-12)


@pytest.mark.parametrize("loss", [gaussian, laplace])
@pytest.mark.parametrize("each", [False, True])
def test_a_mask_leaves_out_what_does_not_count(loss, each: bool) -> None:
    mean, spread, target = arrays(4, 3, 7, each)
    mask = torch.tensor(
        [[True, True, True], [True, False, True], [False, True, False], [False, False, False]]
    )
    expected, gradients = [], []
    for case in range(4):
        some = mask[case]
        one = [a[case : case + 1].clone().requires_grad_() for a in (mean, spread)]
        inputs = one[0][:, some], one[1][:, some] if each else one[1], target[case : case + 1, some]
        value = loss(*inputs) if some.any() else 0 * (one[0].sum() + one[1].sum())[None]
        value.sum().backward()
        expected.append(value.detach())
        gradients.append([a.grad for a in one])
    mean.requires_grad_()
    spread.requires_grad_()
    found = loss(mean, spread, torch.where(mask, target, torch.nan), mask)
    found.sum().backward()
    torch.testing.assert_close(found.detach(), torch.cat(expected))
    torch.testing.assert_close(mean.grad, torch.cat([g[0] for g in gradients]))
    torch.testing.assert_close(spread.grad, torch.cat([g[1] for g in gradients]))


@pytest.mark.parametrize("mask", [torch.ones(4, 3), torch.ones(4, 1, dtype=torch.bool)])
def test_masks_of_another_kind_are_refused(mask) -> None:
    with pytest.raises(ValueError, match=r"mask has shape .* expected booleans of the mean's shape"):
        gaussian(*arrays(4, 3, 7, True), mask)


@pytest.mark.parametrize("loss", [gaussian, laplace])
@pytest.mark.parametrize("each", [False, True])
def test_gradients_by_finite_differences(loss, each: bool) -> None:
    mean, spread, target = arrays(3, 2, 11, each)
    mean.requires_grad_()
    spread.requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s: loss(m, s, target), (mean, spread))


@pytest.mark.parametrize("loss", [gaussian, laplace])
@pytest.mark.parametrize("value", [-1e4, -89.0, 89.0, 1e4])
def test_extreme_spread_stays_finite_and_comes_back(loss, value: float) -> None:
    mean, target = torch.zeros(1, 1), torch.full((1, 1), 0.5)
    spread = torch.full((1, 1), value, requires_grad=True)
    result = loss(mean, spread, target)
    result.sum().backward()
    assert torch.isfinite(result).all()
    assert torch.isfinite(spread.grad).all()
    # too large falls, too small rises
    assert math.copysign(1, float(spread.grad)) == math.copysign(1, value)


@pytest.mark.parametrize("loss", [gaussian, laplace])
def test_half_precision_is_computed_in_float32(loss) -> None:
    mean, spread, target = (value.bfloat16() for value in arrays(64, 3, 3, False))
    result = loss(mean, spread, target)
    assert result.dtype == torch.float32
    exact = loss(mean.double(), spread.double(), target.double())
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(loss(mean, spread, target), result, rtol=0, atol=0)


@pytest.mark.parametrize("loss", [gaussian, laplace])
@pytest.mark.parametrize(
    ("mean", "spread", "target"),
    [
        ((4, 2), (4, 1), (4, 1)),
        ((4, 2), (4,), (4, 2)),
        ((4, 2), (1, 2), (4, 2)),
        ((4,), (4,), (4,)),
        ((4, 2), (4, 3), (4, 2)),
    ],
)
def test_shapes_that_would_broadcast_are_refused(loss, mean, spread, target) -> None:
    with pytest.raises(ValueError, match="shape"):
        loss(torch.zeros(mean), torch.zeros(spread), torch.zeros(target))


def test_one_variance_per_case_is_optimal_at_the_mean_squared_error() -> None:
    """The loss averages over outputs, so the best single variance is the mean squared error, not their sum."""
    mean, target = torch.zeros(1, 6), torch.linspace(0.1, 0.6, 6).reshape(1, 6)
    best = float(target.square().mean().log())
    around = [float(gaussian(mean, torch.full((1, 1), best + d), target)) for d in (-0.05, 0.0, 0.05)]
    assert around[1] == min(around)


@pytest.mark.parametrize("each", [False, True])
def test_losses_equal_slow_loops_in_value_and_gradient(each: bool) -> None:
    """Gradients by hand: what the formulas stop is a constant there."""
    mean, spread, target = arrays(4, 3, 7, each)
    for loss in (beta_nll, faithful, mse):
        m, s = mean.clone().requires_grad_(), spread.clone().requires_grad_()
        found = loss(m, s, target)
        found.sum().backward()
        for case in range(4):
            value, by_spread = 0.0, [0.0] * spread.shape[1]
            for output in range(3):
                column = output if each else 0
                log_v, e = float(spread[case, column]), float(target[case, output] - mean[case, output])
                v = math.exp(log_v)
                nll, to_mean, to_spread = (e * e / v + log_v) / 2, -e / v, (1 - e * e / v) / 2
                if loss is beta_nll:
                    value += math.sqrt(v) * nll / 3
                    to_mean, to_spread = math.sqrt(v) * to_mean, math.sqrt(v) * to_spread
                else:
                    value += (e * e / 2 + (nll if loss is faithful else 0)) / 3
                    to_mean, to_spread = -e, to_spread if loss is faithful else 0.0
                assert float(m.grad[case, output]) == pytest.approx(to_mean / 3, rel=1e-12)
                by_spread[column] += to_spread / 3
            assert float(found[case].detach()) == pytest.approx(value, rel=1e-12)
            given = [0.0] * len(by_spread) if s.grad is None else s.grad[case].tolist()
            assert given == pytest.approx(by_spread, rel=1e-12)


def test_losses_leave_out_what_a_mask_leaves_out() -> None:
    mean, spread, target = arrays(4, 3, 7, True)
    mask = torch.tensor([[True, False, True]]).expand(4, 3)
    for loss in (beta_nll, faithful, mse):
        some = loss(*(value[:, [0, 2]] for value in (mean, spread, target)))
        torch.testing.assert_close(loss(mean, spread, torch.where(mask, target, torch.nan), mask), some)
