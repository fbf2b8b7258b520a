"""Recalibrations x metrics -> a table of rows: what the paper's tables are made of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ..core.law import Undefined
from ..core.recalibration import Recalibration, applied
from ..core.scores import Request, measure_each
from ..core.values import Cases, Prediction, changed
from ..files.disk import plain
from ..files.provenance import versions
from .fit import Choice, Fit, Named, choose_all, each, fit_all
from .items import Item, asked_metrics, items_of, row_of
from .recipe import Recipe, load_recipe
from .text import evaluation_table, notebook_text, plain_text


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Rows of scores, with the recipe, the fitted recalibrations and the sizes of the data they came from.

    A row is a dict: `recalibration`, `label` (with its options, as in the table), `part`, `metric`, `level` (None if it
    has none), `value` (None if undefined, and `reason` says why), `sd` over repeats (None for one test set), `options`
    that were given.
    """

    recipe: Recipe
    rows: tuple[dict[str, Any], ...]
    recalibrations: Mapping[str, Recalibration]
    cases: Mapping[str, int]
    unit: str = ""
    ask: Callable[[], list[dict[str, Any]]] | None = None  # the five questions
    checkpoint: str = ""  # of the network that made the predictions, where it is known

    @cached_property
    def questions(self) -> tuple[dict[str, Any], ...]:
        """Answers to the five questions, for each recalibration, output and group, about the first test set.

        They are computed on first use; `truesigma.evaluation.questions` says what is in a row.
        """
        return tuple(self.ask()) if self.ask is not None else ()

    def value(
        self, recalibration: str, metric: str, level: float | None = None, part: str | None = None
    ) -> float | None:
        """The value of the first row with that recalibration (its name, or its label with options), metric, level and
        part; None for the last two: any."""
        wanted = {"recalibration": recalibration, "metric": metric, "level": level, "part": part}
        for row in self.rows:
            named = recalibration in (row["recalibration"], row["label"])
            if named and all(wanted[key] in (None, row[key]) for key in ("metric", "level", "part")):
                return row["value"]
        raise KeyError(
            ", ".join(f"{k} {v!r}" for k, v in wanted.items() if v is not None) + ": there is no such row"
        )

    def by_label(self) -> dict[str, tuple[dict[str, Any], ...]]:
        """The rows of each recalibration by its label, such as "sigma:part=aleatoric": the same rows for each."""
        labels = dict.fromkeys(row["label"] for row in self.rows)
        return {label: tuple(row for row in self.rows if row["label"] == label) for label in labels}

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as written to JSON; a recalibration goes by its bare name if that is unique."""
        bare = [label.partition(":")[0] for label in self.recalibrations]
        names = [name if bare.count(name) == 1 else label for name, label in zip(bare, self.recalibrations)]
        described = {
            "recipe": self.recipe.name,
            "choices": {table: dict(choices) for table, choices in self.recipe.tables.items()},
            "rows": [dict(row) for row in self.rows],
            "recalibrations": {n: fitted.to_dict() for n, fitted in zip(names, self.recalibrations.values())},
            "cases": dict(self.cases),
            "unit": self.unit,
            "versions": versions(),
        }
        return {key: plain(one) for key, one in described.items()}  # a score that is not defined is None

    def __repr__(self) -> str:
        return f"Evaluation({len(self.rows)} rows, recipe {self.recipe.name!r})"

    def __str__(self) -> str:
        """The table that the command line prints."""
        return plain_text(evaluation_table(self))

    _repr_pretty_ = notebook_text


def evaluate(
    calibration: Cases,
    test: Cases | Sequence[Cases],
    *,
    recalibrations: Iterable[Choice] = ("none", "sigma", "aux"),
    metrics: Iterable[Named] | None = None,
    recipe: str | Recipe = "exact",
) -> Evaluation:
    """Fit each recalibration on the calibration cases and score it on the test cases.

    Args:
        calibration: the cases the recalibrations are fitted on, never the test cases.
        test: the cases to score, or a list of repeated test runs: rows then hold mean and standard deviation.
        recalibrations: names, with options as `"aux:hidden=4"` or `("aux", {"hidden": 4})`.
        metrics: names likewise; None for all. Metrics with a level are scored at 50, 90, 95 and 99 % unless told.
        recipe: "exact", "paper", "code", or the path of a TOML file.

    Returns:
        The evaluation: `print` it, `.rows` (for a data frame), `.value("sigma", "uce")`, `.questions`, `.to_dict()`.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=2000)
        >>> half = lambda y: Cases(Prediction(0 * y, scale=0 * y + 0.5), y)   # sigma is half of what it should be
        >>> result = evaluate(half(y[:1000]), half(y[1000:]), recalibrations=["none", "sigma"], metrics=["coverage"])
        >>> [round(result.value(name, "coverage", level=0.9), 2) for name in ("none", "sigma")]
        [0.57, 0.89]

    Reference: Laves et al., MELBA 2021, Tables 1 and 2.
    """
    chosen, recalibrations = load_recipe(recipe), list(each(recalibrations))
    repeats: list[Any] = list(test) if isinstance(test, list | tuple) else [test]
    check_alike(_about("calibration", calibration), [_about("test", cases) for cases in repeats])
    tested = [(chosen.prediction(cases), cases) for cases in repeats]
    asked = asked_metrics(metrics)
    unfitted: dict[str, ValueError] = {}
    fits = fit_all(recalibrations, calibration, chosen, unfitted)
    items = {label: items_of(asked, chosen, fit.chosen.part) for label, fit in fits.items()}
    scored = [_scores(fits, prediction, cases, items) for prediction, cases in tested]
    rows = []
    for label, one in choose_all(recalibrations, chosen).items():
        if label in unfitted:
            reason = Undefined(str(unfitted[label]))
            rows += [row_of(one, item, [reason]) for item in items_of(asked, chosen, one.part)]
            continue
        columns = [values[label] for values in scored]
        rows += [
            row_of(fits[label].chosen, item, values) for item, values in zip(items[label], zip(*columns))
        ]
    sizes = {"calibration": calibration.counted, "test": repeats[0].counted, "repeats": len(repeats)}
    fitted = {label: fit.fitted for label, fit in fits.items()}

    def ask() -> list[dict[str, Any]]:
        from .questions import answers  # scipy is slow to import

        return answers(calibration, repeats[0], fitted, chosen)

    return Evaluation(chosen, tuple(rows), fitted, sizes, calibration.unit, ask, calibration.checkpoint)


def _scores(
    fits: Mapping[str, Fit], prediction: Prediction, cases: Cases, items: Mapping[str, list[Item]]
) -> dict[str, list[float | Undefined]]:
    """The value of each item by label: sums together, other scores one by one, from all that a recalibration makes.

    What needs no more than one pass over the cases shares it.
    """
    found: dict[str, list[float | Undefined]] = {}
    passing: dict[str, tuple[Any, list[Request]]] = {}
    for label, fit in fits.items():
        requests = [item.request for item in items[label] if item.request is not None]
        only_sums = len(requests) == len(items[label])
        if only_sums and getattr(fit.fitted, "by_block", False):
            passing[label] = fit.fitted, requests
            continue
        made = applied(fit.fitted, prediction, group=cases.first_group, draws=cases.draws)
        if only_sums and made is prediction:
            passing[label] = None, requests
            continue
        summed = iter(measure_each(changed(cases, prediction=made), [(None, requests)])[0])
        found[label] = [
            item.score(made, cases, fit.fitted) if item.request is None else next(summed)
            for item in items[label]
        ]
    if passing:
        found |= zip(passing, measure_each(changed(cases, prediction=prediction), passing.values()))
    return found


class About(NamedTuple):
    """What two sets of cases must have in common, and how an error calls the set."""

    name: str
    outputs: tuple[int, ...] | None  # None if they differ
    law: str
    unit: str
    volumes: bool = False  # their shapes differ from patient to patient, within a set and between two


def check_alike(calibration: About, tested: Sequence[About]) -> None:
    """Refuse test sets that are not like the calibration set, wherever they are."""
    if not tested:
        raise ValueError("test is empty; expected at least one set of cases.")
    for number, one in enumerate(tested, start=1):
        volumes = one.volumes and calibration.volumes
        pairs = {
            "outputs of shape": (None, None) if volumes else (one.outputs, calibration.outputs),
            "law": (repr(one.law), repr(calibration.law)),
            "targets": tuple(
                f"in {unit}" for unit in (one.unit or calibration.unit, calibration.unit or one.unit)
            ),
        }
        for words, (found, expected) in pairs.items():
            if found != expected:
                raise ValueError(
                    f"test set {number}{one.name} has {words} {found}, the calibration set{calibration.name} "
                    f"{expected}; expected the same."
                )


def _about(name: str, cases: Any) -> About:
    if not isinstance(cases, Cases):
        raise ValueError(
            f"{name} holds a {type(cases).__name__}; expected Cases, predictions with their targets. From draws: "
            "Cases(decompose(draws), target, draws=draws)."
        )
    return About("", tuple(cases.prediction.location.shape[1:]), cases.prediction.law.name, cases.unit)
