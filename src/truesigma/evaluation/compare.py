"""Which recalibration? Each is scored on cases that it was not fitted on, and one is chosen by a proper score."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ..core import plugins
from ..core.arrays import Host, like
from ..core.cases import Cases, pool
from ..core.checks import check_whole, per_cent
from ..core.elements import every_element
from ..core.errors import Refusal
from ..core.factors import MOST_OUTPUTS
from ..core.law import Law, Undefined
from ..core.recalibration import Recalibration, degrees_of_freedom
from ..core.scores import Mean
from ..core.values import changed
from ..core.varying import known_at_levels
from ..files.provenance import versions
from .bootstrap import estimate
from .fit import Choice, Named, choose_all, each, fit, label_of
from .recipe import Recipe, load_recipe
from .replicates import Replicates, Resampling, replicate
from .scoring import at_levels, items_of, score
from .sets import Given, open_set
from .text import comparison_table, html_text, plain_text, terminal_text

LEVEL = 0.9  # of the intervals whose width tells sharpness
FEWEST, LARGEST = 30, 200_000  # cases or patients, and elements, between which a remedy is looked for
MOST_GROUPS = 50
WIDER = 1.1  # times the width without recalibration: wider than this must buy a better score


@dataclass(frozen=True, eq=False)
class Comparison:
    """Cross-fitted scores of recalibrations, the choice among them, and each of them fitted on all cases.

    A row is a dict: `recalibration`; `numbers`, how many its stored form has; `score`; `change` from `none`, with its
    paired interval `low` to `high`, too narrow if the change is small, since the fits vary as well; `behind` the best,
    with the `standard_error` of that difference; `width` of the 90 % interval; `reason` if there is no score.
    """

    metric: str
    rows: tuple[dict[str, Any], ...]
    recalibrations: Mapping[str, Recalibration]
    best: str
    choice: str
    warnings: tuple[str, ...]
    plan: Mapping[str, Any]  # folds, seed, what was kept together, how many cases
    recipe: Recipe
    checkpoint: str = ""  # of the network that made the predictions, where it is known

    @property
    def recalibration(self) -> Recalibration:
        """The chosen one, fitted on all cases."""
        return self.recalibrations[self.choice]

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as written to JSON."""
        return {
            "metric": self.metric,
            "choice": self.choice,
            "best": self.best,
            "rows": [dict(row) for row in self.rows],
            "recalibrations": {label: fitted.to_dict() for label, fitted in self.recalibrations.items()},
            "warnings": list(self.warnings),
            "plan": dict(self.plan),
            "recipe": self.recipe.name,
            "versions": versions(),
        }

    def __repr__(self) -> str:
        return f"Comparison({self.choice!r} of {len(self.rows)} by {self.metric})"

    def __str__(self) -> str:
        """The table that the command line prints."""
        return plain_text(comparison_table(self))

    _repr_pretty_ = terminal_text

    def _repr_html_(self) -> str:
        return html_text(comparison_table(self))


