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
    body: Sequence[str]
    link: str = ""  # its name in the list of sections, if the title is too long
    table: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # what else the page's script needs

    @property
    def html(self) -> Html:
        given: Attributes = {"type": "button", "class": "csv", "data-csv": self.key}
        saved = [element("button", {**given, "aria-label": "Download as csv"}, "csv")] if self.table else []
        return element("section", {"id": self.key}, element("h2", None, self.title), *self.body, *saved)


def paragraph(*children: str, kind: str | None = None) -> Html:
    return element("p", {"class": kind}, *children)


def figure(key: str, label: str) -> Html:
    """Make room for a figure, which the script draws. `label` says in words what it shows."""
    empty = element(
        "noscript", None, "This figure needs JavaScript; its numbers are in the text and the tables."
    )
    return element("div", {"class": "figure", "id": f"figure-{key}", "data-label": label}, empty)


def choice(name: str, legend: str, options: Mapping[str, str]) -> Html:
    """Make radio buttons of which the first is chosen."""
    buttons = []
    for index, (value, words) in enumerate(options.items()):
        given: Attributes = {"type": "radio", "name": name, "value": value, "checked": index == 0}
        buttons.append(element("label", None, element("input", given), element("span", None, words)))
    return element("fieldset", {"class": "choice"}, element("legend", None, legend), *buttons)


def before_after(name: str, labels: Sequence[str]) -> Html:
    """Make radio buttons for sigma before and after recalibration, if it was recalibrated."""
    options = {label: "before" if label == "none" else f"after {label}" for label in labels}
    return controls(choice(name, "Sigma", options)) if len(options) > 1 else Html()


def split(words: Sequence[str], picture: Html) -> Html:
    """Put words beside a figure, or below it if the page is narrow."""
    return element("div", {"class": "split"}, element("div", None, *words), picture)


def controls(*children: str) -> Html:
    return element("div", {"class": "controls"}, *children)


def details(summary: str, *children: str) -> Html:
    return element("details", None, element("summary", None, summary), *children)


def how_to_read(words: str) -> Html:
    return details("How to read this", paragraph(words))


def table(head: Sequence[str], rows: Iterable[Sequence[Html]], *, caption: str, sort: bool = False) -> Html:
    """Make a table that scrolls sideways if it is too wide; cells come from `cell` and `value_cell`."""
    lines = list(rows)
    titles = []
    for words, first in zip(head, lines[0] if lines else [Html()] * len(head)):
        kind = "number" if first.startswith('<td class="number"') else None
        button = element("button", {"type": "button", "class": "sort"}, words) if sort and words else words
        titles.append(
            element("th" if words else "td", {"scope": "col" if words else None, "class": kind}, button)
        )
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
    shown: Estimate,
    *,
    unit: str = "",
    power: int = 1,
    share: bool = False,
    best: bool = False,
    of_patients: float | None = None,
) -> Html:
    """Make a cell of a number with its interval below, and the average over patients where it is another one."""
    value, interval = estimate_parts(shown, share=share, digits=1 if share else None)
    children = [element("strong" if best else "span", None, with_unit(value, unit, power))]
    if interval:
        children.append(element("small", None, interval))
    if of_patients is not None:
        words = estimate_parts(Estimate(of_patients), share=share, digits=1 if share else None)[0]
        children.append(element("small", None, f"of patients {words}"))
    return element("td", {"class": "number", "data-sort": shown.value, "title": shown.reason}, *children)


def gauge(shown: Mapping[str, Estimate], nominal: float) -> Html:
    """Draw shares on a line from 0 to 100 %: a dot and its interval for each, a mark where they should be."""
    given: Attributes = {"class": "gauge", "height": 24, "width": "100%", "aria-hidden": "true"}
    return element("svg", given, whiskers(shown, nominal, middle=12))


def whiskers(shown: Mapping[str, Estimate], nominal: float, *, middle: int, reach: int = 9) -> Html:
    """Draw the content of a gauge around the height `middle`; positions are shares of the width, so it fits any."""
    top, bottom = middle - reach, middle + reach

    def at(share: float) -> str:
        return f"{100 * min(max(share, 0.0), 1.0):.2f}%"

    parts = [
        element("line", {"class": "rail", "x1": "0%", "x2": "100%", "y1": middle, "y2": middle}),
        element("line", {"class": "nominal", "x1": at(nominal), "x2": at(nominal), "y1": top, "y2": bottom}),
    ]
    for kind, share in shown.items():
        if share.value is None:
            continue
        if share.low is not None and share.high is not None:
            ends: Attributes = {"x1": at(share.low), "x2": at(share.high), "y1": middle, "y2": middle}
            parts.append(element("line", {"class": f"whisker {kind}", **ends}))
        parts.append(element("circle", {"class": f"dot {kind}", "cx": at(share.value), "cy": middle, "r": 5}))
    return join(parts)


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns, all with the same names.

    >>> columns([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
