"""The frozen values that stages hand to each other: Draws, Prediction and Interval; `cases` has Cases.

Every value checks what it is given once, when it is made; the mathematics behind it then holds only mathematics.
Axes: the case first (behind the draw, in Draws), every further axis is output. Values outside a mask are neither
checked nor used, so NaN may be there. Arrays are not copied, since they may fill the memory: whoever changes one in
place afterwards changes the value, too, and should give a copy.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Never, TypeVar

import numpy as np
from array_api_compat import is_array_api_obj

from .arrays import Array, as_array, expand, extremes, like, namespace, to_host, with_axes
from .checks import (
    check_axes,
    check_finite,
    check_kind,
    check_law,
    check_mask,
    check_values,
    check_whole,
    number_of,
    same_mask,
    target_beside,
)
from .errors import Refusal
from .law import Law, Normal, central_bounds
from .varying import Varying, law_at, of_each

T = TypeVar("T")
UNHEARD = np.errstate(over="ignore", invalid="ignore")  # of what is outside a mask, numpy need not warn


def trusted(kind: type[T], **values: Any) -> T:
    """Make a value without the checks that a user's arrays get."""
    made = object.__new__(kind)
    vars(made).update(values)  # what is not given has its default from the class
    return made


def changed(value: T, **parts: Any) -> T:
    """Copy a value with some parts replaced and no checks: `dataclasses.replace` for values that we made.

    >>> changed(Prediction([0.0], scale=[1.0]), aleatoric=np.array([4.0])).scale
    array([2.])
    """
    return trusted(type(value), **{**vars(value), **parts})


def take(array: Any, rows: Any) -> Any:
    """Some cases of an array, or of what is indexed by cases as it is; of each in a mapping; None stays None."""
    if isinstance(array, Mapping):
        return {name: take(one, rows) for name, one in array.items()}
    return None if array is None else array[rows]


def rows_of(index: Any) -> Any:
    """An index of cases as every library takes it: a slice, or a boolean mask or numbers on the host."""
    if isinstance(index, int | np.integer):
        raise Refusal(
            f"the index is {index}, one case; expected some cases: [{index}:{index + 1}] gives that one."
        )
    if is_array_api_obj(index):
        return to_host(index)
    return np.array(index, dtype=None if index else int) if isinstance(index, list) else index


@dataclass(frozen=True, eq=False)
class Draws:
    """Stochastic passes, or ensemble members: a mean and a variance for each draw of each case.

    `mean` has the axes (draw, case, output...); `variance` may have length 1 on the draw and the output axes, `mask`
    the axes (case, output...) or (case,).

    >>> Draws([[0.1, 0.2], [0.3, 0.2]], [[0.01, 0.02], [0.01, 0.02]])
    Draws(2 draws, 2 cases, normal)
    """

    mean: Array
    variance: Array
    mask: Array = None
    law: Law = Normal()

    def __post_init__(self) -> None:
        check_law(self.law)
        mean, variance = as_array("mean", self.mean), as_array("variance", self.variance)
        namespace(mean, variance)  # of one library, on one device
        check_axes("mean", mean, "draw, case, output...", 2)
        variance = with_axes("variance", variance, tuple(mean.shape), case=1)
        mask = check_mask(self.mask, mean, tuple(mean.shape[1:]))
        check_finite("mean", mean, mask, axis=1)
        check_finite("variance", variance, mask, least=0, axis=1)
        vars(self).update(mean=mean, variance=variance, mask=mask)

    @staticmethod
    def concat(*parts: "Draws | Sequence[Draws]") -> "Draws":
        """Join members that were drawn apart, along the draw axis; they must agree in cases, mask and law.

        >>> one = Draws([[0.1, 0.2]], [[0.01, 0.02]])
        >>> Draws.concat(one, one)
        Draws(2 draws, 2 cases, normal)
        """
        draws = [d for part in parts for d in ([part] if isinstance(part, Draws) else part)]
        if not draws or not all(isinstance(d, Draws) for d in draws):
            raise Refusal("nothing to join, or something that is not Draws; expected one Draws or more.")
        first, xp = draws[0], namespace(*[d.mean for d in draws])
        for other in draws[1:]:
            alike = other.mean.shape[1:] == first.mean.shape[1:] and other.law == first.law
            if not (alike and same_mask(first.mask, other.mask)):
                raise Refusal(
                    f"cannot join {first!r} with {other!r}; expected the same cases, outputs and law in each, and "
                    "the same mask."
                )
        width = [max(sizes) for sizes in zip(*[d.variance.shape[1:] for d in draws])]
        variance = [xp.broadcast_to(d.variance, (d.mean.shape[0], *width)) for d in draws]
        mean = xp.concat([d.mean for d in draws], axis=0)
        return changed(first, mean=mean, variance=xp.concat(variance, axis=0))

    def __len__(self) -> int:
        return int(self.mean.shape[1])

    def __getitem__(self, index: Any) -> "Draws":
        """The draws of some cases: a slice, a boolean mask or an index array over the cases."""
        rows = rows_of(index)
        mean, variance = self.mean[:, rows], self.variance[:, rows]
        return changed(self, mean=mean, variance=variance, mask=take(self.mask, rows))

    def __repr__(self) -> str:
        outputs = "".join(f" x {n}" for n in self.mean.shape[2:])
        sizes = ", ".join(map(number_of, self.mean.shape, ("draw", "case")))
        return f"Draws({sizes}{outputs}, {self.law.name})"


