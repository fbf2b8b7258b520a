"""Elements: scores are sums over them, a chunk at a time; what several terms share is computed once.

`outputs="separate"`: an element is one output of one case. `outputs="mean"`: an element is a case, its error and its
variance averaged over its outputs (the paper: its network has one sigma per image).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from .arrays import Array, Host, chunk_size, like, namespace, on_host, to_host, total
from .cases import Cases, unread
from .checks import check_choice, check_finite, check_weight, nothing_left
from .law import Law, Pairs, Undefined, central_bounds, has_terms, too_few_for
from .values import Prediction, changed, raw_spread, take
from .varying import ByCase, Varying, beside, laws_of

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


class once(Generic[T]):
    """A property that is computed when it is first asked for, and kept; each object belongs to one thread."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, made: Any, owner: Any = None) -> T:
        kept: T = self.compute(made)
        vars(made)[self.compute.__name__] = kept  # found there from now on
        return kept


@dataclass(frozen=True, eq=False)
class Elements:
    """The elements of some whole cases: arrays (case, output) of one shape, and where the cases are among all of them.

    `weight` is None where every element counts once, 0 where one is masked. A case that is larger than the cache is
    masked in pieces: `mask` is what has yet to be applied.
    """

    law: Law
    rows: slice | Host
    target: Array
    location: Array
    aleatoric: Array  # the total where the split is unknown
    epistemic: Array = None  # None where the split is unknown
    spread: Array = None  # likewise
    weight: Array = None
    mask: Array = None

    @once
    def residual(self) -> Array:
        """Target minus location; with outputs="mean" its mean size."""
        return self.target - self.location

    @once
    def size(self) -> Array:
        return namespace(self.residual).abs(self.residual)

    @once
    def squared(self) -> Array:
        return self.residual * self.residual

    @once
    def total(self) -> Array:
        return self.aleatoric if self.epistemic is None else self.aleatoric + self.epistemic

    def reach(self, level: float) -> tuple[Any, Any]:
        """The ends of the central interval, in units of the scale: numbers, or arrays where they differ by case."""
        low = self.of_law(lambda law: central_bounds(law, level)[0])
        return low, self.of_law(lambda law: central_bounds(law, level)[1])

    def of_law(self, of: Callable[[Law], Any]) -> Any:
        """`of` the law: a number, or an array like the elements where it differs by case."""
        found = of(self.law)
        return beside(like(found, self.residual), self.residual) if self.varies else found

    @property
    def varies(self) -> bool:
        """Whether the law differs by case."""
        return isinstance(self.law, Varying)

    def finite_reach(self, level: float) -> tuple[Any, Any]:
        """The same; `Undefined` where an end is infinite."""
        low, high = self.reach(level)
        if self.varies:
            return _uncrossed(low, high, self.law, level)
        if not high - low < math.inf:
            raise Undefined(too_few_for(self.law, level) or ONE_SIDE)
        return low, high

    def width(self, level: float) -> Pairs:
        """The width of the central interval: one number times the scale, unless the law differs by case."""
        low, high = self.finite_reach(level)
        return [(1.0, (high - low) * self.scale) if self.varies else (high - low, self.scale)]

    @once
    def scale(self) -> Array:
        return namespace(self.total).sqrt(self.total if self.law.unit == 1 else self.total / self.law.unit)

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
        ratio = self.law.variance / self.law.unit
        return self.total if ratio == 1 else self.total * ratio

    @once
    def count(self) -> Any:
        """The sum of the weights: a number, or an array without axes where the elements are."""
        return float(math.prod(self.aleatoric.shape)) if self.weight is None else total(self.weight)

    def error(self, kind: Error) -> Array:
        """Squared error of the mean prediction, or the mean squared error of the draws: (mu - y)^2 + spread."""
        check_choice("error", kind, "mean", "draws")
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
        if self.varies:
            _ = self.law.variance  # without one the scale is no standard deviation
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
        if self.epistemic is None:
            raise Undefined(NO_SPLIT)
        xp = namespace(self.aleatoric)
        some = self.aleatoric > 0
        if bool(xp.all(some)):
            return self.aleatoric
        if self.weight is None or not bool(xp.all(some | (self.weight == 0))):
            raise Undefined(NO_ALEATORIC)
        return xp.where(some, self.aleatoric, xp.ones_like(self.aleatoric))

    @once
    def in_bins(self) -> dict[Any, Any]:
        """The bins of the variance by their edges, since several scores share them."""
        return {}

    @property
    def elements(self) -> "Elements":
        """Each output of each case; `pooled` has an element a case."""
        return self if self.mask is None else self._masked

    @once
    def _masked(self) -> "Elements":
        """Masked elements get weight 0 and harmless values."""
        xp, mask = namespace(self.aleatoric), self.mask
        one, zero = xp.ones_like(self.aleatoric), xp.zeros_like(self.aleatoric)
        made = self.with_arrays(lambda part: xp.where(mask, part, zero), mask=None)
        weight = xp.astype(mask, one.dtype) if made.weight is None else made.weight
        return replace(made, aleatoric=xp.where(mask, self.aleatoric, one), weight=weight)

    def with_arrays(self, of: Callable[[Array], Array], **others: Any) -> "Elements":
        """The elements with `of` each of their arrays, and others of their parts."""
        names = {"target", "location", "aleatoric", "epistemic", "spread", "weight", "mask"} - others.keys()
        arrays = {name: of(part) for name in names if (part := getattr(self, name)) is not None}
        return replace(self, **arrays, **others)

    @once
    def wide(self) -> "Elements":
        """The elements in float64 on the host, for sums that overflow float32."""
        mask = None if self.mask is None else to_host(self.mask)
        return self.with_arrays(lambda part: to_host(part).astype(np.float64, copy=False), mask=mask)

    def by_law(self) -> Iterator["Elements"]:
        """The elements themselves, or those of each law where laws differ by case: what is summed has one law."""
        if not isinstance(self.law, ByCase):
            yield self
            return
        where = np.arange(self.rows.start, self.rows.stop) if isinstance(self.rows, slice) else self.rows
        for law, some in laws_of(self.law, len(where)):
            yield self.with_arrays(partial(take, rows=some), law=law, rows=where[some])

    def at(self, outputs: slice) -> "Elements":
        """Select some outputs of the same cases."""
        law = self.law[:, outputs] if isinstance(self.law, Varying) else self.law
        return self.with_arrays(lambda part: part[:, outputs], law=law)

    @property
    def is_large(self) -> bool:
        """Whether a single case is more than the cache holds."""
        return self.aleatoric.shape[1] > 2 * chunk_size(self.aleatoric)

    def pieces(self) -> Iterator["Elements"]:
        """The elements themselves, or a case that is larger than the cache in pieces of its outputs."""
        size, step = self.aleatoric.shape[1], chunk_size(self.aleatoric)
        if self.is_large:
            yield from (self.at(slice(start, start + step)) for start in range(0, size, step))
        else:
            yield self

    @once
    def pooled(self) -> "Elements":
        """One element a case: the means over its outputs that count."""
        xp = namespace(self.aleatoric)
        ways = [xp.min, xp.max, *[xp.sum] * 7]

        def over_outputs(columns: Iterable[Array]) -> list[Array]:
            pairs = zip(ways, columns)
            return [None if column is None else of(column, axis=1, keepdims=True) for of, column in pairs]

        pieces = zip(*[over_outputs(piece.elements._columns()) for piece in self.pieces()])
        low, high, share, counted, *sums = over_outputs(
            None if each[0] is None else xp.concat(each, axis=1) for each in pieces
        )
        some = share > 0
        safe = xp.where(some, share, xp.ones_like(share))
        means: list[Array] = [None if a is None else xp.where(some, a / safe, xp.ones_like(a)) for a in sums]
        total, squared, size, aleatoric, spread = means
        if low is not None:
            # The mean of equal variances is that variance, or rounding would spread them over bins.
            total = xp.where(low == high, low, total)
        epistemic = None if self.epistemic is None else total - aleatoric
        weight = None if low is None else share / xp.clip(counted, 1, None)
        made = Elements(self.law, self.rows, None, None, aleatoric, epistemic, spread, weight)
        vars(made).update(squared=squared, residual=xp.sqrt(squared) if size is None else size, total=total)
        return made

    def _columns(self) -> list[Array]:
        """Collect what `pooled` reduces over the outputs: variances, weights, outputs that count, and terms."""
        weight, total = self.weight, self.total
        xp, size = namespace(total), None if self.law.moment == 2 else self.size
        terms = [total, self.squared, size, self.aleatoric, self.spread]
        if weight is None:
            every = xp.full_like(total[:, :1], total.shape[1])
            return [None, None, every, every, *terms]
        some = weight > 0
        ends = [xp.where(some, total, xp.full_like(total, end)) for end in (math.inf, -math.inf)]
        weighted = [None if term is None else term * weight for term in terms]
        return [*ends, weight, xp.astype(some, weight.dtype), *weighted]

    def view(self, outputs: Outputs) -> "Elements":
        # A property that keeps its own object would hold the arrays of every block.
        if outputs == "separate":
            return self.elements
        check_choice("outputs", outputs, "separate", "mean")
        return self.elements if self.aleatoric.shape[1] == 1 else self.pooled


