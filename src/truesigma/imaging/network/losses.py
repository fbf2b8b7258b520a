"""Losses of two-head networks, one value per case: likelihoods, and losses that keep the mean accurate."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = [
    "LIKELIHOODS",
    "LOSSES",
    "beta_nll",
    "faithful",
    "gaussian",
    "laplace",
    "mse",
    "predicted_variance",
]

# exp(20) and exp(-20) are far outside any variance of a target scaled to about [0, 1], and finite in float32
SMALLEST, LARGEST = -20.0, 20.0


def gaussian(mean: Tensor, log_variance: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Gaussian negative log-likelihood in nats, averaged over the outputs of each case.

    loss_i = mean_j [ (y_ij - mu_ij)^2 / (2 v_ij) + log(v_ij) / 2 + log(2 pi) / 2 ]

    The log-variance is clamped to [-20, 20]; its gradient passes the clamp, so that a value outside can come
    back. Computed in float32 at least, also where the inputs are half precision.

    mean: (case, output...). log_variance: the same, or length 1 on the output axes. target: like mean.
    mask: booleans like mean, True where the target counts; elsewhere it may be NaN. None: everywhere.
    Returns one value per case, 0 for a case of which nothing counts.

    >>> gaussian(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]))
    tensor([0.9189, 2.9189])

    Reference: Laves et al. (2021), Eq. 6, which drops the factor 1/2 and the constant.
    """
    mean, log_variance, target = _checked(mean, log_variance, target, mask)
    squared = (target - mean).square()
    terms = 0.5 * (squared * torch.exp(-log_variance) + log_variance + math.log(2 * math.pi))
    return _means(terms, mask)


def laplace(mean: Tensor, log_b: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Laplace negative log-likelihood in nats, averaged over the outputs of each case.

    loss_i = mean_j [ |y_ij - mu_ij| / b_ij + log(2 b_ij) ];    the variance is 2 b^2

    log b is clamped to [-20, 20]; its gradient passes the clamp. Computed in float32 at least.

    mean: (case, output...). log_b: the same, or length 1 on the output axes. target: like mean.
    mask: as for `gaussian`. Returns one value per case.

    >>> laplace(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]))
    tensor([0.6931, 2.6931])

    Reference: Laves et al. (2021), section 3 (Laplace likelihood).
    """
    mean, log_b, target = _checked(mean, log_b, target, mask)
    terms = (target - mean).abs() * torch.exp(-log_b) + log_b + math.log(2.0)
    return _means(terms, mask)


def beta_nll(mean: Tensor, log_variance: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weigh the Gaussian likelihood of each output by its standard deviation, v^beta with beta = 1/2.

    loss_i = mean_j [ stop(v_ij)^(1/2) ( (y_ij - mu_ij)^2 / v_ij + log v_ij ) / 2 ]

    The gradient treats stop() as a constant. The plain likelihood hardly learns from cases that look noisy, so its mean
    is worse there than that of a network trained on squared errors; the weight takes back half of that.

    Arguments and result as for `gaussian`.

    >>> beta_nll(torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), 2.0))
    tensor([2.])

    Reference: Seitzer et al. (2022), Eq. 5.
    """
    mean, log_variance, target = _checked(mean, log_variance, target, mask)
    terms = 0.5 * ((target - mean).square() * torch.exp(-log_variance) + log_variance)
    return _means(torch.exp(0.5 * log_variance.detach()) * terms, mask)


def faithful(mean: Tensor, log_variance: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Squared error for the mean, and the likelihood around that mean, taken as given, for the variance.

    loss_i = mean_j [ (y_ij - mu_ij)^2 / 2 + ( (y_ij - stop(mu_ij))^2 / v_ij + log v_ij ) / 2 ]

    If the second head also takes its features as given (`TwoHead(detached=True)`), the mean is that of a network
    trained on `mse`, to the bit.

    Arguments and result as for `gaussian`.

    >>> faithful(torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), 2.0))
    tensor([4.])

    Reference: Stirn et al. (2023), section 3.
    """
    mean, log_variance, target = _checked(mean, log_variance, target, mask)
    around = (target - mean.detach()).square() * torch.exp(-log_variance) + log_variance
    return _means(0.5 * (target - mean).square() + 0.5 * around, mask)


def mse(mean: Tensor, log_variance: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Half the squared error of the mean; the variance is not trained, and recalibration makes it one for all cases.

    Arguments and result as for `gaussian`.

    >>> mse(torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), 2.0))
    tensor([2.])
    """
    mean, _, target = _checked(mean, log_variance, target, mask)
    return _means(0.5 * (target - mean).square(), mask)


LIKELIHOODS: dict[str, Callable[..., Tensor]] = {
    "gaussian": gaussian,
    "laplace": laplace,
}
# What is minimised instead of the Gaussian likelihood, by the recipe's `loss`.
LOSSES: dict[str, Callable[..., Tensor]] = {
    "beta_nll": beta_nll,
    "faithful": faithful,
    "mse": mse,
}


def predicted_variance(second: Tensor, likelihood: str) -> Tensor:
    """The variance that a network's second output stands for: exp(s), or 2 b^2 = 2 exp(2 log b) for Laplace.

    >>> predicted_variance(torch.zeros(1), "laplace")
    tensor([2.])
    """
    second = second.float().clamp(SMALLEST, LARGEST)
    return second.exp() if likelihood == "gaussian" else 2 * (2 * second).exp()


def _means(terms: Tensor, mask: Tensor | None) -> Tensor:
    """The mean of each case over the outputs that count."""
    if mask is None:
        return terms.flatten(1).mean(1)
    return (terms * mask).flatten(1).sum(1) / mask.flatten(1).sum(1).clamp(min=1)


def _checked(
    mean: Tensor, second: Tensor, target: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Refuse shapes that would broadcast into a silently wrong number; widen half precision; clamp the second head."""
    if mean.ndim < 2 or mean.shape != target.shape:
        raise ValueError(
            f"mean has shape {tuple(mean.shape)} and target {tuple(target.shape)}; expected both (case, output). "
            "Add the axis that is missing, as target[:, None]."
        )
    fits = second.ndim == mean.ndim and all(s in (1, m) for s, m in zip(second.shape[1:], mean.shape[1:]))
    if not fits or second.shape[0] != mean.shape[0]:
        raise ValueError(
            f"the second head has shape {tuple(second.shape)} for a mean of shape {tuple(mean.shape)}; "
            "expected one value per case (case, 1) or one per output (case, output)"
        )
    if mask is not None:
        if mask.dtype != torch.bool or mask.shape != mean.shape:
            raise ValueError(
                f"mask has shape {tuple(mask.shape)} and dtype {mask.dtype}; expected booleans of the mean's shape "
                f"{tuple(mean.shape)}, True where the target counts"
            )
        # replaced before anything is computed: the gradient of NaN is NaN, even if it is multiplied by 0
        target = torch.where(mask, target, mean.detach().to(target.dtype))
    kind = torch.promote_types(torch.promote_types(mean.dtype, second.dtype), torch.float32)
    second = second.to(kind)
    # the value is clamped, the gradient is not: a plain clamp would have no gradient that leads back
    second = second + (second.clamp(SMALLEST, LARGEST) - second).detach()
    return mean.to(kind), second, target.to(kind)
