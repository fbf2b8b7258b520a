"""Numbers and tables as text: the same aligned Markdown on the terminal and in RESULTS.md."""

from collections.abc import Sequence

from .paper import Paper
from .published import Number
from .rows import Row, Table, agrees, keys, lines

SHORT = {"none": "none", "aux": "aux", "sigma": "σ", "factor": "s"}
DASH = "–"
FAULT = "[fault]"
LARGE = 1000  # from here on with a power of ten


def power(value: float, digits: int = 2) -> str:
    """A small or large number as the paper writes it.

    >>> power(0.00142)
    '1.42e-3'
    """
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def number(value: float | None, metric: str) -> str:
    """One value in the units of the printed tables: UCE times 100.

    >>> number(0.00025, "uce"), number(2.1351, "factor"), number(None, "nll"), number(12.0, "uce")
    ('0.025', '2.14', '–', '1.20e3')
    """
    if value is None:
        return DASH
    if metric == "uce":
        value = 100 * value
    if metric == "mse" or abs(value) >= LARGE:
        return power(value)
    return f"{value:.3f}" if metric == "uce" else f"{value:.2f}"


def with_deviation(row: Row) -> str:
    """A value with its deviation over the repeats, or the standard error of a factor.

    Both have one digit more where the deviation would else be read as 0.
    """
    off = row.error if row.metric == "factor" else row.sd
    if row.value is None or off is None:
        return number(row.value, row.metric)
    times = 100 if row.metric == "uce" else 1
    value, off = times * row.value, times * off
    powers = row.metric == "mse" or abs(value) >= LARGE
    exponent = int(power(value).split("e")[1]) if powers else 0
    value, off = value / 10.0**exponent, off / 10.0**exponent
    digits = 3 if row.metric == "uce" and not powers else 2
    digits += 0 < off < 0.5 * 10.0**-digits
    text = f"{value:.{digits}f} ± {off:.{digits}f}"
    return f"({text})e{exponent}" if powers else text


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent.

    >>> percent(0.985)
    '98.5 %'
    """
    text = f"{100 * share:.{digits}f}"
    if 0 < share < 1 and not 0 < float(text) < 100:  # neither none nor all: that must show
        power = f"{100 * min(share, 1 - share):.0e}".partition("e")[2]
        text = f"{100 * share:.{-int(power)}f}"
    return f"{text} %"


def grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned, so that it can be read as plain text.

    >>> print(grid(["a", "b"], [["1", "22"]]))
    | a | b  |
    | - | -- |
    | 1 | 22 |
    """
    widths = [max(len(row[k]) for row in [head, *body]) for k in range(len(head))]
    written = [head, ["-" * w for w in widths], *body]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |" for row in written
    )


def table_text(paper: Paper, table: Table, rows: Sequence[Row]) -> dict[str, str]:
    """The table of each data set: for every network the paper's line, the log's, ours, and the difference."""
    return {data_set: _data_set(paper, table, rows, data_set) for data_set in table.data_sets}


def _data_set(paper: Paper, table: Table, rows: Sequence[Row], data_set: str) -> str:
    columns = list(keys(table, table.networks[0]))
    body: list[list[str]] = []
    reasons: dict[str, list[str]] = {}
    for line in (one for one in lines(paper, table) if one[0] == data_set):
        network, likelihood = line[1:]
        title = paper.plan.networks[network] + (", Laplace" if likelihood == "laplace" else "")
        mine: dict[tuple[str, ...], Row] = {
            (r.recipe, r.part, r.recalibration, r.metric): r
            for r in rows
            if (r.data_set, r.network, r.likelihood) == line
        }
        body += [[title, *cells] for cells in _network(paper, columns, table, mine, line)]
        if all(row.value is None for row in mine.values()):
            reasons.setdefault(next(str(row.reason) for row in mine.values()), []).append(title)
        else:
            planned = paper.plan.match(*line)
            early = None if planned is None else paper.unfinished(planned)
            if early is not None:
                reasons.setdefault(early, []).append(title)
    text = grid(["network", "source", *[_column(key, table) for key in columns]], body)
    said = [f"{', '.join(titles)}: {reason}." for reason, titles in reasons.items()]
    return "\n\n".join([text, *said])


def _column(key: tuple[str, str, str], table: Table) -> str:
    part, recalibration, metric = key
    if metric == "mse":
        return "MSE"
    return f"{part} {SHORT['factor' if metric == 'factor' else recalibration]}"


def _network(
    paper: Paper,
    columns: list[tuple[str, str, str]],
    table: Table,
    mine: dict[tuple[str, ...], Row],
    line: tuple[str, str, str],
) -> list[list[str]]:
    found: list[list[str]] = []
    known = [paper.expected.of((line[0], line[1], *key)) for key in columns]
    if line[2] == "gaussian":
        found.append(["paper", *[_printed(pair[0]) for pair in known]])
        logs = [number(log.value if log else None, key[2]) for key, (_, log) in zip(columns, known)]
        found.append(["published log", *logs])
    main, *others = table.recipes
    ours = [mine.get((main, *key)) for key in columns]
    if all(row.value is None for row in mine.values()):
        found.append(["ours: not run", *[""] * len(columns)])
        return [cells for cells in found if set(cells[1:]) != {DASH}]
    found.append([f"ours ({main})", *[DASH if row is None else with_deviation(row) for row in ours]])
    if any(row is not None and row.paper is not None and row.value is not None for row in ours):
        faults = [_printed(one[0]).endswith(FAULT) for one in known]
        away = [DASH if fault else _difference(row, table) for row, fault in zip(ours, faults)]
        found.append(["ours - paper", *away])
    for recipe in others:
        rows = [mine.get((recipe, *key)) for key in columns]
        found.append([f"ours ({recipe})", *[DASH if row is None else with_deviation(row) for row in rows]])
    return [cells for cells in found if set(cells[1:]) != {DASH}]


def _printed(number: Number | None) -> str:
    if number is None:
        return DASH
    return number.printed + (f" {FAULT}" if number.note.startswith("fault") else "")


def _difference(row: Row | None, table: Table) -> str:
    if row is None or row.value is None or row.paper is None:
        return DASH
    away = row.value - row.paper
    sign = "+" if away >= 0 else "-"
    return f"{sign}{number(abs(away), row.metric)}" + ("" if agrees(row, table) else " !")
