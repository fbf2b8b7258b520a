r"""Formulas of docstrings as MathML, which browsers show without a script and without a network.

`docs/scripts/show_formulas.py` has converted those of the package; any other is shown as it is written.
"""

import json
import re
from pathlib import Path

from .markup import Html, element

MADE = Path(__file__).with_name("formulas.json")


def sources(text: str) -> list[str]:
    r"""Find each `$$...$$` of a docstring.

    >>> sources(r"The error: $$e^2$$")
    ['e^2']
    """
    return re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)


def formulas(text: str) -> list[Html]:
    r"""Write each formula of a docstring as MathML, or as code if the package does not know it.

    >>> formulas(r"$$unknown < 3$$")
    ['<code>unknown &lt; 3</code>']
    """
    made = json.loads(MADE.read_text(encoding="utf-8"))
    return [
        Html(made[source]) if source in made else element("code", None, " ".join(source.split()))
        for source in sources(text)
    ]