def compare(
    cases: Given,
    *,
    recalibrations: Iterable[Choice] | None = None,
    metric: Named | None = None,
    folds: int = 10,
    seed: int = 0,
    level: float = 0.95,
    replicates: int = 1000,
    recipe: str | Recipe = "exact",
    law: Law | str | None = None,
    mask_missing: bool = False,
) -> Comparison:
    r"""Score recalibrations on cases they were not fitted on, and choose one.

    $$\mathrm{score} = \tfrac1m \sum_i S\bigl(R_{-k(i)}(p_i),\, y_i\bigr)$$

    R is fitted without fold k(i), that of case i. All cases of a patient (without patients: of one of 20 groups or
    more) are in one fold. The choice is the simplest recalibration, that with the fewest numbers in its stored form,
    whose score is within one standard error of the best: the standard error of their difference on the same cases,
    from a bootstrap by patient, or by case.

    Args:
        cases: predictions with targets, none of which the network was trained on: Cases, a path, a glob, a manifest, or
            a list of these, which is pooled. They are all in memory at once.
        recalibrations: names, with options as `"aux:hidden=4"` or `("aux", {"hidden": 4})`; `none` always takes part;
            "all": every one that takes predictions like these; None: sigma and aux, and sigma_by_group where there are
            groups that are no patients; of quantiles sigma and cqr.
        metric: a proper score: "crps" (the default), "quantile_score" (that of quantiles), "winkler:level=0.9", "nll"
            (which a few gross errors decide), or one of your own that says `PROPER = True`.
        folds: in how many parts the cases, or the patients, are divided at random.
        seed: of the parts and of the bootstrap.
        level: of the intervals of the change.
        replicates: of the bootstrap.
        recipe: "exact", "paper", "code", or the path of a TOML file.
        law: "normal" or "laplace", for files that do not say it.
        mask_missing: leave out the elements of files whose target is missing.

    Returns:
        The comparison: `print` it, `.choice`, `.recalibration` (fitted on all), `.rows`, `.warnings`, `.to_dict()`.

    Example:
        >>> from truesigma import Prediction
        >>> y = np.random.default_rng(0).normal(size=200)
        >>> found = compare(Cases(Prediction(0 * y, aleatoric=0 * y + 0.25), y), recalibrations=["none", "sigma"])
        >>> found.choice, round(found.recalibration.factor, 2)
        ('sigma', 1.92)

    Reference: Gneiting and Raftery, JASA 2007 (proper scores); Hastie, Tibshirani and Friedman, "The Elements of
    Statistical Learning", 2009, section 7.10 (the one-standard-error rule).
    """
    chosen = load_recipe(recipe)
    cases = open_set(cases, recipe=chosen, law=law, mask_missing=mask_missing).read("compare")
    predicted = cases.prediction.law
    asked = _proper(metric or (at_levels(predicted) if known_at_levels(predicted) else "crps"))
    several = list(each(_first_ones(cases) if recalibrations is None else recalibrations))
    several = plugins.usual("recalibrate") if several == ["all"] else several
    choices = choose_all(["none", *several], chosen)
    # Cases are divided unless patients are known; groups that are to be repaired must be in every fold.
    repaired = any("groups" in one.needs for one in choices.values())
    alone = cases.cluster is None or (cases.patient is None and repaired)
    fold = fold_of(changed(cases, group=None) if alone else cases, folds=folds, seed=seed)
    by: Any = "case" if alone else "patient"
    plan = Resampling.of(cases, by=by, replicates=replicates, level=level, seed=seed)
    as_made = chosen.applied(cases)

    fitted: dict[str, Recalibration] = {}
    scores: dict[str, Replicates | Undefined] = {}
    widths: dict[str, Replicates | Undefined] = {}
    for label, one in choices.items():
        item = items_of([asked], chosen, one.part)[0]
        wanted = [(plugins.address(item.metric), item.options), ("width", {"level": LEVEL})]
        try:
            fitted[label] = fit(one, as_made, chosen)
            made = _cross_fitted(as_made, fold, partial(fit, one, recipe=chosen))
            scores[label], widths[label] = replicate(made, wanted, plan)
        except Refusal as problem:  # it stays in the table, with the reason why it has no score
            if label == "none" or len(choices) == 2:
                raise
            scores[label] = widths[label] = Undefined(str(problem))

    words = label_of(asked[0], asked[2])
    sign = -1 if asked[1].BETTER == "higher" else 1
    best = _best(scores, sign, words)
    size = {label: degrees_of_freedom(fitted[label]) if label in fitted else 0 for label in choices}
    rows = [_row(label, scores, widths[label], size[label], best, sign, plan) for label in choices]
    choice = _choice([row for row in rows if row["score"] is not None])
    about = {
        "folds": folds,
        "seed": seed,
        "by": plan.by,
        "units": plan.units,
        "cases": len(cases),
        "level": level,
    }
    doubts = tuple(_warnings(rows, sign, words, as_made))
    return Comparison(words, tuple(rows), fitted, best, choice, doubts, about, chosen, cases.checkpoint)


def _first_ones(cases: Cases) -> list[str]:
    """What most people compare."""
    if known_at_levels(cases.prediction.law):
        return ["sigma", "cqr"]
    groups = "sigma_by_group" in candidates(cases) and (cases.cluster is None or cases.patient is not None)
    return ["sigma", "aux", *(["sigma_by_group"] if groups else [])]


def _choice(rows: Sequence[Mapping[str, Any]]) -> str:
    """The better of those with one number at most, unless it is behind the best by more than its standard error.

    One factor can hardly overfit: a standard error's benefit of the doubt for `none` would keep a sigma that is 1.3
    times too small in half of all sets of 30 cases.
    """
    simple = [row for row in rows if row["numbers"] <= 1]
    first = min(simple, key=lambda row: row["behind"])
    near = [row for row in rows if row["behind"] <= (row["standard_error"] or 0.0)]
    taken = [row for row in near if row is first or row["numbers"] > 1]
    return str(min(taken, key=lambda row: row["numbers"])["recalibration"])


