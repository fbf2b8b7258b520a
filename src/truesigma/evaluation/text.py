"""Tables as text: coloured on a terminal, plain aligned columns in a pipe."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from ..core import plugins
from ..core.checks import number_of
from ..core.notebook import html_table
from ..core.recalibration import Recalibration, factors_of
from .headline import lines
from .verdicts import NONE

if TYPE_CHECKING:  # results print themselves as these tables
    from .compare import Comparison
    from .evaluate import Evaluation

DASH = "-"  # where a number is not defined
MOST = 40  # groups that are printed
BY_GROUP = {("rmse", None), ("uce", None), ("nll", None), ("crps", None), ("coverage", 0.9)}  # metric, level
ROUNDING = 1e-6  # a smaller relative difference is none
USUAL = (0.3, 5.0)  # factors that networks have; beyond these a mistake in the table is more likely


def terminal_text(result: Any, printer: Any, cycle: bool) -> None:
    """Show a result in a console of IPython as it is printed: its `_repr_pretty_`."""
    printer.text(str(result))


@dataclass(frozen=True)
class TextTable:
    """A table of text with head, title and notes; `best` lists the cells (row, column) that stand out."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()
    left: int = 1  # how many columns are words, aligned to the left


def plain_text(table: TextTable) -> str:
    """The table as lines of aligned text.

    >>> print(plain_text(TextTable("", ("metric", "none"), (("UCE", "0.1"), ("coverage 90 %", "0.88")))))
    metric         none
    UCE             0.1
    coverage 90 %  0.88
    """
    lines = [table.head, *table.rows]
    width = [max(len(line[k]) for line in lines) for k in range(len(table.head))]
    text = [
        "  ".join(c.ljust(w) if k < table.left else c.rjust(w) for k, (c, w) in enumerate(zip(line, width)))
        for line in lines
    ]
    return "\n".join([*([table.title] if table.title else []), *(t.rstrip() for t in text), *table.notes])


def html_text(table: TextTable) -> str:
    """The table as a notebook shows it."""
    return html_table(table.head, table.rows, table.title, table.notes, table.best)


def print_table(table: TextTable, stream: TextIO) -> None:
    """Print to a stream: with rich if it is a terminal, otherwise as plain text."""
    if not stream.isatty():
        stream.write(plain_text(table) + "\n")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(file=stream)
    shown = Table(header_style="bold")
    for k, name in enumerate(table.head):
        shown.add_column(escape(name), justify="left" if k < table.left else "right", overflow="fold")
    for i, row in enumerate(table.rows):
        shown.add_row(
            *[f"[bold]{escape(c)}[/bold]" if (i, k) in table.best else escape(c) for k, c in enumerate(row)]
        )
    if table.title:
        console.print(escape(table.title), highlight=False)
    console.print(shown)
    for note in table.notes:
        console.print(escape(note), highlight=False)


def evaluation_table(evaluation: "Evaluation", questions: Sequence[Mapping[str, Any]] = ()) -> TextTable:
    """Lay out metrics down and recalibrations across, UCE times 100 as in the paper; answers follow below."""
    labels = list(evaluation.by_label())
    # Two names for one place (`uce_mean`, `uce_draws`) appear in two lines.
    lines: dict[tuple[int, str], dict[str, Mapping[str, Any]]] = {}
    for label, rows in evaluation.by_label().items():
        for place, row in enumerate(rows):
            lines.setdefault((place, row["metric"]), {})[label] = row
    body: list[tuple[str, ...]] = []
    best: set[tuple[int, int]] = set()
    asked = [lines[key] for key in sorted(lines) if not all(map(_unasked, lines[key].values()))]
    # What is asked for twice, as in `coverage,coverage:level=0.9`, is shown once.
    for i, cells in enumerate(cells for k, cells in enumerate(asked) if cells not in asked[:k]):
        shown = [cells.get(label) for label in labels]
        body.append((_title(next(iter(cells.items()))), *[_number(row) for row in shown]))
        values = {k + 1: None if row is None else row["value"] for k, row in enumerate(shown)}
        first = next(iter(cells.values()))
        best.update((i, k) for k in best_of(values, _metric_of(first["metric"])[0], first["level"]))
    head = ("metric", *labels)
    notes = (*_notes(evaluation), *_answers(evaluation, questions))
    return TextTable(_caption(evaluation), head, tuple(body), notes, frozenset(best))


