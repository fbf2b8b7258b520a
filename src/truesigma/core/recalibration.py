"""The interface of a fitted recalibration, and how one is read back from its stored form."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import (
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
    overload,
    runtime_checkable,
)

import numpy as np

from . import plugins
from .arrays import Host, namespace
from .cases import Cases, check_alone
from .checks import check_choice, check_enough, check_kind
from .elements import NO_ALEATORIC, NO_SPLIT, Part, every_element
from .errors import Refusal
from .law import Law, Undefined, law_of_moment
from .scores import Sum
from .tally import Tally
from .typed import converted, make, plain
from .values import UNHEARD, Draws, Interval, Prediction, changed, check_prediction, raw_spread, sound

Fitted = TypeVar("Fitted", covariant=True)
T = TypeVar("T")
Options = ParamSpec("Options")
Given = TypeVar("Given", Prediction, Cases)


class OnEither(Protocol):
    """A prediction in, another out; or cases in, and cases with the other prediction out."""

    def __call__(self, prediction: Given, *, group: Any = None) -> Given: ...


@runtime_checkable
class Recalibration(Protocol):
    """A fitted recalibration: a frozen function from Prediction to Prediction that can be stored as plain values.

    One that multiplies both variances by what depends on their sum alone may say so as `variance_ratio(total)`, in
    array operations; it can then be exported with a network. A change of the law needs no more than a ratio of 1.
    One that takes a few operations on each element, and never warns, may say `by_block = True`: large data is then
    recalibrated in the cache, as it is scored. `on_predictions` above its `__call__` lets it be called with cases, too.
    """

    def __call__(self, prediction: Given, *, group: Any = None) -> Given: ...

    def to_dict(self) -> dict[str, Any]: ...


class Factor(NamedTuple):
    """A factor of sigma and its standard error, which is None if there is only one cluster or none is known.

    `of_part` says that it is that of one part of the variance, which may be small beside another.
    """

    value: float
    standard_error: float | None = None
    of_part: bool = False


def factors_of(fitted: Recalibration) -> dict[str, Factor]:
    """The factors that a fitted recalibration shows, by what each scales; a single one is called "".

    One that has several says so as `shown_factors`; of others it is the `factor` they have, with its `standard_error`.

    >>> from truesigma.recalibrate import sigma, two_factor
    >>> factors_of(sigma.Sigma(2.0, 0.1)), list(factors_of(two_factor.TwoFactor((1.0, 2.0))))
    ({'': Factor(value=2.0, standard_error=0.1, of_part=False)}, ['aleatoric', 'epistemic'])
    """
    several: dict[str, Factor] | None = getattr(fitted, "shown_factors", None)
    if several is not None:
        return several
    one = getattr(fitted, "factor", None)
    return {"": Factor(one, getattr(fitted, "standard_error", None))} if isinstance(one, float) else {}


def degrees_of_freedom(fitted: Recalibration) -> int:
    """How many numbers were fitted: the fewer, the simpler the recalibration.

    Its own `degrees_of_freedom`, or how many numbers it stores, without standard errors.

    >>> from truesigma.recalibrate import none, sigma
    >>> degrees_of_freedom(sigma.Sigma(2.0, 0.1)), degrees_of_freedom(none.Identity())
    (1, 0)
    """
    own: int | None = getattr(fitted, "degrees_of_freedom", None)
    return _numbers_in(fitted.to_dict()) if own is None else own


def _numbers_in(stored: Any) -> int:
    if isinstance(stored, Mapping):
        return sum(_numbers_in(one) for name, one in stored.items() if not name.startswith("standard_error"))
    if isinstance(stored, list | tuple):
        return sum(map(_numbers_in, stored))
    return int(isinstance(stored, int | float) and not isinstance(stored, bool))


@runtime_checkable
class JointRegion(Protocol):
    """A recalibration of all outputs of a case at once: it puts a region around each prediction."""

    def contains(self, prediction: Prediction, target: Any, *, level: float | None = None) -> Host:
        """Whether all outputs lie inside, (case,)."""
        ...

    def volume(self, prediction: Prediction, *, level: float | None = None) -> Host:
        """(case,)."""
        ...

    def extent(self, prediction: Prediction, *, level: float | None = None) -> Interval:
        """The bounds of the region in each output."""
        ...

    def too_few_for(self, level: float) -> str | None:
        """Why the region of that level has no end; None where it has one."""
        ...


@runtime_checkable
class Across(Protocol):
    """A recalibration that needs the predictions of several models for a case separately, as CV+ does."""

    def of_members(self, draws: Draws) -> Prediction: ...


def applied(
    recalibration: Recalibration, prediction: Prediction, *, group: Any = None, draws: Draws | None = None
) -> Prediction:
    """Apply a recalibration to a prediction, or to the draws behind it where the recalibration asks for these."""
    if not isinstance(recalibration, Across):
        return recalibration(prediction, group=group)
    if draws is None:
        raise Refusal(
            "CV+ needs what the model of each fold predicts for a case, not one prediction; give draws (an .npz) "
            "with a model in each."
        )
    return recalibration.of_members(draws)


def on_predictions(call: Callable[..., Prediction]) -> OnEither:
    """Let the `__call__` of a recalibration, written for predictions, take cases as well, with their first group.

    >>> from truesigma.recalibrate import sigma
    >>> sigma.Sigma(2.0, None)(Cases(Prediction([0.0], scale=[1.0]), [3.0])).prediction.scale
    array([2.])
    """

    @wraps(call)
    def either(self: Any, prediction: Any, *, group: Any = None) -> Any:
        if not isinstance(prediction, Cases):
            return call(self, prediction, group=group)
        cases = prediction
        check_alone(cases, group)
        made = applied(self, cases.prediction, group=cases.first_group, draws=cases.draws)
        return changed(cases, prediction=made, draws=None)

    return cast(OnEither, either)


class CaseSums(NamedTuple):
    """Sums over cases that are enough for a fit, and the law; they add up over batches and files."""

    sums: Mapping[str, Sum]
    law: Law

    def apart(self, mark: str = "/") -> "dict[str, CaseSums]":
        """The sums of each part, by its name: what is before the mark in their keys."""
        parts: dict[str, dict[str, Sum]] = {}
        for key, value in self.sums.items():
            name, _, rest = key.partition(mark)
            parts.setdefault(name, {})[rest] = value
        return {name: CaseSums(sums, self.law) for name, sums in parts.items()}


class Fitting(Protocol[Options, Fitted]):
    """A `fit` as users call it: on cases, or a tally where its sums are enough; or on their arrays.

    The arrays are those of `Cases`: the target with the location's shape, weights of that shape or (case,), and one
    name for each case in the others. `shift` are the weights of new cases, where `weight` makes these look like them.
    """

    @overload
    def __call__(
        self, cases: Cases | CaseSums | Tally, /, *args: Options.args, **options: Options.kwargs
    ) -> Fitted: ...

    @overload
    def __call__(
        self,
        prediction: Prediction,
        target: Any,
        *,
        weight: Any = None,
        group: Any = None,
        patient: Any = None,
        fold: Any = None,
        shift: Any = None,
        **options: Any,
    ) -> Fitted: ...


def _arrays(
    prediction: Prediction | Cases | Tally,
    target: Any = None,
    *,
    weight: Any = None,
    group: Any = None,
    patient: Any = None,
    fold: Any = None,
    shift: Any = None,
) -> None:
    """The signature of a fit, before its options."""


def on_cases(
    fit: Callable[Concatenate[Any, Options], Fitted], gather: Callable[..., dict[str, Sum]] | None = None
) -> Fitting[Options, Fitted]:
    """Let a fit on cases be called as `Fitting` says; its keywords are the options.

    One that needs no more than sums of the cases is given these, as `CaseSums`; `gather` makes them of cases, or of a
    tally where it says so.

    >>> @on_cases
    ... def fit(cases, *, power=1):
    ...     return float((abs(cases.target) ** power).sum())
    >>> fit(Prediction([0.0], aleatoric=[1.0]), [3.0], power=2), fit(Cases(Prediction([0.0], aleatoric=[1.0]), [3.0]))
    (9.0, 3.0)
    """
    (_, *options), known = signature(fit).parameters.values(), signature(_arrays).parameters
    hints = get_type_hints(fit)
    fit_with: Callable[..., Fitted] = fit
    tally_does = gather is not None and Tally in get_args(signature(gather).parameters["cases"].annotation)
    taken = (Cases, CaseSums, Tally) if tally_does else (Cases, CaseSums)

    @wraps(fit)
    def call(prediction: Any, target: Any = None, **given: Any) -> Any:
        data = {name: given.pop(name) for name in known if name in given}
        given = {name: converted(name, one, hints.get(name)) for name, one in given.items()}
        cases = prediction
        if not isinstance(prediction, taken):
            cases = Cases(prediction, target, **data)
        else:
            check_alone(prediction, target, *data.values())
        if gather is not None and not isinstance(cases, CaseSums):
            chosen = {**{one.name: one.default for one in options}, **given}
            law = law_of_moment(cases.moment) if isinstance(cases, Tally) else cases.prediction.law
            cases = CaseSums(gather(cases, **plugins.accepted(gather, chosen)), law)
        return fit_with(cases, **given)

    arrays = list(known.values())
    if not tally_does:
        arrays[1] = arrays[1].replace(default=Parameter.empty)
    call.__signature__ = Signature([*arrays, *options])  # type: ignore[attr-defined]
    return cast(Fitting[Options, Fitted], call)


def on_sums(
    gather: Callable[..., dict[str, Sum]],
) -> Callable[[Callable[Concatenate[Any, Options], Fitted]], Fitting[Options, Fitted]]:
    """Let a fit on gathered sums be called with cases; of cases in files, many are gathered at a time."""
    return partial(on_cases, gather=gather)


def load_recalibration(stored: Mapping[str, Any]) -> Recalibration:
    """Read back a recalibration from what its `to_dict` gave.

    >>> load_recalibration({"name": "none", "part": "total"})
    Identity(part='total')
    """
    check_kind("a stored recalibration", stored, Mapping, "what to_dict() gave")
    described, known = dict(stored), plugins.names("recalibrate")
    name = described.pop("name", None)
    if name not in known:
        # A path is not followed: a stored file is data, and must not choose the code that runs.
        raise Refusal(
            f"a stored recalibration needs its name, and no recalibration is called {name!r}; expected one of "
            f"{', '.join(known)}. For one from a file of your own, give that file: plugins.load('recalibrate', "
            "path).from_dict(stored), or apply --recalibrate FILE on the command line."
        )
    try:
        made: Recalibration = plugins.load("recalibrate", name).from_dict(described)
    except (TypeError, ValueError, LookupError) as problem:
        raise Refusal(
            f"the stored recalibration {name!r} does not fit its plug-in: {problem}. Fit it again."
        ) from problem
    return made


def select_part(prediction: Prediction, part: Part) -> Prediction:
    """The prediction with the total variance, or with the aleatoric part alone as in Levi et al.

    >>> select_part(Prediction([0.0], aleatoric=[1.0], epistemic=[3.0]), "aleatoric").scale
    array([1.])
    """
    check_prediction(prediction)
    check_choice("part", part, "total", "aleatoric")
    if part == "total":
        return prediction
    if prediction.epistemic is None:
        raise Undefined(NO_SPLIT)
    xp, some = namespace(prediction.location), prediction.aleatoric > 0
    if not bool(xp.all(some if prediction.mask is None else some | ~prediction.mask)):
        raise Undefined(NO_ALEATORIC)
    return _with(prediction, epistemic=xp.zeros_like(prediction.epistemic))


def _with(prediction: Prediction, **parts: Any) -> Prediction:
    """Replace parts of a prediction; its spread stays that of the network, and bounds are dropped."""
    return changed(prediction, **{"spread": raw_spread(prediction), **parts})


def observed_z(prediction: Prediction, target: Any, weight: Any = None) -> tuple[Host, Host]:
    """z = (target - location) / scale of every element that counts, sorted, and its weight; float64 on the host.

    >>> observed_z(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [3.0, 2.0])[0]
    array([1., 3.])
    """
    e = every_element(prediction, target, weight=weight)
    counts = e.weight > 0
    check_enough(int(counts.any(axis=1).sum()))
    z, share = e.z[counts], e.weight[counts]
    order = np.lexsort([share, z])
    return z[order], share[order]


def stored(name: str) -> Callable[[Any], dict[str, Any]]:
    """The `to_dict` of a recalibration: its name and its fields, of which `restored` makes it again.

    >>> from truesigma.recalibrate.sigma import Sigma
    >>> Sigma(2.0, None).to_dict()
    {'name': 'sigma', 'factor': 2.0, 'standard_error': None, 'part': 'total'}
    """
    return lambda self: {"name": name, **plain(self)}


def restored(kind: type[T]) -> Callable[[Mapping[str, Any]], T]:
    """The `from_dict` that goes with `stored`: each value is checked against the type of its field."""
    return partial(make, kind)


def with_law(prediction: Prediction, law: Law) -> Prediction:
    """The prediction with another law of z: its intervals change, its location, variances and scale do not."""
    if law.unit != prediction.law.unit:
        raise Refusal(
            f"the recalibration was fitted on another likelihood than {prediction.law.name}; expected predictions of "
            "the same one. Fit it again on such predictions."
        )
    return _with(prediction, law=law)


@UNHEARD
def rescale(prediction: Prediction, factor: Any, epistemic_factor: Any = None) -> Prediction:
    """The prediction with its scale times `factor`, a number or an array; location, law and spread stay.

    With `epistemic_factor`, that one is for the epistemic part, and `factor` for the aleatoric alone.

    >>> rescale(Prediction([0.0], aleatoric=[1.0], epistemic=[3.0]), 2.0).epistemic
    array([12.])
    """
    other = factor if epistemic_factor is None else epistemic_factor
    # Twice by the factor, not once by its square, which float32 may not hold where it holds the product.
    aleatoric = prediction.aleatoric * factor * factor
    epistemic = None if prediction.epistemic is None else prediction.epistemic * other * other
    return sound(_with(prediction, aleatoric=aleatoric, epistemic=epistemic))
