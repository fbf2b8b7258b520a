"""Formulas in TeX become MathML, which browsers show without a script and without a network.

mkdocs calls `on_page_content` for each page that it builds. Run as a program, this writes the formulas that the report
shows, so that the package itself converts none: python docs/scripts/show_formulas.py
"""

import html
import json
import logging
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from truesigma.core import plugins
from truesigma.page import formula

LOG = logging.getLogger("mkdocs.plugins.formulas")  # a warning here ends a strict build
# As the arithmatex extension writes them.
MARK = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<source>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'  # HTML does not need it
FENCES = ("|", "(", ")", "[", "]")
WORDS = ("log", "exp")
# What formulas are made of, and how many parts each has; None: any number.
PARTS = {
    "math": None, "mrow": None, "mi": None, "mn": None, "mo": None, "mtext": None, "mspace": None, "msqrt": None,
    "mstyle": None, "mpadded": None, "mphantom": None, "mtable": None, "mtr": None, "mtd": None, "mroot": 2,
    "mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3,
}  # fmt: skip


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""

    def written(mark: re.Match[str]) -> str:
        made = mathml(html.unescape(mark["source"]), "inline" if mark["tag"] == "span" else "block")
        if made is None:
            LOG.warning("%s: the formula %s is not understood", page.file.src_path, mark["source"])
        return f'<{mark["tag"]} class="formula">{made}</{mark["tag"]}>'

    return MARK.sub(written, content)


def mathml(source: str, display: str = "block") -> str | None:
    """Write one formula as MathML: a "block" of its own, or "inline"; None if it is not understood."""
    from latex2mathml.converter import convert

    try:
        root = ElementTree.fromstring(convert(source, display=display).replace(NAMESPACE, ""))
    except Exception:  # the library has a dozen kinds of errors about what it cannot read
        return None
    if not all(map(_is_known, root.iter())):
        return None
    for node in list(root.iter()):
        _space(node)
    return ElementTree.tostring(root, encoding="unicode")


def _is_known(node: ElementTree.Element) -> bool:
    """Whether a browser can show the node: it has no command left in it, nothing but mathematics."""
    parts = PARTS.get(node.tag, -1)
    return parts in (None, len(node)) and "href" not in node.attrib and not (node.text or "").startswith("\\")


def _space(node: ElementTree.Element) -> None:
    """Set fences close to what they enclose, and a function's name apart from what follows."""
    if node.tag == "mo" and node.text in FENCES:
        node.attrib |= {"lspace": "0", "rspace": "0"}
    elif node.tag == "mrow":
        for place, one in reversed(list(enumerate(node))):
            if one.tag == "mi" and one.text in WORDS:
                node.insert(place + 1, ElementTree.Element("mspace", {"width": "0.17em"}))


def made() -> dict[str, str | None]:
    """Write the formula of every metric as MathML, by its source."""
    metrics = [plugins.load("metrics", name) for name in plugins.names("metrics")]
    return {source: mathml(source) for metric in metrics for source in formula.sources(metric.__doc__ or "")}


if __name__ == "__main__":
    Path(formula.MADE).write_text(json.dumps(made(), indent=1) + "\n", encoding="utf-8")
