r"""Formulas written in TeX as MathML, which browsers show without a script and without a network.

The report and the documentation both use it; latex2mathml does the work.
"""

import re
from xml.etree import ElementTree

from .markup import Html, element

NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'  # HTML does not need it
FENCES = ("|", "(", ")", "[", "]")
WORDS = ("log", "exp")
# What formulas are made of, and how many parts each has; None: any number.
PARTS = {
    "math": None, "mrow": None, "mi": None, "mn": None, "mo": None, "mtext": None, "mspace": None, "msqrt": None,
    "mstyle": None, "mpadded": None, "mphantom": None, "mtable": None, "mtr": None, "mtd": None, "mroot": 2,
    "mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3,
}  # fmt: skip


def formulas(text: str) -> list[Html]:
    r"""Write each `$$...$$` of a docstring as MathML, or as code if it is not understood.

    >>> formulas(r"$$e^2$$")[0].startswith("<math")
    True
    >>> formulas(r"$$\nothing < 3$$")
    ['<code>\\nothing &lt; 3</code>']
    """
    return [mathml(source) for source in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)]


def mathml(source: str, display: str = "block") -> Html:
    """Write one formula as MathML: a "block" of its own, or "inline"; as code if it is not understood."""
    from latex2mathml.converter import convert

    try:
        root = ElementTree.fromstring(convert(source, display=display).replace(NAMESPACE, ""))
    except Exception:  # the library has a dozen kinds of errors about what it cannot read
        root = ElementTree.Element("unknown")
    if not all(map(_is_known, root.iter())):
        return element("code", None, " ".join(source.split()))
    for node in list(root.iter()):
        _space(node)
    return Html(ElementTree.tostring(root, encoding="unicode"))


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
