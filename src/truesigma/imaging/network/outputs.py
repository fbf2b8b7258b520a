"""The two outputs of a network: (mean, log-variance) under a Normal law, (mean, log b) under a Laplace one."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...core.law import Laplace, Law, Normal

# exp of more overflows float32 once draws are summed, and exp of less is 0: neither is a usable variance.
_LARGEST = 80.0


def check_law(law: Law) -> None:
    """Refuse a law that is not a likelihood's, since it does not define the second output."""
    if not isinstance(law, Normal | Laplace):
        raise ValueError(
            f"law is {law!r}; expected Normal() or Laplace(), which say what the second output means. "
            "Other laws come from recalibration."
        )


def pair(outputs: Any) -> tuple[Tensor, Tensor]:
    """The two tensors that a network returns; a ValueError says what came instead."""
    found = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
    if len(found) != 2 or not all(isinstance(t, Tensor) for t in found):
        raise ValueError(
            f"the network returned {_describe(outputs)}; expected two tensors, (mean, log-variance). "
            "Wrap it in a module whose forward returns those."
        )
    return found


def values(outputs: Any, count: int, batch: Tensor, number: int, law: Law) -> tuple[Tensor, Tensor, bool]:
    """(mean, variance) with the axes (draw, case, output...), checked, and whether an exponent was kept in bounds."""
    rows = count * len(batch)
    mean, second = (t.float() for t in pair(outputs))
    fits = mean.ndim == second.ndim and mean.ndim > 0 and len(mean) == len(second) == rows
    if not fits or any(a not in (1, b) for a, b in zip(second.shape[1:], mean.shape[1:])):
        shapes = [(tuple(t.shape[1:]) if t.ndim else ()) for t in (mean, second)]
        raise ValueError(
            f"for {len(batch)} cases the network's mean has the output axes {shapes[0]}, its log-variance {shapes[1]}; "
            "expected both led by the case, and a log-variance like the mean or of length 1 on the output axes."
        )
    exponent = log_variance(second, law)
    good = torch.isfinite(mean).all() & torch.isfinite(second).all()
    good, far = torch.stack([good, (exponent.abs() > _LARGEST).any()]).tolist()
    if not good:
        name = "log-variance" if isinstance(law, Normal) else "log b"
        raise ValueError(
            f"batch {number} (counted from 0): the network's mean or {name} is not finite. Look at the images of that "
            "batch, and at the weights."
        )
    variance = bounded_exp(exponent)
    return mean.unflatten(0, (count, -1)), variance.unflatten(0, (count, -1)), far


def log_variance(second: Tensor, law: Law) -> Tensor:
    """Compute the log-variance from the network's second output: log sigma^2 itself, or log 2 b^2 from log b."""
    return second if isinstance(law, Normal) else 2 * second + math.log(2)


def bounded_exp(exponent: Tensor) -> Tensor:
    """exp, kept within what float32 can compute with."""
    return exponent.clamp(-_LARGEST, _LARGEST).exp()


def _describe(outputs: Any) -> str:
    if isinstance(outputs, Mapping):
        return f"a dict with {', '.join(map(repr, outputs)) or 'nothing in it'}"
    if isinstance(outputs, tuple | list):
        return (
            f"a {type(outputs).__name__} of {len(outputs)} ({', '.join(type(t).__name__ for t in outputs)})"
        )
    return f"a {type(outputs).__name__}"


def warn_if_clamped(clamped: bool) -> None:
    if clamped:
        warnings.warn(
            f"some log-variances lie beyond +-{_LARGEST:g} and were kept there, since exp() of them overflows or is 0; "
            "such a network has diverged.",
            stacklevel=3,
        )