class Interval(NamedTuple):
    """Lower and upper bounds, each with the axes of the location."""

    lower: Array
    upper: Array

    def __repr__(self) -> str:
        return f"Interval({number_of(self.lower.shape[0], 'case')})"


@dataclass(frozen=True, eq=False, init=False)
class Prediction:
    """The prediction for each case: a location, its uncertainty, and the law of z in y = location + scale * z.

    The uncertainty is given by name, in one of three ways: `scale` (the standard deviation of a Normal law, b of a
    Laplace law), `variance`, or the variances `aleatoric` and `epistemic`. Where the split into the two is unknown,
    `epistemic` is None and `aleatoric` holds the total. `spread` is the raw variance of the draws' means, which no
    recalibration changes; None means epistemic. What is no location and scale has a door of its own: `from_samples`,
    `from_quantiles`, `from_mixture`, `from_histogram`, `from_scipy`; its law then differs by case.

    >>> Prediction([1.0, 2.0], scale=[0.2, 0.3]).variance.round(2)
    array([0.04, 0.09])
    >>> Prediction([1.0, 2.0], aleatoric=[0.04, 0.09], epistemic=[0.0, 0.07]).scale
    array([0.2, 0.4])
    """

    location: Array
    aleatoric: Array
    epistemic: Array = None
    law: Law = Normal()
    spread: Array = None
    mask: Array = None

    def __init__(
        self,
        location: Any,
        *unnamed: Never,
        scale: Any = None,
        variance: Any = None,
        aleatoric: Any = None,
        epistemic: Any = None,
        law: Law = Normal(),
        spread: Any = None,
        mask: Any = None,
    ) -> None:
        if unnamed:
            raise TypeError(
                "Prediction takes the location alone without a name; say what the other array is: scale= for standard "
                "deviations, variance= for variances, or aleatoric= and epistemic= for the two parts of the variance."
            )
        check_law(law)
        location = as_array("location", location)
        check_axes("location", location, "case, output...", 1)
        shape = tuple(location.shape)
        if isinstance(law, Varying) and not law.fits(shape):
            raise Refusal(f"the law is that of {law.shape} predictions; expected the location's {shape}.")
        mask = check_mask(mask, location, shape)
        check_finite("location", location, mask)
        if aleatoric is None or scale is not None or variance is not None:
            aleatoric = _total_of(location, law, mask, scale, variance, aleatoric, epistemic)
        low = high = 0.0
        for name, part in {"aleatoric": aleatoric, "epistemic": epistemic, "spread": spread}.items():
            made = None if part is None else expand(name, as_array(name, part), shape)
            vars(self)[name] = made
            if made is not None:
                namespace(location, made)
                ends = check_finite(name, made, mask, least=0)
                if name != "spread":
                    low, high = low + ends[0], high + ends[1]
        xp = namespace(location)
        vars(self).update(location=location, law=law, mask=mask)
        if not (low > 0 and high <= float(xp.finfo(self.aleatoric.dtype).max)):
            total = self.total
            given = {"scale": scale, "variance": variance, "aleatoric + epistemic": aleatoric}
            name = next(name for name, values in given.items() if values is not None)
            expected = "a number above 0 that its dtype can hold" + "; one of the two may be 0" * (
                name[0] == "a"
            )
            check_values(name, (total > 0) & xp.isfinite(total), mask, "is 0 or overflows", expected)

    @property
    @UNHEARD
    def total(self) -> Array:
        """Aleatoric plus epistemic variance, what the scale is made of."""
        return self.aleatoric if self.epistemic is None else self.aleatoric + self.epistemic

    @property
    @UNHEARD
    def scale(self) -> Array:
        """sqrt(total / law.unit): the standard deviation for Normal, b for Laplace."""
        return namespace(self.location).sqrt(self.total / self.law.unit)

    @property
    def variance(self) -> Array:
        """Predictive variance scale^2 * law.variance; raises Undefined where the law has none."""
        return self.total * of_each(self.law, lambda law: law.variance / law.unit, self.total)

    @property
    def mean(self) -> Array:
        """Of the whole law: the location, unless the law is skewed; raises Undefined where the law has none."""
        mean = of_each(self.law, lambda law: law.mean, self.location)
        return self.location if isinstance(mean, float) and mean == 0 else self.location + self.scale * mean

    @UNHEARD
    def interval(self, level: float = 0.9) -> Interval:
        """The central interval that should hold a share `level` of the targets.

        >>> Prediction([0.0], aleatoric=[1.0], epistemic=[0.0]).interval(0.95).upper.round(3)
        array([1.96])
        """
        scale = self.scale
        low = of_each(self.law, lambda law: central_bounds(law, level)[0], scale)
        high = of_each(self.law, lambda law: central_bounds(law, level)[1], scale)
        return Interval(self.location + scale * low, self.location + scale * high)

    @UNHEARD
    def quantile(self, probability: float) -> Array:
        """The value that a target lies below with that probability.

        >>> Prediction([0.0], scale=[1.0]).quantile(0.95).round(3)
        array([1.645])
        """
        return self.location + self.scale * of_each(
            self.law, lambda law: law.quantile(probability), self.scale
        )

    @UNHEARD
    def cdf(self, y: Any) -> Array:
        """The probability of a target at or below y, which has the location's shape."""
        return self.law.cdf((target_beside(self.location, y) - self.location) / self.scale)

    @UNHEARD
    def logpdf(self, y: Any) -> Array:
        """The logarithm of the density at y; raises Undefined where the law has none."""
        scale = self.scale
        z = (target_beside(self.location, y) - self.location) / scale
        return self.law.log_density(z) - namespace(scale).log(scale)

    def sample(self, count: int, *, seed: int) -> Array:
        """Draw targets, (draw, case, output...); the outputs of joint samples stay together.

        >>> Prediction([0.0, 5.0], scale=[1.0, 1.0]).sample(1000, seed=0).shape
        (1000, 2)
        """
        check_whole("count", count, 1)
        drawn = self.law.draw(np.random.default_rng(seed), (count, *map(int, self.location.shape)))
        return self.location + self.scale * like(drawn, self.location)

    @staticmethod
    def from_samples(samples: Any, axis: int = 0, *, mask: Any = None) -> "Prediction":
        """Of samples (sample, case, output...), such as draws of a posterior; `axis` is that of the samples.

        Those of several outputs are taken as joint. Scores are those of the samples as they are; quantiles beyond the
        outermost are `Undefined`.

        >>> Prediction.from_samples([[1.0, 2.0], [3.0, 6.0]]).mean
        array([2., 4.])
        """
        from .doors import from_samples

        return from_samples(samples, axis, mask)

    @staticmethod
    def from_quantiles(quantiles: Mapping[float, Any], *, mask: Any = None) -> "Prediction":
        """Of quantiles by their probability, each (case, output...), such as those of a boosted tree.

        Quantiles that cross are sorted, and counted in a warning. Nothing is known beyond the outermost.

        >>> low, middle, high = [0.0], [1.0], [3.0]
        >>> Prediction.from_quantiles({0.05: low, 0.5: middle, 0.95: high}).interval(0.9).upper
        array([3.])
        """
        from .doors import from_quantiles

        return from_quantiles(quantiles, mask)

    @staticmethod
    def from_mixture(
        weight: Any, location: Any, scale: Any, *, law: str | Law = "normal", mask: Any = None
    ) -> "Prediction":
        """Of the components of a mixture, (component, case, output...), Normal or Laplace ones.

        `weight` and `scale` may have one number for each component; weights are divided by their sum.

        >>> Prediction.from_mixture([0.5, 0.5], [[-1.0], [1.0]], [0.5, 0.5]).quantile(0.5).round(6) + 0.0
        array([0.])
        """
        from .doors import from_mixture

        return from_mixture(weight, location, scale, law, mask)

    @staticmethod
    def from_histogram(
        edges: Any, probability: Any, *, tails: Literal["none", "halfnormal"] = "none", mask: Any = None
    ) -> "Prediction":
        """Of probabilities of bins, (bin, case, output...), with edges common to all or (edge, case, output...).

        With `tails="halfnormal"` the outer bins have no end: they are half-normal laws from their inner edge on, with
        half of their probability within the bin, as TabPFN has them.

        >>> Prediction.from_histogram([0.0, 1.0, 3.0], [[0.5], [0.5]]).quantile(0.75)
        array([2.])
        """
        from .doors import from_histogram

        return from_histogram(edges, probability, tails, mask)

    @staticmethod
    def from_scipy(frozen: Any, *, mask: Any = None) -> "Prediction":
        """Of a frozen continuous law of scipy.stats whose parameters are arrays, (case,) or (case, output...).

        >>> from scipy import stats
        >>> Prediction.from_scipy(stats.gamma([2.0, 4.0], scale=0.5)).mean
        array([1., 2.])
        """
        from .doors import from_scipy

        return from_scipy(frozen, mask)

    def __len__(self) -> int:
        return int(self.location.shape[0])

    def __getitem__(self, index: Any) -> "Prediction":
        """The prediction of some cases: a slice, a boolean mask or an index array over the cases."""
        rows = rows_of(index)
        return self.with_arrays(lambda part: part[rows], law=law_at(self.law, rows))

    def with_arrays(self, of: Callable[[Array], Array], **others: Any) -> "Prediction":
        """The prediction with `of` each of its arrays, and others of its parts."""
        names = ("location", "aleatoric", "epistemic", "spread", "mask")
        arrays = {name: of(part) for name in names if (part := getattr(self, name)) is not None}
        return changed(self, **arrays, **others)

    def __repr__(self) -> str:
        outputs = "".join(f" x {n}" for n in self.location.shape[1:])
        return f"Prediction({number_of(self.location.shape[0], 'case')}{outputs}, {self.law.name})"


