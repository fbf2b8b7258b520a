"""The meaning of every score of the page, with its formula, from the metrics' own files."""

import inspect
import re

from ...core import plugins
from ..blocks import Section, paragraph
from ..formula import formulas
from ..markup import element
from ..numbers import capital

BETTER = {
    "lower": "Lower is better.",
    "higher": "Higher is better.",
    "nominal": "Best is the level itself: less is too sure, more not sure enough.",
}


def section() -> Section:
    """Explain the terms."""
    entries = []
    for name in plugins.usual("metrics"):
        metric = plugins.load("metrics", name)
        text = inspect.getdoc(metric.score) or ""
        reference = re.search(r"^Reference: (.+?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
        words = f"{plugins.help_of('metrics', metric)} {BETTER.get(metric.BETTER, '')}"
        parts = [
            element("h3", None, capital(str(metric.TITLE))),
            paragraph(words.strip()),
            *formulas(metric.__doc__ or ""),
            paragraph(" ".join(reference[1].split()) if reference else "", kind="note"),
        ]
        entries.append(element("div", {"class": "definition", "id": f"definition-{name}"}, *parts))
    intro = paragraph(
        "Location μ is what is predicted, y what is true, v the predicted variance (aleatoric plus epistemic), e "
        "the squared error, B a bin of elements with about the same v, m the number of elements."
    )
    body = [intro, element("div", {"class": "definitions"}, *entries)]
    return Section("definitions", "Definitions", body)