def _uncrossed(low: Array, high: Array, law: Law, level: float) -> tuple[Array, Array]:
    """Refuse infinite bounds that differ by case; an interval whose ends have crossed becomes the point between."""
    xp = namespace(low)
    if not bool(xp.all(xp.isfinite(high - low))):
        raise Undefined(too_few_for(law, level) or ONE_SIDE)
    crossed, middle = low > high, (low + high) / 2
    return xp.where(crossed, middle, low), xp.where(crossed, middle, high)


def blocks(prediction: Prediction | Cases, target: Any = None, weight: Any = None) -> Iterator[Elements]:
    """Cut checked cases into blocks of whole cases that fit the cache, or hold one case; each block has one law."""
    cases = with_weight(unread(prediction, target, weight=weight))
    return (part for rows in block_rows(cases) for part in elements_of(cases, rows).by_law())


def every_element(prediction: Prediction | Cases, target: Any = None, *, weight: Any = None) -> Elements:
    """All cases as one block in float64 on the host, for what looks at all of them at once.

    Every element has a weight; those that do not count have weight 0, and hold harmless numbers.

    >>> every_element(Prediction([1.0, 2.0], aleatoric=[4.0, 9.0]), [3.0, 3.0]).scale
    array([[2.],
           [3.]])
    """
    cases = with_weight(unread(prediction, target, weight=weight))
    made = elements_of(cases, slice(0, len(cases))).wide.elements
    if made.weight is None:
        return replace(made, weight=np.ones(made.aleatoric.shape))
    if not (made.weight > 0).any():
        raise nothing_left()
    return replace(made, mask=made.weight > 0).elements


