"""The card of a fitted recalibration: a JSON file with all that is needed to apply it, and where it came from."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..core import plugins
from ..core.arrays import Host
from ..core.cases import Cases, first_group
from ..core.law import Law, Undefined, law_from_dict, law_of_moment
from ..core.recalibration import Recalibration, applied, load_recalibration
from ..core.tally import Tally
from ..core.typed import make
from ..core.values import Draws, Prediction
from ..core.varying import likelihood_of
from ..engine import Engine
from ..files.described import made_by
from ..files.disk import BadFile, check_like, now, plain, read_json
from ..files.provenance import versions
from ..recalibrate._referral import Referral
from ..recalibrate._referral import fit as fit_referral
from .fit import Choice, fit, fit_set
from .leaks import EXTENT_LIKE, extent, warn_beyond
from .recipe import Recipe, check_choices, load_recipe
from .sets import CaseSet, Given, Report, as_cases, open_set

FORMAT = "truesigma recalibration"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Card:
    """A fitted recalibration with the law and the recipe it was fitted under, and the data it was fitted on.

    Called with a Prediction, Draws or Cases, it returns the recalibrated Prediction. `data` says how many cases and
    outputs it saw, between which locations and scales, the name and hash of their file if they came from one, and
    the network's checkpoint. `refer`, if asked for, says which cases to hand to a person.
    """

    recalibration: Recalibration
    law: Law
    recipe: Recipe
    data: Mapping[str, Any]
    unit: str = ""
    date: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    refer: Referral | None = None
    ask: Callable[[], list[dict[str, Any]]] | None = None  # the five questions

    @cached_property
    def questions(self) -> tuple[dict[str, Any], ...]:
        """Answers to the five questions about the cases it was fitted on, before recalibration, all outputs together.

        They are computed on first use, and when the card is written; rows are like those of `Evaluation.questions`.
        """
        return tuple(self.ask()) if self.ask is not None else ()

    def __call__(self, value: Prediction | Draws | Cases, *, group: Any = None) -> Prediction:
        """Recalibrate a prediction; the result is checked, because a card may come from anybody."""
        value = as_cases(value)
        given = self.recipe.prediction(value)
        if likelihood_of(given.law).to_dict() != self.law.to_dict():
            raise ValueError(
                f"the predictions have law {given.law.name!r}, the card was fitted for {self.law.name!r}; expected "
                "the same. Give predictions of that law, or fit a card for theirs."
            )
        try:
            own = value.first_group if group is None else first_group(group)
            made = applied(self.recalibration, given, group=own, draws=value.draws)
        except TypeError as problem:
            raise ValueError(
                f"the card's recalibration cannot be applied: {problem}; fit it again."
            ) from problem
        return Prediction(**vars(made))

    def doubt(self, value: Prediction | Draws | Cases) -> None:
        """Warn if new cases lie beyond those it was fitted on, in location or scale as the model gave them.

        A card that was fitted from a tally does not know their range, and never warns.
        """
        if "range" in self.data:
            warn_beyond(self.data, as_cases(value), self.unit)

    def referred(self, value: Prediction | Draws | Cases) -> Host | None:
        """Whether each case is to be referred, (case,), by its sigma before recalibration; None without a referral."""
        return None if self.refer is None else self.refer(self.recipe.prediction(as_cases(value)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as they are written to JSON."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "recalibration": self.recalibration.to_dict(),
            "law": self.law.to_dict(),
            "recipe": self.recipe.name,
            # What a recipe says about training is not what was done: that is in the data, under network.
            "choices": {
                table: dict(choices)
                for table, choices in self.recipe.tables.items()
                if table not in ("network", "train")
            },
            "data": dict(self.data),
            "unit": self.unit,
            "date": self.date,
            "versions": dict(self.versions),
            **({} if self.refer is None else {"refer": self.refer.to_dict()}),
            **({"questions": plain(self.questions)} if self.questions else {}),
        }

    def __repr__(self) -> str:
        name, cases = self.recalibration.to_dict()["name"], self.data.get("cases")
        return f"Card({name}, {cases} cases, {self.law.name})"


def calibrate(
    cases: Given | Tally,
    recalibration: Choice = "sigma",
    *,
    recipe: str | Recipe = "exact",
    law: Law | str | None = None,
    mask_missing: bool = False,
    data: Mapping[str, Any] | None = None,
    unit: str = "",
    refer: Mapping[str, float] | None = None,
    engine: Engine | None = None,
    keep: str | Path | None = None,
    report: Report | None = None,
) -> Card:
    """Fit one recalibration and make its card.

    Args:
        cases: the calibration cases: Cases, a path, a folder of maps, a glob, a manifest, or a list of these, which is
            pooled; or a tally of them, for recalibrations that can be fitted from sums.
        recalibration: a name, with options as `"aux:hidden=4"` or `("aux", {"hidden": 4})`.
        recipe: "exact", "paper", "code", the path of a TOML file, or a Recipe.
        law: "normal" or "laplace", for files that do not say it.
        mask_missing: leave out the elements of files whose target is missing.
        data: what to say about the data besides its size, such as its file and hash.
        unit: of the targets, if it differs from that of the cases.
        refer: `{"tolerance": 10, "risk": 0.05}` finds a threshold of sigma up to which at most that share of the cases
            is off by more than the tolerance, with confidence 1 - `delta` (0.05 unless given).
        engine: as for `evaluate`.
        keep: as for `evaluate`.
        report: as for `evaluate`.

    Returns:
        The card: call it with a prediction, or write it as JSON: `write(card, "card.json")`, `read_card("card.json")`.

    Example:
        >>> card = calibrate(Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0]))
        >>> card(Prediction([0.0], aleatoric=[9.0])).scale
        array([6.])
    """
    chosen = load_recipe(recipe)
    if isinstance(cases, Tally):
        if refer is not None:
            raise ValueError("a referral sorts the cases, which a tally does not hold; give the cases.")
        fitted = fit(recalibration, cases, chosen)
        of_tally, seen = law_of_moment(cases.moment), int(cases.sums["factor total"][0])
        return Card(fitted, of_tally, chosen, {**(data or {}), "cases": seen}, unit, now(), versions())
    how: dict[str, Any] = {"recipe": chosen, "law": law, "mask_missing": mask_missing}
    opened = open_set(cases, **how, engine=engine, keep=keep, report=report)
    fits, count = fit_set([recalibration], opened)
    about = {**opened.described(), **(data or {})}
    card = _card_of(next(iter(fits.values())).fitted, opened, count, about)
    asked = None if refer is None else referral(opened.read("a referral"), chosen, refer)
    return replace(card, unit=unit or card.unit, refer=asked)


def referral(cases: Cases, recipe: Recipe, asked: Mapping[str, float]) -> Referral:
    """The referral asked for, as `{"tolerance": 10, "risk": 0.05}`, by patient if patients are known."""
    if not isinstance(asked, Mapping):
        raise ValueError(f'refer is {asked!r}; expected a mapping, as {{"tolerance": 10, "risk": 0.05}}.')
    wrong = [name for name in asked if name not in ("tolerance", "risk", "delta", "most")]
    missing = [name for name in ("tolerance", "risk") if name not in asked]
    if wrong or missing:
        raise ValueError(
            f"a referral is given by {', '.join(asked) or 'nothing'}; expected tolerance and risk, perhaps delta, and "
            "most (cases of a patient), as tolerance=10,risk=0.05."
        )
    if cases.shift is not None:
        raise ValueError(
            "a referral makes a promise, and cases weighted to be like those of a new site make none; leave one of the "
            "two out."
        )
    given: dict[str, Any] = {k: int(v) if k == "most" and v == int(v) else v for k, v in asked.items()}
    return fit_referral(recipe.prediction(cases), cases.target, patient=cases.patient, **given)


def describe(
    fitted: Recalibration, cases: Given, *, recipe: Recipe, data: Mapping[str, Any] | None = None
) -> Card:
    """Make the card of a recalibration that was fitted on these cases under this recipe."""
    opened = open_set(cases, recipe=recipe)
    return _card_of(fitted, opened, opened.read().counted, data or {})


def _card_of(fitted: Recalibration, opened: CaseSet, count: int, data: Mapping[str, Any]) -> Card:
    """Make the card of a recalibration that was fitted on a set, of which so many cases count."""
    about = {**data, "cases": count}
    if (cases := opened.whole) is not None:
        about |= {"outputs": outputs_of(cases.prediction), **extent(cases)}
        about |= {"names": list(cases.names)} if cases.names else {}
        about |= {} if cases.draws is None else {"draws": int(cases.draws.mean.shape[0])}
        about |= made_by(cases.checkpoint, cases.sampling)
        if cases.shift is not None:
            shift = {name: getattr(cases.shift, name) for name in ("effective", "auroc", "beyond")}
            about["like"] = {**about.get("like", {}), **shift}
    ask = partial(_answers, opened)
    return Card(
        fitted, likelihood_of(opened.law), opened.recipe, about, opened.unit, now(), versions(), ask=ask
    )


def _answers(cases: CaseSet) -> list[dict[str, Any]]:
    """The five questions about calibration cases as they are."""
    from .headline import whole
    from .questions import answers_of  # scipy is slow to import
    from .verdicts import NONE

    return list(map(dict, whole(answers_of(cases, cases, []), NONE).values()))


def check_network(card: Card, checkpoint: str) -> None:
    """Refuse a card of one network for predictions of another, or for predictions that do not name their network."""
    fitted = card.data.get("checkpoint", "")
    if fitted and not checkpoint:
        raise ValueError(
            f"the card is of one network (checkpoint {fitted}), and the predictions do not say which made them. Keep "
            f"the column `checkpoint`, or say it: --checkpoint {fitted} if they are this one's (checkpoint=... in "
            "Python)."
        )
    if fitted and fitted != checkpoint:
        raise ValueError(
            f"the card was fitted on predictions of another network (checkpoint {fitted}; here {checkpoint}), and how "
            "wrong that one is says nothing about this one. Fit a card on this one's: `truesigma predict RUN --split "
            "valid -o valid.npz` (as you predict), then `truesigma calibrate --calibration valid.npz -o card.json`."
        )


def outputs_of(prediction: Prediction) -> int:
    """Count the numbers that are predicted for a case."""
    return math.prod(prediction.location.shape[1:])


def read_card(path: str | Path, *, plugin: str | None = None) -> Card:
    """Read the card in a JSON file; an error says what about it is unknown.

    A card never names code to run: if it was fitted with a file of your own, pass that file as `plugin`.

    >>> from tempfile import TemporaryDirectory
    >>> import truesigma as ts
    >>> card = calibrate(Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0]))
    >>> with TemporaryDirectory() as folder:
    ...     ts.write(card, Path(folder, "card.json"))
    ...     read_card(Path(folder, "card.json"))
    Card(sigma, 2 cases, normal)
    """
    stored = read_json(path)
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise BadFile(
            f"{path} is not the card of a recalibration; expected what `truesigma calibrate` writes."
        )
    if stored.get("version") != VERSION:
        raise BadFile(
            f"{path} is a card of version {stored.get('version')!r}; this truesigma reads version {VERSION}. Use the "
            "version it was written with, or fit it again."
        )
    known = {"format", "version", "choices", "questions", *(one.name for one in fields(Card))} - {"ask"}
    wrong = [f"lacks {name!r}" for name in sorted(known - {"refer", "questions"} - set(stored))]
    wrong += [f"has the unknown {name!r}" for name in sorted(set(stored) - known)]
    if wrong:
        raise BadFile(f"{path} {', '.join(wrong)}; fit the recalibration again with this truesigma.")
    check_like(Path(path), stored["data"], EXTENT_LIKE, "data")
    try:
        recipe = Recipe(
            str(stored["recipe"]), {name: dict(table) for name, table in stored["choices"].items()}
        )
        check_choices(recipe)
        recalibration, law = _recalibration(stored["recalibration"], plugin), law_from_dict(stored["law"])
        data, used = dict(stored["data"]), dict(stored["versions"])
        refer = make(Referral, stored["refer"], "refer.") if "refer" in stored else None
        asked = [dict(row) for row in stored.get("questions", ())]
    except Undefined:
        raise
    except (ValueError, TypeError, AttributeError, KeyError) as problem:
        cause = str(problem).rstrip(".")
        raise BadFile(f"{path} cannot be used: {cause}. Fit the recalibration again.") from problem
    return Card(
        recalibration, law, recipe, data, str(stored["unit"]), str(stored["date"]), used, refer, lambda: asked
    )


def _recalibration(stored: Mapping[str, Any], plugin: str | None) -> Recalibration:
    if plugin is None:
        return load_recalibration(stored)
    module = plugins.load("recalibrate", plugin)
    made: Recalibration = module.from_dict({key: value for key, value in stored.items() if key != "name"})
    return made