def _total_of(
    location: Array, law: Law, mask: Array, scale: Any, variance: Any, aleatoric: Any, epistemic: Any
) -> Array:
    """The total variance, from the scale or from the variance of y: the one way in which it was given."""
    ways = {"scale": scale, "variance": variance, "aleatoric": aleatoric, "epistemic": epistemic}
    named = [name for name, values in ways.items() if values is not None]
    if named not in (["scale"], ["variance"]):
        raise Refusal(
            f"the uncertainty is given as {' and '.join(named) or 'nothing'}; expected scale= (standard deviations), "
            "variance=, or aleatoric= (with epistemic= where the two parts of the variance are known)."
        )
    (name,) = named
    values = expand(name, as_array(name, ways[name]), tuple(location.shape))
    check_finite(name, values, mask, least=0)
    if name == "scale":
        return values**2 * law.unit
    return values * of_each(law, lambda one: one.unit / one.variance, values)


def sound(prediction: Prediction) -> Prediction:
    """A prediction whose variances were computed; it is checked where their sum leaves the range of its dtype."""
    low, high = extremes(prediction.total)
    # The checks say which cases, unless a mask hides them all.
    return prediction if low > 0 and high < math.inf else Prediction(**vars(prediction))


def raw_spread(prediction: Prediction) -> Array:
    """The variance of the draws' means as it was before any recalibration; None where the split is unknown."""
    return prediction.epistemic if prediction.spread is None else prediction.spread


def check_prediction(prediction: Any) -> None:
    """Refuse anything that is not a prediction."""
    ways = "from draws: decompose(draws); from cases: cases.prediction, with cases.target as the target"
    check_kind("prediction", prediction, Prediction, f"a Prediction, {ways}")
