"""Predictions from what a model gives: samples, quantiles, a mixture, a histogram, a law of scipy.stats."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import Host, as_array, like, to_host
from .checks import check_axes, check_choice, check_level, check_mask
from .errors import Refusal
from .law import LAWS, Laplace, Law, Normal, Student
from .laws.histogram import HALF, Histogram, Tails
from .laws.mixture import Mixture
from .laws.quantiles import Quantiles
from .laws.samples import Samples
from .laws.scipy import Scipy, continuous
from .values import Prediction
from .varying import Varying, standardised

SMALLEST = 1e-3  # of the usual width of quantiles: gives a scale where they are equal
MIDDLE_HALF = 1.3489795003921634  # between the quartiles of a Normal law, in standard deviations


def from_samples(samples: Any, axis: int = 0, mask: Any = None) -> Prediction:
    values, example = _last("samples", samples, axis, "sample, case, output...")
    location, variance = values.mean(axis=-1), values.var(axis=-1)
    return _made(example, location, variance, mask, lambda m, s: Samples(standardised(values, m, s)))


def from_quantiles(quantiles: Mapping[float, Any], mask: Any = None) -> Prediction:
    if not isinstance(quantiles, Mapping) or len(quantiles) < 2:
        raise Refusal(
            "quantiles are given by their probability, at least two: from_quantiles({0.05: low, 0.95: high})."
        )
    for probability in quantiles:
        check_level(probability, "the probability of a quantile")
    levels = tuple(sorted(float(p) for p in quantiles))
    columns = [as_array(f"quantile {p:g}", quantiles[p]) for p in sorted(quantiles)]
    check_axes("quantile", columns[0], "case, output...", 1)
    shapes = {tuple(column.shape) for column in columns}
    if len(shapes) > 1:
        raise Refusal(
            f"the quantiles have the shapes {sorted(shapes)}; expected one shape, (case, output...)."
        )
    raw = np.stack([to_host(column).astype(np.float64) for column in columns], axis=-1)
    values = np.sort(raw, axis=-1)
    crossed = int((values != raw).any(axis=-1).sum() - np.isnan(raw).any(axis=-1).sum())
    if crossed > 0:
        warnings.warn(
            f"the quantiles of {crossed} of {raw[..., 0].size} predictions cross, and were sorted.",
            stacklevel=3,
        )
    normal = Normal()
    width = (values[..., -1] - values[..., 0]) / (normal.quantile(levels[-1]) - normal.quantile(levels[0]))
    some = width[np.isfinite(width) & (width > 0)]
    if not some.size:
        raise Refusal("all quantiles of every case are one number; expected some that differ.")
    scale = np.maximum(width, SMALLEST * float(np.median(some)))
    location = _at_half(levels, values)
    return _made(
        columns[0],
        location,
        scale**2,
        mask,
        lambda m, s: Quantiles(levels, standardised(values, m, s)),
    )


def _at_half(levels: tuple[float, ...], values: Host) -> Host:
    """The median, or the middle of the two quantiles about it."""
    above = next((k for k, p in enumerate(levels) if p >= 0.5 - 1e-9), len(levels) - 1)
    if abs(levels[above] - 0.5) < 1e-9:
        return values[..., above]
    below = max(above - 1, 0)
    return (values[..., below] + values[..., above]) / 2


def from_mixture(
    weight: Any, location: Any, scale: Any, law: str | Law = "normal", mask: Any = None
) -> Prediction:
    kind = law if isinstance(law, str) else law.name
    check_choice("law", kind, "normal", "laplace")
    middle, example = _last("location", location, 0, "component, case, output...")
    size = _beside("scale", scale, middle)
    share = _beside("weight", weight, middle)
    # A component without weight says nothing.
    if not ((share >= 0).all() and (share.sum(axis=-1) > 0).all() and (size[share > 0] > 0).all()):
        raise Refusal(
            "the weights or scales of a mixture are wrong; expected weights of 0 or more, and scales above 0."
        )
    share = share / share.sum(axis=-1, keepdims=True)
    size = np.where(share > 0, size, 1.0)
    mean = (share * middle).sum(axis=-1)
    unit = LAWS["laplace" if kind == "laplace" else "gaussian"].unit
    variance = (share * (unit * size**2 + (middle - mean[..., None]) ** 2)).sum(axis=-1)
    return _made(
        example,
        mean,
        variance,
        mask,
        lambda m, s: Mixture(share, standardised(middle, m, s), size / s[..., None], kind),
    )


def from_histogram(edges: Any, probability: Any, tails: Tails = "none", mask: Any = None) -> Prediction:
    check_choice("tails", tails, "none", "halfnormal")
    share, example = _last("probability", probability, 0, "bin, case, output...")
    ends = to_host(as_array("edges", edges)).astype(np.float64)
    ends = np.moveaxis(ends, 0, -1)
    if ends.shape[-1] != share.shape[-1] + 1 or ends.shape[:-1] not in ((), share.shape[:-1]):
        raise Refusal(
            f"edges have shape {tuple(np.shape(edges))}, the probabilities {tuple(np.shape(probability))}; expected "
            "one edge more than bins, (edge,) for all cases or (edge, case, output...)."
        )
    ends = np.broadcast_to(ends, (*share.shape[:-1], ends.shape[-1]))
    if not ((np.diff(ends) > 0).all() and (share >= 0).all() and (share.sum(axis=-1) > 0).all()):
        raise Refusal(
            "edges do not rise, or probabilities are negative or all 0; expected rising edges, and 0 or more."
        )
    share = share / share.sum(axis=-1, keepdims=True)
    middle, width = (ends[..., :-1] + ends[..., 1:]) / 2, np.diff(ends)
    spread = width**2 / 12
    if tails == "halfnormal":
        if share.shape[-1] < 2:
            raise Refusal("there is one bin, which cannot be both tails; expected two or more.")
        for k, edge, side in ((0, 1, -1), (-1, -2, 1)):
            size = width[..., k] / HALF
            middle[..., k] = ends[..., edge] + side * size * math.sqrt(2 / math.pi)
            spread[..., k] = size**2 * (1 - 2 / math.pi)
    mean = (share * middle).sum(axis=-1)
    variance = (share * (spread + (middle - mean[..., None]) ** 2)).sum(axis=-1)
    return _made(
        example, mean, variance, mask, lambda m, s: Histogram(standardised(ends, m, s), share, tails)
    )


def from_scipy(frozen: Any, mask: Any = None) -> Prediction:
    name = getattr(getattr(frozen, "dist", None), "name", None)
    if name is None:
        raise Refusal(
            f"{frozen!r} is no frozen law of scipy.stats; expected one such as stats.gamma(a, scale=b)."
        )
    shapes, place, size = continuous(name)._parse_args(*frozen.args, **frozen.kwds)
    parameters = np.broadcast_arrays(
        *[np.asarray(to_host(p) if hasattr(p, "shape") else p, float) for p in (*shapes, place, size)]
    )
    if not parameters[0].ndim:
        raise Refusal(
            f"the parameters of {name} are single numbers; expected arrays, (case,) or (case, output...)."
        )
    *known, place, size = parameters
    if name in ("norm", "laplace"):
        return Prediction(place, scale=size, law=Normal() if name == "norm" else Laplace(), mask=mask)
    if name == "t" and np.ptp(known[0]) == 0:
        return Prediction(place, scale=size, law=Student(float(known[0].flat[0])), mask=mask)
    with np.errstate(invalid="ignore"):
        mean, variance = (np.broadcast_to(a, place.shape) for a in frozen.stats("mv"))
    has_moments = bool((np.isfinite(mean) & np.isfinite(variance))[_inside(mask, place)].all())
    if not has_moments:
        mean = np.broadcast_to(frozen.median(), place.shape)
        variance = ((frozen.ppf(0.75) - frozen.ppf(0.25)) / MIDDLE_HALF) ** 2

    def law(m: Host, s: Host) -> Varying:
        return Scipy(name, np.stack([*known, (place - m) / s, size / s], axis=-1), has_moments)

    return _made(np.asarray(place), np.array(mean), np.array(variance), mask, law)


def _last(name: str, given: Any, axis: int, axes: str) -> tuple[Host, Any]:
    """The array on the host with that axis last, and the array as it was given."""
    array = as_array(name, given)
    check_axes(name, array, axes, 2)
    # Contiguous along what is sorted and summed for each case.
    return np.ascontiguousarray(np.moveaxis(to_host(array), axis, -1), dtype=np.float64), array


def _beside(name: str, given: Any, example: Host) -> Host:
    """Numbers of components, the first axis, for each case."""
    array = np.moveaxis(to_host(as_array(name, given)).astype(np.float64), 0, -1)
    missing = example.ndim - array.ndim
    array = array.reshape(*array.shape[:-1], *[1] * missing, array.shape[-1]) if missing > 0 else array
    if any(a not in (1, b) for a, b in zip(array.shape, example.shape)) or array.ndim != example.ndim:
        raise Refusal(
            f"{name} has shape {tuple(np.shape(given))}; expected that of location, (component, case, output...), or a "
            "number for each component."
        )
    return np.broadcast_to(array, example.shape)


def _inside(mask: Any, example: Host) -> Host:
    if mask is None:
        return np.ones(example.shape, bool)
    return np.broadcast_to(to_host(check_mask(mask, example, example.shape)), example.shape)


def _made(example: Any, location: Host, variance: Host, mask: Any, law: Any) -> Prediction:
    """The prediction in the library of the example, with the law of what is left about location and scale."""
    counts = _inside(mask, location)
    safe = np.where(counts & (variance > 0) & np.isfinite(variance), variance, 1.0)
    made = law(np.where(counts & np.isfinite(location), location, 0.0), np.sqrt(safe))
    parts = {"location": location, "aleatoric": np.where(counts, variance, 1.0)}
    whole = {n: part if isinstance(example, np.ndarray) else like(part, example) for n, part in parts.items()}
    return Prediction(**whole, law=made, mask=mask)
