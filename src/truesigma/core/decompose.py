"""From draws to a prediction: the law of total variance (paper Eq. 10)."""

import math
from typing import Literal

from .arrays import Array, namespace
from .checks import check_choice, check_kind
from .errors import Refusal
from .values import UNHEARD, Draws, Prediction, sound, trusted


@UNHEARD
def decompose(
    draws: Draws, *, aleatoric: Literal["arithmetic", "geometric"] = "arithmetic", ddof: int = 0
) -> Prediction:
    r"""Split the uncertainty of draws into its aleatoric and its epistemic part.

    $$\mu = \frac1N\sum_n \hat y_n, \qquad E = \frac{1}{N - \mathrm{ddof}}\sum_n (\hat y_n - \mu)^2, \qquad
      A = \frac1N\sum_n \hat\sigma^2_n$$

    Args:
        draws: N draws of each case.
        aleatoric: "arithmetic" averages the variances (the paper's text); "geometric" averages their logarithms
            (its published code), which is never larger.
        ddof: 0 for the paper's epistemic variance, 1 for the unbiased one.

    Returns:
        The prediction, with `spread` = E at ddof 0, which no recalibration changes.

    Example:
        >>> p = decompose(Draws([[1.0], [3.0]], [[0.5], [1.5]]))
        >>> float(p.location[0]), float(p.aleatoric[0]), float(p.epistemic[0])
        (2.0, 1.0, 1.0)

    Reference: Laves et al., MELBA 2021, Eq. 10; Kendall and Gal, 2017.
    """
    check_kind("draws", draws, Draws, "Draws, with an axis of draws before the cases")
    count = int(draws.mean.shape[0])
    if ddof not in (0, 1) or count <= ddof:
        raise Refusal(
            f"ddof is {ddof} with {count} draw(s); expected 0, or 1 with two draws or more. Use ddof=0, or draw more."
        )
    check_choice("aleatoric", aleatoric, "arithmetic", "geometric")
    names = ("location", "aleatoric", "epistemic", "spread")
    made = dict(zip(names, moments(draws.mean, draws.variance, aleatoric=aleatoric, ddof=ddof)))
    return sound(trusted(Prediction, **made, mask=draws.mask, law=draws.law))


def moments(
    mean: Array, variance: Array, *, aleatoric: str = "arithmetic", ddof: int = 0
) -> tuple[Array, Array, Array, Array]:
    """Location, aleatoric, epistemic and spread of draws (draw, case, ...): array operations, without checks."""
    xp, count = namespace(mean), int(mean.shape[0])
    # Counted from the first draw: with an offset far above the spread, plain sums would round the spread away.
    origin = mean[0]
    offset = mean - origin
    middle = xp.mean(offset, axis=0)
    location = origin + middle
    spread = xp.mean((offset - middle) ** 2, axis=0)
    epistemic = spread if ddof == 0 else spread * (count / (count - 1))
    if aleatoric == "arithmetic":
        inner = xp.mean(variance, axis=0)
    else:
        floor = float(xp.finfo(variance.dtype).smallest_normal)
        inner = xp.exp(xp.mean(xp.log(xp.clip(variance, floor, math.inf)), axis=0))
    return location, xp.broadcast_to(inner, location.shape), epistemic, spread