def with_weight(cases: Cases) -> Cases:
    """The cases with their weight checked, and with the shape of the location."""
    prediction = cases.prediction
    if cases.weight is None:
        return cases
    return changed(cases, weight=check_weight(cases.weight, prediction.location, prediction.mask))


def block_rows(cases: Cases) -> list[slice]:
    """Where the cases are cut into blocks."""
    if len(cases) == 0:
        raise nothing_left()
    step = max(1, chunk_size(cases.target) * len(cases) // math.prod(cases.target.shape))
    starts = range(0, len(cases), step)
    return list(map(slice, starts, [*starts[1:], len(cases)]))


def elements_of(cases: Cases, rows: slice, through: Through | None = None) -> Elements:
    """The elements of some cases, as a recalibration makes them if one is given; masked unless they are large."""
    some = cases if rows.stop - rows.start == len(cases) else cases[rows]
    prediction = some.prediction
    try:
        if not cases._read:
            check_finite("target", some.target, prediction.mask)
        if through is not None:
            prediction = through(prediction, group=some.first_group)
    except ValueError:
        # All of them once more: the error then tells where, counted from the first case.
        if some is not cases:
            elements_of(cases, slice(0, len(cases)), through)
        raise
    arrays = {name: getattr(prediction, name) for name in ("location", "aleatoric", "epistemic", "mask")}
    arrays |= {"target": some.target, "spread": raw_spread(prediction), "weight": some.weight}
    # Reshaped a block at a time: an array that is only broadcast would be copied whole.
    parts = {name: on_host(a).reshape((len(some), -1)) for name, a in arrays.items() if a is not None}
    law = prediction.law
    made = Elements(law.flat() if isinstance(law, Varying) else law, rows, **parts)
    return made if made.mask is None or made.is_large else made.elements
