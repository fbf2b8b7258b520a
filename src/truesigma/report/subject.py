"""What a report is about: the same test cases before and after recalibration, and how they are resampled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ..core import plugins
from ..core.arrays import Host, to_host
from ..core.by_case import Stated, of_each
from ..core.checks import check_level, check_weight
from ..core.law import variance_ratio
from ..core.values import Cases, Draws, Prediction, changed
from ..evaluation.card import Card, describe
from ..evaluation.catalogue import known
from ..evaluation.fit import Choice, choose_all, each, fit_around
from ..evaluation.questions import answers
from ..evaluation.recipe import Recipe, load_recipe
from ..evaluation.replicates import By, Resampling

T = TypeVar("T", Prediction, Draws)
BEFORE = "none"


@dataclass(frozen=True, eq=False)
class Subject:
    """Test cases under every recalibration by its label; the first is none, the second the one the page is about."""

    cases: Mapping[str, Cases]
    cards: Mapping[str, Card]
    recipe: Recipe
    level: float
    plan: Resampling
    answers: Sequence[Mapping[str, Any]] = ()  # to the five questions
    shifted: Cases | Prediction | None = None  # recalibrated as `after`

    @property
    def before(self) -> Cases:
        return self.cases[BEFORE]

    @property
    def after(self) -> Cases:
        return self.cases[self.label]

    @property
    def label(self) -> str:
        """The label of the recalibration that the page is about."""
        return list(self.cases)[-1 if len(self.cases) < 2 else 1]

    @property
    def recalibrated(self) -> bool:
        return self.label != BEFORE

    @property
    def title(self) -> str:
        """The recalibration in words, such as "sigma scaling"."""
        name = self.label.partition(":")[0]
        return str(getattr(known("recalibrate", name), "TITLE", name))

    @property
    def unit(self) -> str:
        return self.before.unit

    @property
    def outputs(self) -> int:
        return int(np.prod(self.before.prediction.location.shape[1:]))

    @property
    def pair(self) -> dict[str, Cases]:
        """Before and after by their label; only one of them if nothing was recalibrated."""
        return {label: self.cases[label] for label in dict.fromkeys((BEFORE, self.label))}

    def options(self, metric: str) -> dict[str, Any]:
        """Say what the recipe asks of a metric."""
        known = plugins.options("metrics", plugins.load("metrics", metric))
        aleatoric = getattr(self.cards[self.label].recalibration, "part", "total") == "aleatoric"
        chosen = self.recipe.score_options(metric, "aleatoric" if aleatoric else "total")
        return {key: value for key, value in chosen.items() if key in known}


def make_subject(
    calibration: Cases,
    test: Cases,
    *,
    recalibrations: Iterable[Choice],
    recipe: str | Recipe,
    shifted: Cases | Prediction | Draws | None,
    level: float,
    by: By,
    replicates: int,
    seed: int,
) -> Subject:
    """Fit the recalibrations, as `evaluate` does, and apply them to test cases on the host, in float64."""
    check_level(level)
    chosen, recalibrations = load_recipe(recipe), list(each(recalibrations))
    shapes = [tuple(c.prediction.location.shape[1:]) for c in (calibration, test)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"the test cases have outputs of shape {shapes[1]}, the calibration cases {shapes[0]}; expected the same."
        )
    about_bounds = any(one.name == "cqr" for one in choose_all(recalibrations, chosen).values())
    if isinstance(calibration.prediction.bounds, Stated) and not about_bounds:
        calibration, test = (
            with_prediction(c, changed(c.prediction, bounds=None)) for c in (calibration, test)
        )
    test = on_host(test)
    fits = fit_around([*recalibrations, BEFORE][0], [BEFORE, *recalibrations], calibration, chosen)
    cards = {label: describe(one.fitted, calibration, recipe=chosen) for label, one in fits.items()}
    cases = {label: with_prediction(test, card(test)) for label, card in cards.items()}
    plan = Resampling.of(test, by=by, replicates=replicates, seed=seed)
    clusters: Any = plan.by  # how `by` was read
    asked = answers(calibration, test, {k: one.fitted for k, one in fits.items()}, chosen, by=clusters)
    subject = Subject(cases, cards, chosen, level, plan, asked)
    if shifted is None:
        return subject
    host = on_host(shifted) if isinstance(shifted, Cases) else shifted
    applied = cards[subject.label](host)
    if tuple(applied.location.shape[1:]) != shapes[1]:
        raise ValueError(
            f"the shifted cases have outputs of shape {tuple(applied.location.shape[1:])}, the test cases {shapes[1]}; "
            "expected the same."
        )
    moved: Cases | Prediction = with_prediction(host, applied) if isinstance(host, Cases) else applied
    return replace(subject, shifted=moved)


def with_prediction(cases: Cases, prediction: Prediction) -> Cases:
    """Return the same cases with another prediction, which does not come from their draws."""
    return changed(cases, prediction=prediction, draws=None)


def on_host(cases: Cases) -> Cases:
    """Convert the cases to float64 numpy arrays."""
    rest = {"target": _host(cases.target), "weight": _host(cases.weight)}
    draws = None if cases.draws is None else _all_on_host(cases.draws)
    return changed(cases, prediction=_all_on_host(cases.prediction), draws=draws, **rest)


def _all_on_host(value: T) -> T:
    apart = ("law", "bounds")
    return changed(value, **{name: _host(part) for name, part in vars(value).items() if name not in apart})


def sigma_of(prediction: Prediction) -> Host:
    """Return the predictive standard deviation, or the scale if the law has no variance."""
    return np.sqrt(prediction.total * of_each(prediction.law, variance_ratio, prediction.total))


def _host(values: Any) -> Any:
    if values is None:
        return None
    found = to_host(values)
    return found if found.dtype == bool else found.astype(np.float64)


def counted(cases: Cases) -> Host:
    """Tell which elements count: those inside the mask with a weight above 0."""
    p = cases.prediction
    weight = check_weight(cases.weight, p.location, p.mask)
    some = np.ones(p.location.shape, bool) if weight is None else weight > 0
    return some if p.mask is None else some & p.mask
