"""Fit recalibrations: from a choice such as "aux:hidden=4", some cases and a recipe to a fitted recalibration."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Union, overload

from ..core import plugins
from ..core.cases import Cases
from ..core.errors import Refusal
from ..core.law import Undefined
from ..core.recalibration import CaseSums, Recalibration
from ..core.tally import Tally
from ..files.fileset import NotWhole
from .passes import CASES, Gathering, pass_over
from .recipe import Recipe, load_recipe
from .sets import CaseSet, open_set

if TYPE_CHECKING:
    from ..recalibrate.sigma import Sigma

Named = str | tuple[str, Mapping[str, Any]]  # "aux:hidden=4", or ("aux", {"hidden": 4})
Choice = Union[Named, "Fit"]


@dataclass(frozen=True, eq=False)
class Chosen:
    """A recalibration as it was chosen: its plug-in, the options that were given, and those with the recipe's."""

    name: str
    module: ModuleType
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    label: str  # as the command line writes the choice
    part: Any  # of the uncertainty, which is recalibrated and kept

    @property
    def needs(self) -> set[str]:
        """The needs of the recalibration: what the cases must have."""
        return plugins.needs(self.module, plugins.settled("recalibrate", self.module, self.settings))


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted recalibration; given as a choice, it is used as it is."""

    chosen: Chosen
    fitted: Recalibration


@overload
def fit(
    choice: Literal["sigma"], cases: Cases | Tally | CaseSums, recipe: str | Recipe = "exact"
) -> "Sigma": ...


@overload
def fit(
    choice: Choice | Chosen, cases: Cases | Tally | CaseSums, recipe: str | Recipe = "exact"
) -> Recalibration: ...


def fit(choice: Any, cases: Cases | Tally | CaseSums, recipe: str | Recipe = "exact") -> Any:
    """Fit one recalibration on some cases, or on their sums, under a recipe.

    Args:
        choice: a name, with options as `"aux:hidden=4"` or `("aux", {"hidden": 4})`.
        cases: of the calibration.
        recipe: "exact", "paper", "code", or the path of a TOML file.

    Returns:
        The recalibration: call it with a prediction, or with cases.

    Example:
        >>> from truesigma import Prediction
        >>> fit("sigma", Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0])).factor
        2.0
    """
    recipe = load_recipe(recipe)
    if isinstance(choice, Fit):
        return choice.fitted
    one = choice if isinstance(choice, Chosen) else choose(choice, recipe)
    if isinstance(cases, Tally) and signature(one.module.fit).parameters["target"].default is not None:
        raise Refusal(f"{one.name} cannot be fitted from the sums of a tally; give the cases.")
    if not isinstance(cases, Cases):
        if isinstance(cases, CaseSums) and isinstance(reason := cases.sums.get(""), Undefined):
            raise reason  # which gathering them had to skip it for
        return one.module.fit(cases, **one.settings)
    data = {"weight": cases.weight, "group": cases.first_group}
    more = {"patient": cases.patient, "shift": cases.shift, "fold": cases.fold}
    data |= plugins.accepted(one.module.fit, more)
    return one.module.fit(recipe.prediction(cases), cases.target, **data, **one.settings)


def fit_set(
    choices: Iterable[Choice], cases: CaseSet, unfitted: dict[str, ValueError] | None = None
) -> tuple[dict[str, Fit], int]:
    """Fit recalibrations on a set of cases, by their labels; and say how many of its cases count.

    One that cannot be fitted is an error, or goes into `unfitted` by its label unless only `none` would be left.
    """
    choices = list(each(choices))
    fits = {choice.chosen.label: choice for choice in choices if isinstance(choice, Fit)}
    chosen = choose_all(choices, cases.recipe)
    sums: dict[str, CaseSums] = {}
    whole = cases.whole
    if whole is None:
        summed = [one for label, one in chosen.items() if label not in fits and hasattr(one.module, "gather")]
        count, sums = _gathered(cases, summed)
    else:
        count = whole.counted
        whole = cases.recipe.applied(whole) if len(fits) < len(chosen) else whole
    failed: dict[str, ValueError] = {} if unfitted is None else unfitted
    for label, one in chosen.items():
        try:
            if label in sums:
                fits[label] = Fit(one, fit(one, sums[label], cases.recipe))
            elif label not in fits:
                if whole is None:
                    whole = cases.read(one.name)
                    count = whole.counted
                fits[label] = Fit(one, fit(one, whole, cases.recipe))
        except (Refusal, NotWhole) as problem:
            failed[label] = problem
    fits = {label: fits[label] for label in chosen if label in fits}
    if failed and (
        unfitted is None or all(plugins.said(one.chosen.module, "REFERENCE") for one in fits.values())
    ):
        raise next(iter(failed.values()))
    return fits, count


def _gathered(cases: CaseSet, summed: Sequence[Chosen]) -> tuple[int, dict[str, CaseSums]]:
    """Count the cases, and gather from one pass over files what recalibrations fitted from sums need."""
    if not summed:
        return cases.cases, {}
    gathered = pass_over(cases, Gathering([(one.module, one.settings) for one in summed]), "calibration")
    count = int(gathered.pop(CASES)[0])
    parts = CaseSums(gathered, cases.law).apart()
    return count, {one.label: parts.get(str(k), CaseSums({}, cases.law)) for k, one in enumerate(summed)}


def fit_all(
    choices: Iterable[Choice], cases: Cases, recipe: Recipe, unfitted: dict[str, ValueError] | None = None
) -> dict[str, Fit]:
    """Fit recalibrations on cases in memory, by their labels, as `fit_set` does."""
    return fit_set(choices, open_set(cases, recipe=recipe), unfitted)[0]


def fit_around(first: Choice, others: Iterable[Choice], cases: Cases, recipe: Recipe) -> dict[str, Fit]:
    """Fit one recalibration and those shown beside it; one that cannot be fitted is left out with a warning."""
    unfitted: dict[str, ValueError] = {}
    fits = fit_all([*others, first], cases, recipe, unfitted)
    if problem := unfitted.pop(choose(first, recipe).label, None):
        raise problem
    for label, problem in unfitted.items():
        warnings.warn(f"{label} could not be fitted, and is left out: {problem}", stacklevel=3)
    return fits


def choose(choice: Choice, recipe: Recipe) -> Chosen:
    """The recalibration that a choice names, with the options that the recipe gives it."""
    if isinstance(choice, Fit):
        return choice.chosen
    name, module, options = plugins.parse("recalibrate", choice)
    settings = {**plugins.accepted(module.fit, recipe.fit_options(name)), **options}
    return Chosen(name, module, options, settings, label_of(name, options), settings.get("part", "total"))


def choose_all(choices: Iterable[Choice], recipe: Recipe) -> dict[str, Chosen]:
    """Choose recalibrations by their labels; duplicates count once.

    >>> from truesigma.evaluation.recipe import load_recipe
    >>> list(choose_all(["none", "sigma:part=aleatoric", "none"], load_recipe("exact")))
    ['none', 'sigma:part=aleatoric']
    """
    chosen: dict[str, Chosen] = {}
    for choice in each(choices):
        new = choose(choice, recipe)
        first = chosen.setdefault(new.label, new)
        if first.module.__file__ != new.module.__file__:
            raise ValueError(
                f"{first.module.__file__} and {new.module.__file__} are both called {new.name!r}, so that nobody could "
                "tell them apart; rename your own."
            )
    return chosen


def each(choices: Any) -> Iterable[Any]:
    """List the choices: a single name becomes a list of one, and so does a pair of a name and its options.

    >>> each("sigma"), each(("aux", {"hidden": 4})), each(["none", "sigma"])
    (['sigma'], [('aux', {'hidden': 4})], ['none', 'sigma'])
    """
    pair = isinstance(choices, tuple) and len(choices) == 2 and isinstance(choices[1], Mapping)
    return [choices] if pair or isinstance(choices, str | Fit) or callable(choices) else choices


def label_of(name: str, options: Mapping[str, Any]) -> str:
    """Write a plug-in with its options, as on the command line."""
    return name + (":" + ",".join(f"{k}={v}" for k, v in options.items()) if options else "")
