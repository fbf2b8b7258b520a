"""The subject of a report: the same test cases before and after recalibration, and how they are resampled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core import plugins
from ..core.arrays import Host, to_host
from ..core.cases import Cases
from ..core.checks import check_level, check_weight
from ..core.law import variance_ratio
from ..core.values import Draws, Prediction, changed
from ..core.varying import of_each
from ..evaluation.card import Card, describe
from ..evaluation.fit import Choice, each, fit_around
from ..evaluation.questions import answers
from ..evaluation.recipe import Recipe, load_recipe
from ..evaluation.replicates import By, Resampling

BEFORE = "none"


@dataclass(frozen=True, eq=False)
class Subject:
    """Test cases under every recalibration by its label; the first is none, the second the one the page is about."""

    calibration: Cases
    cases: Mapping[str, Cases]
    cards: Mapping[str, Card]
    recipe: Recipe
    level: float
    plan: Resampling
    answers: Sequence[Mapping[str, Any]] = ()  # to the five questions
    shifted: Cases | Prediction | None = None  # recalibrated as `after`
    images: Path | None = None
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what to say about the data

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
        return str(getattr(plugins.known("recalibrate", name), "TITLE", name))

    @property
    def unit(self) -> str:
        return self.before.unit

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the outputs; empty if they have none."""
        return self.before.names

    @property
    def outputs(self) -> int:
        return int(np.prod(self.before.prediction.location.shape[1:]))

    @property
    def pair(self) -> dict[str, Cases]:
        """Before and after by their label; only one of them if nothing was recalibrated."""
        return {label: self.cases[label] for label in dict.fromkeys((BEFORE, self.label))}

    @property
    def part(self) -> Any:
        """The part of the uncertainty that is recalibrated, and kept."""
        return getattr(self.cards[self.label].recalibration, "part", "total")

    def options(self, metric: str) -> dict[str, Any]:
        """Say what the recipe asks of a metric."""
        accepted = plugins.options("metrics", plugins.load("metrics", metric))
        chosen = self.recipe.score_options(metric, self.part)
        return {key: value for key, value in chosen.items() if key in accepted}

    def name_of(self, case: Any) -> str:
        """Return the case's id, or its number (from 0)."""
        return f"case {case}" if self.before.id is None else str(self.before.id[case])

    @property
    def labels(self) -> dict[str, Any]:
        """The names of the cases besides their id: patients, then groups by their columns."""
        patient = self.before.patient
        return {**({} if patient is None else {"patient": patient}), **self.before.groups}

    def labels_of(self, case: Any) -> str:
        """Return these names for one case."""
        return ", ".join(str(names[case]) for names in self.labels.values())


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
    images: Path | None = None,
    files: Mapping[str, Mapping[str, Any]] | None = None,
) -> Subject:
    """Fit the recalibrations, as `evaluate` does, and apply them to test cases on the host, in float64."""
    check_level(level)
    chosen, recalibrations = load_recipe(recipe), list(each(recalibrations))
    calibration, host = on_host(calibration), on_host(test)
    _check_outputs("test", host.prediction, calibration)
    fits = fit_around([*recalibrations, BEFORE][0], [BEFORE, *recalibrations], calibration, chosen)
    cards = {label: describe(one.fitted, calibration, recipe=chosen) for label, one in fits.items()}
    cases = {label: _with(host, card(host)) for label, card in cards.items()}
    plan = Resampling.of(host, by=by, replicates=replicates, seed=seed)
    clusters: Any = plan.by  # how `by` was read
    asked = answers(calibration, host, {k: one.fitted for k, one in fits.items()}, chosen, by=clusters)
    moved: Cases | Prediction | None = None
    if shifted is not None:
        given = on_host(shifted) if isinstance(shifted, Cases) else shifted
        made = cards[list(cards)[-1 if len(cards) < 2 else 1]](given)
        _check_outputs("shifted", made, calibration)
        moved = _with(given, made) if isinstance(given, Cases) else made
    return Subject(calibration, cases, cards, chosen, level, plan, asked, moved, images, files or {})


def _check_outputs(name: str, prediction: Prediction, calibration: Cases) -> None:
    given, expected = (p.location.shape[1:] for p in (prediction, calibration.prediction))
    if given != expected:
        raise ValueError(
            f"the {name} cases have outputs of shape {given}, the calibration cases {expected}; expected the same."
        )


def _with(cases: Cases, prediction: Prediction) -> Cases:
    """Copy the cases with another prediction, which does not come from their draws."""
    return changed(cases, prediction=prediction, draws=None)


def on_host(cases: Cases) -> Cases:
    """Convert the cases to float64 numpy arrays."""

    def host(values: Any) -> Any:
        held = None if values is None else to_host(values)
        return held if held is None or held.dtype == bool else held.astype(np.float64)

    def moved(value: Any) -> Any:
        return changed(value, **{name: host(part) for name, part in vars(value).items() if name != "law"})

    rest = {"target": host(cases.target), "weight": host(cases.weight)}
    draws = None if cases.draws is None else moved(cases.draws)
    return changed(cases, prediction=moved(cases.prediction), draws=draws, **rest)


def sigma_of(prediction: Prediction) -> Host:
    """Return the predictive standard deviation, or the scale if the law has no variance."""
    return np.sqrt(prediction.total * of_each(prediction.law, variance_ratio, prediction.total))


def counted(cases: Cases) -> Host:
    """Tell which elements count: those inside the mask with a weight above 0."""
    p = cases.prediction
    weight = check_weight(cases.weight, p.location, p.mask)
    some = np.ones(p.location.shape, bool) if weight is None else weight > 0
    return some if p.mask is None else some & p.mask
