"""Every score before and after, its paired difference, and what a model whose sigma is true would score."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core import plugins
from ...core.law import Undefined
from ...core.scores import Mean
from ...core.varying import known_at_levels
from ...evaluation.bootstrap import Estimate, estimate
from ...evaluation.chance import calibrated_range
from ...evaluation.inference.clustered import both_averages
from ...evaluation.replicates import Replicates, Resampling, metric_rows, replicate
from ...evaluation.scoring import LEVELS, asked_metrics, at_levels, items_of
from ...evaluation.text import best_of
from ..blocks import Section, cell, columns, how_to_read, table, value_cell
from ..markup import Html, element, join
from ..numbers import DASH, capital, number, percent
from ..subject import BEFORE, Subject

FIRST = [
    "coverage",
    "width",
    "winkler",
    "nll",
    "crps",
    "uce",
    "uce_draws",
    "uce_mean",
    "ence",
    "miscalibration_area",
]
PRICES = ("width", "sharpness")  # low is good only along with good calibration: none is marked as the best
OTHER = {  # what a row says that is not quite its metric
    "uce_draws": "The same with the error of every draw, (μ − y)² + spread, as the paper compares it.",
    "uce_mean": "The same with the error of the mean prediction, (μ − y)².",
}
Request = tuple[str, str, dict[str, Any]]
COST = 2_000_000  # cases that such a score is computed for again, over all replicates
FEWER = 200  # replicates of a score that must be computed again for each


@dataclass(frozen=True, eq=False)
class Score:
    """One line of the table."""

    name: str  # of the row: `uce_draws` is uce with another error
    metric: str
    title: str
    options: dict[str, Any]
    values: dict[str, Estimate]  # by recalibration
    change: Estimate | None  # after - before
    ideal: tuple[float, float] | None  # the range of a model whose sigma is true
    of_patients: dict[str, float]  # by recalibration: the mean over patients, where it is not that over cases
    replicates: int

    @property
    def share(self) -> bool:
        return self.metric == "coverage"

    @property
    def power(self) -> int:
        units = plugins.load("metrics", self.metric).UNITS
        return units if isinstance(units, int) else 0


def table_of(subject: Subject) -> list[Score]:
    """Score all metrics with the recipe's options; those with a level at the report's, coverage at several."""
    lines = _requests(subject)
    summed = [line for line in lines if hasattr(plugins.load("metrics", line[1]), "SUMS")]
    other = [line for line in lines if line not in summed]
    fewer = min(max(20, min(FEWER, COST // len(subject.before))), subject.plan.replicates)
    few = replace(subject.plan, replicates=fewer)
    wanted = [(metric, options) for _, metric, options in summed]
    ideal = calibrated_range(subject.after, wanted, grouped=subject.plan.by != "case")
    scores = _scored(subject, summed, subject.plan, ideal) + _scored(subject, other, few, [None] * len(other))
    return sorted(scores, key=lambda one: FIRST.index(one.name) if one.name in FIRST else len(FIRST))


def _scored(
    subject: Subject, lines: Sequence[Request], plan: Resampling, ideal: Sequence[tuple[float, float] | None]
) -> list[Score]:
    wanted = [(metric, options) for _, metric, options in lines]
    drawn = {label: replicate(cases, wanted, plan) for label, cases in subject.cases.items()}
    scores = []
    for k, (name, metric, options) in enumerate(lines):
        share = metric == "coverage"
        values = {label: _around(estimate(rows[k], plan, share=share)) for label, rows in drawn.items()}
        change = None
        first, second = drawn[BEFORE][k], drawn[subject.label][k]
        if subject.recalibrated and isinstance(first, Replicates):
            change = _rounded(estimate(second, plan, minus=first), first.value)
        title = _title(name, metric, options)
        patients = _of_patients(subject, metric, options) if subject.plan.by != "case" else {}
        scores.append(
            Score(name, metric, title, options, values, change, ideal[k], patients, plan.replicates)
        )
    return scores


def _of_patients(subject: Subject, metric: str, options: dict[str, Any]) -> dict[str, float]:
    """The mean over patients, of the mean of their cases, where it is not that over cases beyond the error of both."""
    module = plugins.load("metrics", metric)
    found: dict[str, Any] = {}
    if not isinstance(getattr(module, "SUMS", None), Mean):
        return found
    code = np.unique(subject.before.patient_or_group, return_inverse=True)[1]
    for label, cases in subject.cases.items():
        with suppress(Undefined):
            rows, finish = metric_rows(cases, module, options, code)
            if both := both_averages(*rows.toarray().T):
                found[label] = finish(np.array([1.0, both[1]]))
    return found


def _around(found: Estimate) -> Estimate:
    """Drop an interval that does not hold its own estimate, as that of what chance lifts above 0 may not."""
    if found.value is None or found.low is None or found.high is None:
        return found
    return found if found.low <= found.value <= found.high else Estimate(found.value)


def _rounded(change: Estimate, size: float) -> Estimate:
    """Drop a change that is only rounding: sigma scaling leaves the order of the cases as it is."""
    numbers = (change.value, change.low, change.high)
    value, low, high = (0.0 if v is not None and abs(v) < 1e-6 * abs(size) else v for v in numbers)
    return Estimate(value, low, high, change.reason)


def _requests(subject: Subject) -> list[Request]:
    """List what to score: the name of the row, its metric, and its options."""
    asked: list[Any] = []
    law = subject.before.prediction.law
    asked += [at_levels(law)] if known_at_levels(law) else []
    for metric in plugins.usual("metrics"):
        levels = sorted({*LEVELS, subject.level}) if metric == "coverage" else [subject.level]
        known = "level" in plugins.options("metrics", plugins.load("metrics", metric))
        asked += [(metric, {"level": level}) for level in levels] if known else [metric]
    items = items_of(asked_metrics(asked), subject.recipe, subject.part)
    split = subject.before.prediction.epistemic is not None
    lines = [(one.name, plugins.address(one.metric), dict(one.options)) for one in items]
    return [line for line in lines if split or line[0] == line[1]]


def _title(name: str, metric: str, options: dict[str, Any]) -> str:
    title = capital(str(plugins.load("metrics", metric).TITLE))
    if name != metric:
        title += f" ({name.partition('_')[2]})"
    known = plugins.settled("metrics", plugins.load("metrics", metric), {})
    if "bins" in known:  # of which such scores grow with the number
        title += f", {options.get('bins', known['bins'])} bins"
    if options.get("at"):
        title += f" at {options['at'].replace('/', ', ')}"
    return f"{title} {percent(options['level'])}" if "level" in options else title


def section(subject: Subject, scores: list[Score]) -> Section:
    labels = list(subject.cases)
    head = ["score", *("before" if label == BEFORE else label for label in labels)]
    head += [*(["change"] if subject.recalibrated else []), "if sigma were true"]
    rows: list[list[Html]] = []
    explained: set[str] = set()
    for score in scores:
        link = element("a", {"href": f"#definition-{score.metric}"}, score.title)
        own = plugins.help_of("metrics", plugins.load("metrics", score.metric))
        words = "" if score.name in explained else OTHER.get(score.name, own)
        explained.add(score.name)
        name = join([link, element("small", {"class": "explain"}, words)])
        values, level = {k: one.value for k, one in score.values.items()}, score.options.get("level")
        metric = None if score.metric in PRICES else plugins.load("metrics", score.metric)
        best = best_of(values, metric, level) if metric else []
        shown: dict[str, Any] = {"unit": subject.unit, "power": score.power, "share": score.share}
        cells = [cell(name, head=True)]
        for label in labels:
            patients = score.of_patients.get(label)
            cells.append(value_cell(score.values[label], best=label in best, of_patients=patients, **shown))
        if subject.recalibrated:
            change = score.change or Estimate(None)
            cells.append(value_cell(_times(change, 100) if score.share else change))
        middle = None if score.ideal is None else sum(score.ideal) / 2
        cells.append(cell(range_text(score), number=True, sort=middle))
        rows.append(cells)
    plan = subject.plan
    again = [score for score in scores if score.replicates < plan.replicates]
    fewer = f" ({again[0].replicates} for {', '.join(score.title for score in again)})" if again else ""
    words = (
        f"Brackets are {percent(plan.level)} bootstrap intervals: {plan.replicates:,} replicates by {plan.by}{fewer}. "
        "A change is paired: both predictions are scored on the same replicates; for coverage it is in percentage "
        "points. “If sigma were true” is the range of 95 % of test sets of this size whose truths are drawn from the "
        "recalibrated predictions, case by case (for UCE and ENCE from their own errors, made the right size, of whole "
        "patients): UCE, ENCE and miscalibration area are above 0 even then. Where cases of one patient err "
        "together, the range of the other scores is wider than this."
    )
    body = [table(head, rows, caption="Scores on the test cases"), how_to_read(words)]
    return Section("scores", "Scores", body, "", columns([_row(score, labels) for score in scores]))


def _times(found: Estimate, factor: float) -> Estimate:
    value, low, high = (None if v is None else factor * v for v in (found.value, found.low, found.high))
    return Estimate(value, low, high, found.reason)


def range_text(score: Score) -> str:
    """Say the range of a model whose sigma is true."""
    if score.ideal is None:
        return DASH
    times = 100 if score.share else 1
    low, high = (times * bound for bound in score.ideal)
    step = (high - low) / 4 or None
    return f"{number(low, step)} to {number(high, step)}{' %' if score.share else ''}"


def _row(score: Score, labels: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"score": score.name, "level": score.options.get("level")}
    for label in labels:
        row |= score.values[label].columns(label)
        row[f"{label}_of_patients"] = score.of_patients.get(label)
    row |= (score.change or Estimate(None)).columns("change")
    ideal = score.ideal or (None, None)
    return {**row, "if_true_low": ideal[0], "if_true_high": ideal[1]}