def _answers(evaluation: "Evaluation", questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write a line for each of the five questions, about the first recalibration other than none."""
    from .questions import QUESTIONS  # scipy is slow to import

    label = next((label for label in evaluation.recalibrations if label.partition(":")[0] != NONE), NONE)
    if not questions:
        return []
    drawn = questions[0]["parts"].get("sample")
    about = [f"Of {drawn:,} elements that were drawn at random:"] if drawn else []
    return ["", *about, *lines(questions, label, QUESTIONS)]


def comparison_table(comparison: "Comparison") -> TextTable:
    """Lay out recalibrations down, cross-fitted scores across; the choice stands out, and notes give the reason."""
    plan = comparison.plan
    body = []
    for row in comparison.rows:
        interval = (
            "" if row["low"] is None else f" [{short(row['low'], digits=3)}, {short(row['high'], digits=3)}]"
        )
        error = "" if row["standard_error"] is None else f" +- {short(row['standard_error'], digits=2)}"
        body.append(
            (
                row["recalibration"],
                str(row["numbers"]),
                short(row["score"]),
                DASH if row["change"] is None else f"{short(row['change'], digits=3)}{interval}",
                DASH if row["behind"] is None else f"{short(row['behind'], digits=3)}{error}",
                short(row["width"]),
            )
        )
    parts = f"{plan['folds']} folds of {plan['units']} {plan['by']}s"
    head = (
        "recalibration",
        "numbers",
        comparison.metric,
        "change from none",
        "behind the best",
        "width 90 %",
    )
    reasons = [
        f"{row['recalibration']} has no {comparison.metric}: {row['reason']}"
        for row in comparison.rows
        if row["score"] is None
    ]
    chosen = [row["recalibration"] for row in comparison.rows].index(comparison.choice)
    return TextTable(
        f"recipe {comparison.recipe.name}: {plan['cases']} cases, each scored by a fit on the others, {parts}",
        head,
        tuple(body),
        (
            *reasons,
            *(f"warning: {text}" for text in comparison.warnings),
            f"choice: {comparison.choice}, "
            + (
                "the best"
                if comparison.choice == comparison.best
                else f"the simplest within one standard error of the best ({comparison.best})"
            ),
            *_factors(
                {f"{comparison.choice}, fitted on all cases": comparison.recalibration}, comparison.checkpoint
            ),
        ),
        frozenset((chosen, k) for k in range(len(head))),
    )


def group_table(evaluation: "Evaluation") -> TextTable:
    """Lay out a line for each group and recalibration, with a few of the scores asked for."""
    largest = sorted(evaluation.groups, key=lambda name: -evaluation.groups[name].cases["test"])[:MOST]
    titles: dict[tuple[str, float | None], str] = {}
    lines = []
    for name in sorted(largest):
        one = evaluation.groups[name]
        for label, scores in one.by_label().items():
            shown = {key: row for row in scores if (key := (row["metric"], row["level"])) in BY_GROUP}
            titles |= {key: _title((label, row)) for key, row in shown.items() if key not in titles}
            lines.append(((name, label, str(one.cases["test"])), shown))
    rows = tuple((*head, *(_number(shown.get(key)) for key in titles)) for head, shown in lines)
    alone = [name for name, one in evaluation.groups.items() if one.cases["test"] == 1]
    notes = [
        f"{len(alone)} group(s) have a single case, such as {name}: that shows no calibration."
        for name in alone[:1]
    ]
    if len(evaluation.groups) > MOST:
        notes.append(f"the {MOST} largest of {len(evaluation.groups):,} groups; --json holds all of them.")
    return TextTable(
        "by group", ("group", "recalibration", "cases", *titles.values()), rows, tuple(notes), left=2
    )


def short(value: float | None, times: float = 1, digits: int = 4) -> str:
    """Write a number with four digits, or as many as given, and with a power of ten only if it must.

    >>> short(0.00123456, times=100), short(80310.4), short(-0.0000645), short(-0.0), short(None)
    ('0.1235', '80310', '-0.0000645', '0', '-')
    """
    if value is None:
        return DASH
    value = times * value
    if not value or not math.isfinite(value):
        return f"{value or 0:g}"
    power = math.floor(math.log10(abs(value)))
    if not -6 <= power < 9:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(0, digits - 1 - power)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _metric_of(row: str) -> tuple[ModuleType | None, str]:
    """The metric behind the name of a row, and which of its two errors the name says, as in `uce_draws`.

    It is None for a user's own file that was scored at another time.
    """
    if (metric := plugins.known("metrics", row)) is not None:
        return metric, ""
    name, _, error = row.rpartition("_")
    metric = plugins.known("metrics", name)
    return (metric, error) if metric is not None and plugins.said(metric, "BOTH_ERRORS") else (None, "")


def _unasked(row: Mapping[str, Any]) -> bool:
    """Whether a row came along with another, as `uce_draws` with `uce`, and has no value to show."""
    return row["value"] is None and bool(_metric_of(row["metric"])[1])


def _times(metric: ModuleType | None) -> int:
    """The factor that a table multiplies the score by."""
    return 1 if metric is None else int(plugins.said(metric, "TIMES"))


def _title(cell: tuple[str, Mapping[str, Any]]) -> str:
    label, row = cell
    metric, error = _metric_of(row["metric"])
    words = [getattr(metric, "TITLE", row["metric"])]
    if _times(metric) != 1:
        words.append(f"x{_times(metric)}")
    if error:
        words.append(f"({error})")
    if row["level"] is not None:
        words.append(f"{100 * row['level']:.10g} %")
    taken = {item.partition("=")[0] for item in label.partition(":")[2].split(",")}
    words += [f"{key}={value}" for key, value in row["options"].items() if key not in taken]
    return " ".join(words)


def _number(row: Mapping[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return DASH
    times = _times(_metric_of(row["metric"])[0])
    spread = "" if row["sd"] is None else f" +- {short(row['sd'], times, 2)}"
    return short(row["value"], times) + spread


def best_of(values: Mapping[Any, float | None], metric: ModuleType | None, level: float | None) -> list[Any]:
    """The keys of the best values; none if they are all the same, to rounding, or only the metric knows.

    >>> best_of({"none": 0.8, "sigma": 0.88, "aux": None}, plugins.load("metrics", "coverage"), 0.9)
    ['sigma']
    """
    better = "lower" if metric is None else plugins.said(metric, "BETTER")
    if better == "nominal" and level is None:
        return []
    known = {key: value for key, value in values.items() if value is not None and math.isfinite(value)}
    sign = -1 if better == "higher" else 1
    size = {key: abs(v - level) if better == "nominal" and level else sign * v for key, v in known.items()}
    if not size or max(size.values()) - min(size.values()) <= ROUNDING * max(map(abs, size.values())):
        return []
    least = min(size.values())
    return [key for key, value in size.items() if value == least]


def _caption(evaluation: "Evaluation") -> str:
    sizes = evaluation.cases
    runs = f" x {sizes['repeats']} runs (mean +- sd)" if sizes.get("repeats", 1) > 1 else ""
    unit = f", targets in {evaluation.unit}" if evaluation.unit else ""
    counts = [number_of(sizes[name], f"{name} case") for name in ("calibration", "test")]
    return f"recipe {evaluation.recipe.name}: {', '.join(counts)}{runs}{unit}"


def factor_text(fitted: Recalibration, names: Sequence[str] = ()) -> str:
    """Say what factor was fitted, or what factors; "" if there is none. names: of the outputs.

    >>> from truesigma.recalibrate import sigma, two_factor
    >>> factor_text(sigma.Sigma(1.9, 0.05)), factor_text(two_factor.TwoFactor((1.0, 2.0)))
    ('factor 1.9 +- 0.05', 'factors 1 (aleatoric), 2 (epistemic)')
    """
    factors = factors_of(fitted)
    called = {f"output {k}": name for k, name in enumerate(names)}
    each = [
        (f"{one.value:.{4 if name else 6}g}")
        + ("" if one.standard_error is None else f" +- {one.standard_error:.2g}")
        + (f" ({called.get(name, name)})" if name else "")
        for name, one in factors.items()
    ]
    if "" in factors and factors[""].standard_error is None and hasattr(fitted, "standard_error"):
        each[0] += ", of unknown standard error"
    return f"factor{'' if '' in factors else 's'} {', '.join(each)}" if each else ""


def factor_doubt(fitted: Recalibration, checkpoint: str = "") -> str:
    """Say what to look for if a factor is far from 1; "" if none is.

    One of two parts of the variance may say nothing about the errors, so that its factor is near 0: the larger counts.
    A checkpoint's mark says that the predictions were written here, so that units, order and scale are right.

    >>> from truesigma.recalibrate.sigma import Sigma
    >>> factor_doubt(Sigma(1.9, None))
    ''
    >>> factor_doubt(Sigma(217.0, None)).split(".")[0]
    'a factor of 217 is far from 1'
    """
    factors = factors_of(fitted).values()
    parts = [one.value for one in factors if one.of_part]
    values = [*(one.value for one in factors if not one.of_part), *([max(parts)] if parts else [])]
    far = [value for value in values if not USUAL[0] <= value <= USUAL[1]]
    if not far:
        return ""
    if checkpoint and far[0] < 1:
        return (
            f"a factor of {far[0]:.3g} is far from 1: the network's own sigma is {1 / far[0]:.2g} times too large, as "
            "after a training of few steps. The factor repairs its size, and not its order: look whether it knows the "
            "hard cases. If not, more images may help, or more epochs."
        )
    if checkpoint:
        return (
            f"a factor of {far[0]:.3g} is far from 1: the network's own sigma is {far[0]:.2g} times too small. Has it "
            "learned its training cases by heart, or are these images of another kind?"
        )
    return (
        f"a factor of {far[0]:.3g} is far from 1. Are targets and predictions in one unit and in one order, and is "
        "the scale a standard deviation, not a variance or a logarithm?"
    )


def _factors(
    recalibrations: Mapping[str, Recalibration], checkpoint: str, names: Sequence[str] = ()
) -> list[str]:
    """The factors of fitted recalibrations, by their labels, and doubts about them."""
    notes = []
    for label, fitted in recalibrations.items():
        said = factor_text(fitted, names), factor_doubt(fitted, checkpoint)
        notes += [f"{label}: {words}" for words in said if words]
    return notes


def _notes(evaluation: "Evaluation") -> tuple[str, ...]:
    reasons: dict[str, str] = {}
    for row in evaluation.rows:
        if row["value"] is None and row["label"] not in evaluation.recalibrations:
            reasons.setdefault(row["label"], f"{row['label']} could not be fitted: {row['reason']}")
        elif row["value"] is None and not _unasked(row):
            reasons.setdefault(row["metric"], f"{row['metric']} is not defined: {row['reason']}")
    return (*_factors(evaluation.recalibrations, evaluation.checkpoint, evaluation.names), *reasons.values())