def candidates(cases: Cases) -> list[str]:
    """List the recalibrations that these cases can tell apart, without slow ones; a remedy is one of them.

    >>> from truesigma import Prediction
    >>> candidates(Cases(Prediction([[1.0, 2.0]], aleatoric=[[1.0, 1.0]], epistemic=[[0.1, 0.1]]), [[1.0, 2.0]]))
    ['none', 'isotonic', 'sigma', 'sigma_by_output', 'two_factor']
    """
    outputs = math.prod(cases.prediction.location.shape[1:])
    groups = 0 if cases.group is None else len(np.unique(cases.first_group))
    known = {
        "outputs": 1 < outputs <= MOST_OUTPUTS,
        "groups": 1 < groups <= MOST_GROUPS,
        "split": cases.prediction.epistemic is not None,
    }
    each = {name: plugins.load("recalibrate", name) for name in plugins.usual("recalibrate")}
    quick = [name for name, module in each.items() if plugins.said(module, "REMEDY")]
    some = [name for name in quick if all(known.get(need) for need in plugins.needs(each[name], {}))]
    return sorted(some, key=lambda name: not plugins.said(each[name], "REFERENCE"))


def remedy(cases: Cases, *, recipe: str | Recipe = "exact") -> Comparison | None:
    """Choose the recalibration that these cases need, by CRPS on cases it was not fitted on; None if they are too few.

    Outputs are compared in units of their own RMSE, so that one in large numbers does not decide for all; the choice
    is what counts then, since its fit is in these units, too.

    >>> from truesigma import Prediction
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> remedy_words(remedy(Cases(Prediction(0 * y, aleatoric=0 * y + 0.25), y)))
    'cross-fitted on the calibration cases, sigma would be chosen: it lowers the error score CRPS by 7.4 % [4.5, 10]'
    """
    from .inference.outliers import outliers_in  # scipy is slow to import

    names, chosen = candidates(cases), load_recipe(recipe)
    if "sigma" in names and outliers_in(cases, chosen.prediction(cases)) is not None:
        names.append("sigma:robust=true")
    needed = set().union(*(one.needs for one in choose_all(names, chosen).values()))
    together = cases.patient if "groups" in needed else cases.cluster
    units = len(cases) if together is None else len(np.unique(together))
    if known_at_levels(cases.prediction.law):
        return None  # which have no CRPS
    if units < FEWEST or math.prod(cases.prediction.location.shape) > LARGEST:
        return None
    several = "outputs" in needed and chosen.tables["elements"]["outputs"] == "separate"
    known = _of_one_size(chosen.applied(cases)) if several else cases
    with warnings.catch_warnings(action="ignore"):  # about groups that a fold lacks
        return compare(known, recalibrations=names, metric="crps", replicates=300, recipe=chosen)


def _of_one_size(cases: Cases) -> Cases:
    """Divide every output by its RMSE, so that no output counts more than another."""
    p = cases.prediction
    found = every_element(p, cases.target, weight=cases.weight)
    square = (found.weight * found.residual**2).sum(axis=0) / np.maximum(found.weight.sum(axis=0), 1e-300)
    size = like(np.sqrt(np.where(square > 0, square, 1.0)).reshape(p.location.shape[1:]), p.location)
    parts = {"aleatoric": p.aleatoric, "epistemic": p.epistemic}
    parts = {name: None if part is None else part / size**2 for name, part in parts.items()}
    return changed(
        cases,
        prediction=changed(p, location=p.location / size, **parts),
        target=cases.target / size,
    )


def remedy_words(found: Comparison, beside: str = "") -> str:
    """Say which recalibration a comparison chooses, what it gains over none, and what another one gains."""
    said = "cross-fitted on the calibration cases, "
    rows = {row["recalibration"]: row for row in found.rows}
    row, none, other = rows[found.choice], rows["none"], rows.get(beside, {}).get("change")
    if found.choice == "none":
        return said + f"no recalibration would be chosen: none lowers {found.metric.upper()} beyond its error"
    gain, *ends = (-100 * row[name] / none["score"] for name in ("change", "high", "low"))
    chance = ", which may be chance" if ends[0] <= 0 else ""
    own = f"; {beside} by {-100 * other / none['score']:.2g} %" if other and other < 0 else ""
    return said + (
        f"{found.choice} would be chosen: it lowers the error score {found.metric.upper()} by {gain:.2g} % "
        f"[{ends[0]:.2g}, {ends[1]:.2g}]{chance}{own}"
    )


