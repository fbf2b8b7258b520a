"""Moments of draws without keeping the draws, and their Monte-Carlo error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.arrays import Array, Host
from ...core.values import Draws, Prediction


@dataclass(frozen=True, eq=False)
class MonteCarloError:
    """Standard errors over the draws: of the location, and of the scale as a share of it.

    With common masks the error is common to all cases: a mean over a test set does not average it out.

    location: (case, output...), in the unit of the location. relative_scale: the same axes; a recalibration that
    multiplies the scale leaves it as it is.
    """

    location: Host
    relative_scale: Host


class Moments:
    """Number, mean and squared deviations of the draws of one batch, and the mean of their variances.

    Updated from chunk to chunk as n = a + b, d = mean_b - mean_a: mean = mean_a + d b/n, S = S_a + S_b + d^2 ab/n.

    The total variance is the mean over draws of s_n = v_n + (y_n - mu)^2; its standard error is that of a mean. As mu
    is known in the end only, q_n = v_n + (y_n - c)^2 is summed with c from the first chunk, and s_n = q_n - 2 (mu - c)
    y_n up to a constant.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, mean: Tensor, variance: Tensor) -> None:
        """Take in some draws: (draw, case, output...) each; the variance may have length 1 on the output axes."""
        exact = torch.float32 if mean.device.type == "mps" else torch.float64
        mean, variance, new = mean.to(exact), variance.to(exact), len(mean)
        centre, inner = mean.mean(0), variance.mean(0)
        if not self.count:
            self.reference = centre
        both = variance + (mean - self.reference) ** 2
        middle, away, beside = both.mean(0), mean - centre, both - both.mean(0)
        squares, products, others = (away**2).sum(0), (away * beside).sum(0), (beside**2).sum(0)
        if not self.count:
            self.count, self.location, self.aleatoric, self.middle = new, centre, inner, middle
            self.squares, self.products, self.others = squares, products, others
            return
        total, step, far = self.count + new, centre - self.location, middle - self.middle
        weight, share = self.count * new / total, new / total
        self.squares = self.squares + squares + step**2 * weight
        self.products = self.products + products + step * far * weight
        self.others = self.others + others + far**2 * weight
        self.location = self.location + step * share
        self.aleatoric = self.aleatoric + (inner - self.aleatoric) * share
        self.middle = self.middle + far * share
        self.count = total

    def on_host(self) -> tuple[Host, ...]:
        """Location, aleatoric and epistemic variance, and the two Monte-Carlo errors (NaN for a single draw)."""
        epistemic, moved = self.squares / self.count, self.location - self.reference
        aleatoric = self.aleatoric.expand_as(self.location)
        # Rounding may leave a sum of squares below 0.
        spread = (self.others - 4 * moved * self.products + 4 * moved**2 * self.squares).clamp(min=0)
        pairs = float(self.count * (self.count - 1)) or torch.nan
        relative = (spread / pairs).sqrt() / (2 * (aleatoric + epistemic))
        found = (self.location, aleatoric, epistemic, (self.squares / pairs).sqrt(), relative)
        return tuple(t.float().cpu().numpy() for t in found)


def joined(parts: Sequence[Array], axis: int) -> Any:
    """Join the arrays of all batches; an error if images of different sizes gave outputs of different shapes."""
    shapes = {part.shape[:axis] + part.shape[axis + 1 :] for part in parts}
    if len(shapes) > 1:
        raise ValueError(
            f"the batches gave outputs of different shapes, {sorted(shapes)}; expected the same in all. Draw from "
            "images of different sizes apart."
        )
    return np.concatenate(parts, axis=axis)


def error_of(draws: Draws) -> MonteCarloError:
    """Compute the Monte-Carlo error of draws that were kept.

    >>> error_of(Draws([[0.0], [2.0]], [[1.0], [1.0]])).location
    array([1.], dtype=float32)
    """
    moments = Moments()
    moments.add(*(torch.from_numpy(np.array(a, np.float64)) for a in (draws.mean, draws.variance)))
    return MonteCarloError(*moments.on_host()[3:])


def prediction_of(parts: Sequence[tuple[Host, ...]], law: Any) -> tuple[Prediction, MonteCarloError]:
    """Make the prediction and its error from the moments of all batches."""
    location, aleatoric, epistemic, *errors = (joined(column, 0) for column in zip(*parts))
    return Prediction(location, aleatoric=aleatoric, epistemic=epistemic, law=law), MonteCarloError(*errors)
