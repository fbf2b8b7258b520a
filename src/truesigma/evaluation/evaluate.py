"""Score recalibrations by metrics: a row for each pair, as in the paper's tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import Refusal
from ..core.law import Law, Undefined
from ..core.recalibration import Recalibration
from ..core.varying import known_at_levels
from ..engine import Engine
from ..files.disk import plain
from ..files.provenance import versions
from .fit import Choice, Named, choose_all, each, fit_set
from .leaks import warn_leaks
from .passes import CASES
from .recipe import Recipe, load_recipe
from .scoring import Item, asked_metrics, items_of, row_of, score_set, value_in
from .sets import CaseSet, Given, Report, open_set
from .text import evaluation_table, html_text, plain_text, terminal_text

if TYPE_CHECKING:
    import pandas


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
    names: tuple[str, ...] = ()  # of the outputs
    groups: Mapping[str, "Evaluation"] = field(default_factory=dict)  # of each group, if that was asked for

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

    _repr_pretty_ = terminal_text

    def _repr_html_(self) -> str:
        return html_text(evaluation_table(self))

    def to_frame(self) -> "pandas.DataFrame":
        """The rows as a pandas frame, which is not needed for anything else."""
        import pandas

        return pandas.DataFrame(list(self.rows))


def evaluate(
    calibration: Given,
    test: Given,
    *,
    recalibrations: Iterable[Choice] | None = None,
    metrics: Iterable[Named] | None = None,
    recipe: str | Recipe = "exact",
    law: Law | str | None = None,
    mask_missing: bool = False,
    by_group: bool = False,
    engine: Engine | None = None,
    keep: str | Path | None = None,
    report: Report | None = None,
) -> Evaluation:
    """Fit each recalibration on the calibration cases and score it on the test cases.

    A set is `Cases`, a path, a folder of maps, a glob or a manifest. Several calibration sets are pooled to one.
    Several test sets are repeated runs: rows then hold their mean and standard deviation. A list within that list is
    pooled to one run.

    Args:
        calibration: the cases the recalibrations are fitted on, never the test cases; a list is pooled.
        test: the cases to score, or a list of repeated runs.
        recalibrations: names, with options as `"aux:hidden=4"` or `("aux", {"hidden": 4})`; None for none, sigma and
            aux, of quantiles none, sigma and cqr.
        metrics: names likewise, or "all"; None for the few that say most of such predictions. Metrics with a level are
            scored at 50, 90, 95 and 99 % unless told. Those that sort all cases, such as AUSE, only for sets that fit
            into memory.
        recipe: "exact", "paper", "code", or the path of a TOML file.
        law: "normal" or "laplace", for files that do not say it.
        mask_missing: leave out the elements of files whose target is missing.
        by_group: score each group as well as the whole.
        engine: "local", "ray", the address of a Ray cluster, or options of `engine.ray.run`: files are then read in
            pieces there. None: what fits into memory is read at once, and the rest in pieces on this machine.
        keep: a folder for the sums of each file and pass; sums that are already there are not computed again.
        report: from words and a number of cases to a function that is called with how many more are done.

    Returns:
        The evaluation: `print` it, `.rows` (for a data frame), `.value("sigma", "uce")`, `.questions`, `.groups`,
        `.to_dict()`.

    Example:
        >>> import numpy as np
        >>> from truesigma import Cases, Prediction
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=2000)
        >>> half = lambda y: Cases(Prediction(0 * y, scale=0 * y + 0.5), y)   # sigma is half of what it should be
        >>> result = evaluate(half(y[:1000]), half(y[1000:]), recalibrations=["none", "sigma"], metrics=["coverage"])
        >>> [round(result.value(name, "coverage", level=0.9), 2) for name in ("none", "sigma")]
        [0.57, 0.89]

    Reference: Laves et al., MELBA 2021, Tables 1 and 2.
    """
    chosen = load_recipe(recipe)
    how: dict[str, Any] = {"recipe": chosen, "law": law, "mask_missing": mask_missing}
    how |= {"engine": engine, "keep": keep, "report": report}
    fitted_on = open_set(calibration, "the calibration set", **how)
    repeats = test if isinstance(test, list | tuple) else [test]
    tested = [open_set(one, f"test set {number}", **how) for number, one in enumerate(repeats, start=1)]
    if recalibrations is None:
        recalibrations = ["none", "sigma", "cqr" if known_at_levels(fitted_on.law) else "aux"]
    recalibrations = list(each(recalibrations))
    check_alike(fitted_on, tested)
    warn_leaks(fitted_on, tested)
    unfitted: dict[str, ValueError] = {}
    fits, count = fit_set(recalibrations, fitted_on, unfitted)
    asked = asked_metrics(metrics, fitted_on.law)
    items: dict[str, list[Item]] = {}
    for label, one in choose_all(recalibrations, chosen).items():
        items[label] = items_of(asked, chosen, one.part, len(items))
    sums = []
    for number, cases in enumerate(tested, start=1):
        sums.append(score_set(cases, fits, items, f"test {number}", by_group=by_group))
    fitted = {label: one.fitted for label, one in fits.items()}

    def ask() -> list[dict[str, Any]]:
        from .questions import answers_of  # scipy is slow to import

        return answers_of(fitted_on, tested[0], fits.values())

    def table(group: str | None) -> Evaluation:
        rows = []
        for label, one in choose_all(recalibrations, chosen).items():
            for item in items[label]:
                if label in unfitted:
                    values: list[Any] = [Undefined(str(unfitted[label]))]
                else:
                    values = [value_in(some, item, group) for some in sums]
                rows.append(row_of(one, item, values))
        key = CASES if group is None else f"{CASES} {group}"
        seen = next(int(some[key][0]) for some in sums if key in some)
        sizes = {"calibration": count, "test": seen, "repeats": len(tested)}
        asking = ask if group is None else None
        about = {name: getattr(fitted_on, name) for name in ("unit", "checkpoint", "names")}
        return Evaluation(chosen, tuple(rows), fitted, sizes, ask=asking, **about)

    starts = f"{CASES} "
    names = sorted({key.removeprefix(starts) for some in sums for key in some if key.startswith(starts)})
    return replace(table(None), groups={name: table(name) for name in names})


def check_alike(calibration: CaseSet, tested: Sequence[CaseSet]) -> None:
    """Refuse test sets that are not like the calibration set, wherever they are."""
    if not tested:
        raise Refusal("test is empty; expected at least one set of cases.")
    for number, one in enumerate(tested, start=1):
        places = [f" ({some.paths[0]})" if some.paths else "" for some in (one, calibration)]
        pairs: dict[str, tuple[Any, Any]] = {"law": (repr(one.law.name), repr(calibration.law.name))}
        if not (one.of_volumes and calibration.of_volumes):  # whose shapes may differ
            pairs["outputs of shape"] = one.outputs, calibration.outputs
        if one.unit and calibration.unit:
            pairs["targets"] = f"in {one.unit}", f"in {calibration.unit}"
        for words, (given, expected) in pairs.items():
            if given != expected:
                raise Refusal(
                    f"test set {number}{places[0]} has {words} {given}, the calibration set{places[1]} {expected}; "
                    "expected the same."
                )