def fold_of(cases: Cases, *, folds: int = 10, seed: int = 0) -> Host:
    """The fold of each case, 0 to folds - 1, at random; cases of a patient share one.

    >>> from truesigma import Prediction
    >>> y = np.arange(4.0)
    >>> fold = fold_of(Cases(Prediction(y, aleatoric=y + 1), y, patient=["a", "b", "a", "b"]), folds=2)
    >>> bool(fold[0] == fold[2] != fold[1] == fold[3])
    True
    """
    check_whole("folds", folds, 2)
    check_whole("seed", seed, 0)
    code, what = np.arange(len(cases)), "cases"
    if cases.cluster is not None:
        code = np.unique(cases.cluster, return_inverse=True)[1]
        what = "groups" if cases.patient is None else "patients"
    units = int(code.max()) + 1
    if units < folds:
        todo = f"use folds={units} (--folds {units})" if units >= 2 else "give more of them"
        raise ValueError(
            f"{folds} folds need {folds} {what} or more, {units} given: a part without any cannot be scored; {todo}."
        )
    return (np.random.default_rng(seed).permutation(units) % folds)[code]


def _proper(metric: Named) -> tuple[str, ModuleType, dict[str, Any]]:
    """Check that a recalibration may be chosen by this metric."""
    name, module, options = plugins.parse("metrics", metric)
    if not (getattr(module, "PROPER", False) and isinstance(getattr(module, "SUMS", None), Mean)):
        known = [n for n in plugins.names("metrics") if getattr(plugins.load("metrics", n), "PROPER", False)]
        raise ValueError(
            f"{name} is not a proper score of uncertainty: one can do well in it by saying something untrue, or it "
            f"does not look at the uncertainty at all. Expected {', '.join(known)}; `evaluate` shows {name}, too."
        )
    default = plugins.options("metrics", module)
    return name, module, {"level": default["level"].default, **options} if "level" in default else options


def _cross_fitted(cases: Cases, fold: Host, fit_on: Callable[[Cases], Recalibration]) -> Cases:
    """The cases, each under a recalibration fitted on the other folds."""
    parts = []
    for k in np.unique(fold):
        fitted, rest = fit_on(cases[fold != k]), cases[fold == k]
        parts.append(changed(rest, prediction=fitted(rest.prediction, group=rest.first_group)))
    return pool(parts)[np.argsort(np.argsort(fold, kind="stable"), kind="stable")]


def _best(scores: Mapping[str, Replicates | Undefined], sign: int, metric: str) -> str:
    found = {label: sign * s.value for label, s in scores.items() if isinstance(s, Replicates)}
    found = {label: value for label, value in found.items() if np.isfinite(value)}
    if "none" not in found:
        reason = scores["none"] if isinstance(scores["none"], Undefined) else "it is not finite."
        raise ValueError(f"these predictions have no {metric}: {reason}")
    return min(found, key=found.__getitem__)


def _row(
    label: str,
    scores: Mapping[str, Replicates | Undefined],
    width: Replicates | Undefined,
    numbers: int,
    best: str,
    sign: int,
    plan: Resampling,
) -> dict[str, Any]:
    found, none, first = scores[label], scores["none"], scores[best]
    size = None if isinstance(width, Undefined) else width.value
    row: dict[str, Any] = {"recalibration": label, "numbers": numbers, "width": size, "reason": None}
    empty = ("score", "change", "low", "high", "behind", "standard_error")
    if isinstance(found, Undefined) or not np.isfinite(found.value):
        reason = str(found) if isinstance(found, Undefined) else "not finite"
        return {**row, **dict.fromkeys(empty), "reason": reason}
    assert isinstance(none, Replicates)
    assert isinstance(first, Replicates)
    same = label == "none"
    change = estimate(found, plan, minus=none)
    behind = found - first
    bounds = {"low": None if same else change.low, "high": None if same else change.high}
    return {
        **row,
        "score": found.value,
        "change": change.value,
        **bounds,
        "behind": sign * behind.value,
        "standard_error": behind.standard_error if label != best else None,
    }


def _warnings(rows: list[dict[str, Any]], sign: int, metric: str, cases: Cases) -> Iterable[str]:
    """Warn of recalibrations that seem to do harm: a score worse beyond chance, or wider intervals for nothing."""
    before = rows[0]["width"]
    for row in rows[1:]:
        if row["low"] is None:
            continue
        worst, least = (row["low"], row["high"]) if sign > 0 else (-row["high"], -row["low"])
        if worst > 0:
            yield (
                f"{row['recalibration']} worsens {metric} by {abs(row['change']):.3g} on cases it was not fitted on: "
                "nothing here speaks for it."
            )
        elif least >= 0 and before and row["width"] and row["width"] > WIDER * before:
            (held,) = score(cases, [("coverage", {"level": LEVEL})]).values()
            yield (
                f"{row['recalibration']} widens the {LEVEL:.0%} intervals by {row['width'] / before - 1:.0%}, and "
                f"{metric} is not clearly better for it; without it they hold {per_cent(held)} %."
            )
