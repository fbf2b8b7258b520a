"""The pieces of a page that several sections share: figures, tables, buttons, choices, notes."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..evaluation.bootstrap import Estimate
from .markup import Attributes, Html, element, join
from .numbers import estimate_parts, with_unit


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the page: what is shown, and the table behind it, by column, which its csv button saves."""

    key: str
    title: str
    body: Html
    link: str = ""  # its name in the list of sections, if the title is too long
    table: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # what else the page's script needs


def paragraph(*children: str, kind: str | None = None) -> Html:
    return element("p", {"class": kind}, *children)


def figure(key: str, label: str) -> Html:
    """Make room for a figure, which the script draws. `label` says in words what it shows."""
    empty = element(
        "noscript", None, "This figure needs JavaScript; its numbers are in the text and the tables."
    )
    return element("div", {"class": "figure", "id": f"figure-{key}", "data-label": label}, empty)


def csv_button(key: str) -> Html:
    given: Attributes = {"type": "button", "class": "csv", "data-csv": key, "aria-label": "Download as csv"}
    return element("button", given, "csv")


def choice(name: str, legend: str, options: Mapping[str, str]) -> Html:
    """Make radio buttons of which the first is chosen."""
    buttons = []
    for index, (value, words) in enumerate(options.items()):
        given: Attributes = {"type": "radio", "name": name, "value": value, "checked": index == 0}
        buttons.append(element("label", None, element("input", given), element("span", None, words)))
    return element("fieldset", {"class": "choice"}, element("legend", None, legend), *buttons)


def split(words: Sequence[str], picture: Html) -> Html:
    """Put words beside a figure, or below it if the page is narrow."""
    return element("div", {"class": "split"}, element("div", None, *words), picture)


def controls(*children: str) -> Html:
    return element("div", {"class": "controls"}, *children)


def details(summary: str, *children: str) -> Html:
    return element("details", None, element("summary", None, summary), *children)


def table(head: Sequence[str], rows: Iterable[Sequence[Html]], *, caption: str, sort: bool = False) -> Html:
    """Make a table that scrolls sideways if it is too wide; cells come from `cell` and `value_cell`."""
    lines = list(rows)
    aligned = (
        ["number" if one.startswith('<td class="number"') else None for one in lines[0]] if lines else []
    )
    titles = []
    for words, kind in zip(head, aligned or [None] * len(head)):
        button = element("button", {"type": "button", "class": "sort"}, words) if sort and words else words
        titles.append(element("th", {"scope": "col", "class": kind}, button))
    # A narrow page shows each row as a small card, in which every number carries the name of its column.
    labels = [html.escape(words) for words in head]
    body = []
    for row in lines:
        named = [one.replace("<td", f'<td data-label="{name}"', 1) for name, one in zip(labels, row)]
        body.append(element("tr", None, *map(Html, named)))
    inner = element(
        "table",
        {"class": "sortable" if sort else None},
        element("caption", None, caption),
        element("thead", None, element("tr", None, *titles)),
        element("tbody", None, *body),
    )
    return element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": caption}, inner)


def cell(text: str, *, number: bool = False, sort: float | None = None, head: bool = False) -> Html:
    """Make a cell; `sort` is what its column is sorted by."""
    given: Attributes = {"class": "number" if number else None, "data-sort": sort}
    return element("th", {"scope": "row", **given}, text) if head else element("td", given, text)


def value_cell(
    found: Estimate, *, unit: str = "", power: int = 1, share: bool = False, best: bool = False
) -> Html:
    """Make a cell of a number with its interval below."""
    value, interval = estimate_parts(found, share=share, digits=1 if share else None)
    shown = with_unit(value, unit, power)
    children = [element("strong", None, shown) if best else element("span", None, shown)]
    if interval:
        children.append(element("small", None, interval))
    given: Attributes = {"class": "number", "data-sort": found.value, "title": found.reason}
    return element("td", given, *children)


def gauge(shown: Mapping[str, Estimate], nominal: float) -> Html:
    """Draw shares on a line from 0 to 100 %: a dot and its interval for each, a mark where they should be."""
    drawn = whiskers(shown, nominal, middle=12)
    return element("svg", {"class": "gauge", "height": 24, "width": "100%", "aria-hidden": "true"}, drawn)


def whiskers(shown: Mapping[str, Estimate], nominal: float, *, middle: int, reach: int = 9) -> Html:
    """Draw the content of a gauge around the height `middle`; positions are shares of the width, so it fits any."""
    top, bottom = middle - reach, middle + reach

    def at(share: float) -> str:
        return f"{100 * min(max(share, 0.0), 1.0):.2f}%"

    parts = [
        element("line", {"class": "rail", "x1": "0%", "x2": "100%", "y1": middle, "y2": middle}),
        element("line", {"class": "nominal", "x1": at(nominal), "x2": at(nominal), "y1": top, "y2": bottom}),
    ]
    for kind, found in shown.items():
        if found.value is None:
            continue
        if found.low is not None and found.high is not None:
            ends: Attributes = {"x1": at(found.low), "x2": at(found.high), "y1": middle, "y2": middle}
            parts.append(element("line", {"class": f"whisker {kind}", **ends}))
        parts.append(element("circle", {"class": f"dot {kind}", "cx": at(found.value), "cy": middle, "r": 5}))
    return join(parts)


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns, all with the same names.

    >>> columns([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
