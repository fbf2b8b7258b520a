"""Writes the formulas of the pages as MathML while they are built, as the report does: they show without a network."""

import html
import logging
import re
from typing import Any

from truesigma.report.formula import mathml

LOG = logging.getLogger("mkdocs.plugins.formulas")  # a warning here ends a strict build
# As the arithmatex extension writes them.
MARK = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<source>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""

    def written(mark: re.Match[str]) -> str:
        made = mathml(html.unescape(mark["source"]), "inline" if mark["tag"] == "span" else "block")
        if not made.startswith("<math"):
            LOG.warning("%s: the formula %s is not understood", page.file.src_path, mark["source"])
        return f'<{mark["tag"]} class="formula">{made}</{mark["tag"]}>'

    return MARK.sub(written, content)
