"""Elements: what the scores are sums over, a chunk at a time, with what several terms share computed once.

`outputs="separate"`: an element is one output of one case. `outputs="mean"`: an element is a case, its error and its
variance averaged over its outputs (the paper: its network has one sigma per image).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np

from .arrays import Array, Host, chunk_size, like, namespace, on_host, to_host, total
from .by_case import Bounds, ByCase, laws_of
from .checks import (
    check_choice,
    check_finite,
    check_group,
    check_level,
    check_weight,
    nothing_left,
    target_beside,
)
from .law import Law, Pairs, Undefined, central_bounds, has_terms, too_few_for
from .values import Prediction, check_prediction, raw_spread, take

T = TypeVar("T")
Outputs = Literal["separate", "mean"]
Error = Literal["mean", "draws"]
Part = Literal["total", "aleatoric"]
NO_SPLIT = (
    "part='aleatoric' needs the aleatoric/epistemic split, which this prediction does not have; use part='total', or "
    "give aleatoric and epistemic."
)
NO_ALEATORIC = (
    "part='aleatoric' needs aleatoric variances above 0, which some cases lack; use part='total', or a mask."
)
ONE_SIDE = "a bound on one side alone has no width."
Terms = Array | Pairs  # one value an element; or pairs (factor, values) that add up to it
Through = Callable[..., Prediction]  # a recalibration: from (prediction, group=...) to another prediction


class once(cached_property[T]):
    """A cached property whose lock, which Python 3.11 has, does not make threads at other blocks wait."""

    lock = property(lambda self: nullcontext(), lambda self, lock: None)


@dataclass(frozen=True, eq=False)
class Elements:
    """Some elements: arrays of one shape. `weight` is None where every element counts once, 0 where one is masked."""

    law: Law
    residual: Array  # target minus location; with outputs="mean" its mean size
    variances: tuple[Array, ...]  # aleatoric and epistemic, where both are known; the total is their sum
    aleatoric: Array  # None where the split is unknown
    spread: Array  # None where the split is unknown
    weight: Array
    bounds: Bounds | None = None  # of intervals, where the law does not give them
    mean_squared: Array = None  # over outputs, where it is not the square of the residual

    @once
    def total(self) -> Array:
        return sum(self.variances[1:], self.variances[0])

    @once
    def squared(self) -> Array:
        return self.residual * self.residual if self.mean_squared is None else self.mean_squared

    def reach(self, level: float) -> tuple[Any, Any]:
        """The ends of the central interval, in units of the scale: numbers, or arrays where they differ by case."""
        if self.bounds is None:
            return central_bounds(self.law, level)
        check_level(level)
        rows = len(self.residual)
        low, high = (like(end.reshape(rows, -1), self.residual) for end in self.bounds.z(level))
        return low, high

    def finite_reach(self, level: float) -> tuple[Any, Any]:
        """The same; `Undefined` where an end is infinite. An interval whose ends have crossed is a point between."""
        low, high = self.reach(level)
        if self.bounds is None:
            if high - low < math.inf:
                return low, high
            raise Undefined(too_few_for(self.law, level) or ONE_SIDE)
        xp = namespace(low)
        if not bool(xp.all(xp.isfinite(high - low))):
            raise Undefined(self.bounds.too_few_for(level) or ONE_SIDE)
        crossed, middle = low > high, (low + high) / 2
        return xp.where(crossed, middle, low), xp.where(crossed, middle, high)

    @once
    def scale(self) -> Array:
        return namespace(self.total).sqrt(self.total if self.law.unit == 1 else self.total / self.law.unit)

    @once
    def size(self) -> Array:
        """|residual|."""
        return namespace(self.residual).abs(self.residual)

    @once
    def z(self) -> Array:
        return self.residual / self.scale

    @once
    def cdf(self) -> Array:
        return self.law.cdf(self.z)

    @once
    def folded(self) -> Array:
        """|z| where the law is symmetric, as its intervals and its CRPS are the same there; else z."""
        return self.size / self.scale if self.law.symmetric else self.z

    @once
    def folded_cdf(self) -> Array:
        """The distribution function at `folded`: of one sign it takes half as long."""
        return self.law.cdf(self.folded)

    @once
    def central(self) -> Array:
        """|2 u - 1|, u the probability integral transform: the level of the central interval that ends at y."""
        if has_terms(self.law):
            return self.law.share_within(self.folded)
        twice = 2 * self.folded_cdf - 1
        return twice if self.law.symmetric else namespace(twice).abs(twice)

    @once
    def variance(self) -> Array:
        return _variance(self.law, self.total)

    @once
    def count(self) -> Any:
        """The sum of the weights: a number, or an array without axes where the elements are."""
        return float(math.prod(self.residual.shape)) if self.weight is None else total(self.weight)

    def error(self, kind: Error) -> Array:
        """Squared error of the mean prediction, or the mean squared error of the draws: (mu - y)^2 + spread."""
        if kind == "mean":
            return self.squared
        if self.spread is None:
            raise Undefined(
                "the error of the draws needs their spread, which a prediction without the aleatoric/epistemic split "
                "does not have; use error='mean', or give aleatoric and epistemic."
            )
        return self.squared + self.spread

    @once
    def power(self) -> Array:
        """|z|^moment."""
        known = self.law.moment == 1 and self.law.symmetric
        return self.folded if known else self._power(self.squared, self.total)

    def ratio(self, part: Part, error: Error) -> Array:
        """|z|^moment with the scale of that part: its mean is what the factor of sigma scaling is made of."""
        if part == "total" and error == "mean":
            return self.power
        if self.law.moment == 1 and error == "draws":
            raise Undefined(
                f"error='draws' is a squared error; {self.law.name} laws are fitted on absolute ones. Use error='mean'."
            )
        return self._power(self.error(error), self.total if part == "total" else self._positive_aleatoric)

    def _power(self, squared: Array, variance: Array) -> Array:
        over = variance if self.law.unit == 1 else variance / self.law.unit
        return squared / over if self.law.moment == 2 else self.size / namespace(over).sqrt(over)

    @once
    def _positive_aleatoric(self) -> Array:
        """The aleatoric variance, where every element that counts has one."""
        if self.aleatoric is None:
            raise Undefined(NO_SPLIT)
        xp = namespace(self.aleatoric)
        some = self.aleatoric > 0
        if bool(xp.all(some)):
            return self.aleatoric
        if self.weight is None or not bool(xp.all(some | (self.weight == 0))):
            raise Undefined(NO_ALEATORIC)
        return xp.where(some, self.aleatoric, xp.ones_like(self.aleatoric))

    @once
    def sums(self) -> dict[Any, Any]:
        """Sums that are known already, by the identity of the array, or of the edges: several scores share them."""
        return {}


def _variance(law: Law, total: Array) -> Array:
    ratio = law.variance / law.unit
    return total if ratio == 1 else total * ratio


def check_outputs(outputs: str) -> None:
    """Each output is an element, or each case."""
    check_choice("outputs", outputs, "separate", "mean")


def check_error(error: str) -> None:
    """Of the mean prediction, or of every draw."""
    check_choice("error", error, "mean", "draws")


@dataclass(frozen=True, eq=False)
class Block:
    """Some whole cases: what they hold as arrays (case, output), and where they are among all cases."""

    law: Law
    parts: Mapping[str, Array]  # by the names that `blocks` gives them; None where not given
    rows: slice | Host
    bounds: Bounds | None = None

    @once
    def elements(self) -> Elements:
        """Each output of each case; masked ones get weight 0 and harmless values."""
        part = dict(self.parts)
        mask, weight = part["mask"], part["weight"]
        xp = namespace(part["target"])
        if mask is not None:
            one, zero = xp.ones_like(part["location"]), xp.zeros_like(part["location"])
            for name in ("target", "location", "epistemic", "spread"):
                part[name] = None if part[name] is None else xp.where(mask, part[name], zero)
            part["aleatoric"] = xp.where(mask, part["aleatoric"], one)
            weight = xp.astype(mask, one.dtype) if weight is None else xp.where(mask, weight, zero)
        aleatoric, epistemic = part["aleatoric"], part["epistemic"]
        return Elements(
            law=self.law,
            residual=part["target"] - part["location"],
            variances=(aleatoric,) if epistemic is None else (aleatoric, epistemic),
            aleatoric=None if epistemic is None else aleatoric,
            spread=part["spread"],
            weight=weight,
            bounds=self.bounds,
        )

    @once
    def wide(self) -> "Block":
        """The same cases in float64 on the host, for sums that overflow float32."""
        parts = {name: None if a is None else to_host(a) for name, a in self.parts.items()}
        parts = {
            k: a if a is None or a.dtype == bool else a.astype(np.float64, copy=False)
            for k, a in parts.items()
        }
        return Block(self.law, parts, self.rows, self.bounds)

    def by_law(self) -> Iterator["Block"]:
        """The block itself, or one for each law where laws differ by case: what is summed has one law."""
        if not isinstance(self.law, ByCase):
            yield self
            return
        where = np.arange(self.rows.start, self.rows.stop) if isinstance(self.rows, slice) else self.rows
        for law, some in laws_of(self.law, len(where)):
            bounds = None if self.bounds is None else self.bounds[some]
            yield Block(law, {name: take(a, some) for name, a in self.parts.items()}, where[some], bounds)

    @property
    def is_large(self) -> bool:
        """Whether a single case is more than the cache holds."""
        return self.parts["target"].shape[1] > 2 * chunk_size(self.parts["target"])

    def pieces(self) -> Iterator["Block"]:
        """The block itself, or a case that is larger than the cache in pieces of its outputs."""
        if not self.is_large or self.bounds is not None:
            yield self
            return
        size, step = self.parts["target"].shape[1], chunk_size(self.parts["target"])
        for start in range(0, size, step):
            part = {k: None if a is None else a[:, start : start + step] for k, a in self.parts.items()}
            yield Block(self.law, part, self.rows)

    @once
    def pooled(self) -> Elements:
        """One element a case: the means over its outputs that count."""
        if self.parts["target"].shape[1] == 1:
            return self.elements
        xp = namespace(self.parts["target"])
        columns = zip(*[piece._output_sums() for piece in self.pieces()])
        sums: list[Array] = [
            None if c[0] is None else xp.sum(xp.concat(c, axis=1), axis=1, keepdims=True) for c in columns
        ]
        share, counted = sums[:2]
        some = share > 0
        safe = xp.where(some, share, xp.ones_like(share))
        means = [None if a is None else xp.where(some, a / safe, xp.ones_like(a)) for a in sums[2:]]
        squared, size, total, aleatoric, spread = means
        weighted = self.parts["weight"] is not None or self.parts["mask"] is not None
        if weighted:  # The mean of equal variances is that variance, or rounding would spread them over bins.
            ends = zip((xp.min, xp.max), zip(*[piece._output_ends() for piece in self.pieces()]))
            low, high = (of(xp.concat(parts, axis=1), axis=1, keepdims=True) for of, parts in ends)
            total = xp.where(low == high, low, total)
        return Elements(
            law=self.law,
            residual=xp.sqrt(squared) if self.law.moment == 2 else size,
            mean_squared=squared,
            variances=(total,),
            aleatoric=aleatoric,
            spread=spread,
            weight=share / xp.clip(counted, 1, None) if weighted else None,
        )

    def _output_sums(self) -> list[Array]:
        """Sums over the outputs of each case: weight, outputs that count, and what `pooled` takes the means of."""
        part, weight = self.elements, self.elements.weight
        xp = namespace(part.residual)
        size = None if part.law.moment == 2 else part.size
        columns = [part.squared, size, part.total, part.aleatoric, part.spread]
        if weight is not None:
            columns = [None if c is None else c * weight for c in columns]
            columns = [weight, xp.astype(weight > 0, weight.dtype), *columns]
        sums = [None if c is None else xp.sum(c, axis=1, keepdims=True) for c in columns]
        if weight is None:
            every = xp.full_like(part.residual[:, :1], part.residual.shape[1])
            sums = [every, every, *sums]
        return sums

    def _output_ends(self) -> list[Array]:
        """The smallest and the largest variance of each case among its outputs that count."""
        total, some = self.elements.total, self.elements.weight > 0
        xp = namespace(total)
        ends = [(xp.min, math.inf), (xp.max, -math.inf)]
        return [of(xp.where(some, total, xp.full_like(total, e)), axis=1, keepdims=True) for of, e in ends]

    def view(self, outputs: Outputs) -> Elements:
        return self.elements if outputs == "separate" else self.pooled

    def variances(self, outputs: Outputs) -> tuple[Array, Array]:
        """The variances of the elements and their weights; no errors are computed for them where none is needed."""
        if outputs == "mean" or self.parts["mask"] is not None:
            return self.view(outputs).variance, self.view(outputs).weight
        total, epistemic = self.parts["aleatoric"], self.parts["epistemic"]
        return _variance(self.law, total if epistemic is None else total + epistemic), self.parts["weight"]


def blocks(prediction: Prediction, target: Any, weight: Any = None) -> Iterator[Block]:
    """All cases, checked, in blocks of whole cases that fit the cache, or are one case each; all of one law."""
    return (block for make in block_makers(prediction, target, weight) for block in make().by_law())


def block_makers(
    prediction: Prediction,
    target: Any,
    weight: Any = None,
    *,
    group: Any = None,
    through: Through | None = None,
    checked: bool = False,
) -> Iterator[Callable[[], Block]]:
    """The same as functions that make a block each, so that threads share that work, too.

    `checked` says that the target is that of `Cases`; the numbers of others are looked at block by block, in the cache.

    `through` is a recalibration that changes the cases, with their names in `group`: block by block where it says
    `by_block`, so that what it makes stays in the cache; else all of them at once.
    """
    check_prediction(prediction)
    if through is not None and not getattr(through, "by_block", False):
        prediction, through = through(prediction, group=group), None
    if len(prediction) == 0:
        raise nothing_left()
    if not checked:
        target = target_beside(prediction.location, target)
    weight = check_weight(weight, prediction.location, prediction.mask)
    group = check_group(group, len(prediction))
    cases = len(prediction)
    step = max(1, chunk_size(target) * cases // math.prod(target.shape))

    def part(rows: slice) -> Prediction:
        try:
            if not checked:
                check_finite("target", target[rows], take(prediction.mask, rows))
            return prediction[rows] if through is None else through(prediction[rows], group=take(group, rows))
        except ValueError:
            # All of them once more: the error then tells where, counted from the first case.
            check_finite("target", target, prediction.mask)
            if through is not None:
                through(prediction, group=group)
            raise

    def make(rows: slice) -> Block:
        some = part(rows)
        whole: dict[str, Array] = {
            "location": some.location,
            "target": target[rows],
            "aleatoric": some.aleatoric,
            "epistemic": some.epistemic,
            "spread": raw_spread(some),
            "weight": None if weight is None else weight[rows],
            "mask": some.mask,
        }
        # Reshaped a block at a time: an array that is only broadcast would be copied whole.
        shape = (rows.stop - rows.start, -1)
        parts = {name: None if a is None else on_host(a).reshape(shape) for name, a in whole.items()}
        return Block(some.law, parts, rows, some.bounds)

    for start in range(0, cases, step):
        yield partial(make, slice(start, min(start + step, cases)))
