r"""Formulas of docstrings, written in a little TeX, as MathML, which browsers show without any script.

It knows what the package's formulas use: fractions, roots, sums, integrals, indices, Greek letters, upright words.
"""

import re
from collections.abc import Iterator

from .markup import Html, element

TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_&]|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "mu": "μ", "sigma": "σ", "Sigma": "Σ", "Phi": "Φ", "varphi": "φ",
    "phi": "φ", "pi": "π", "tau": "τ", "infty": "∞", "ell": "ℓ", "rho": "ρ", "top": "⊤",
}  # fmt: skip
OPERATORS = {
    "le": "≤", "ge": "≥", "pm": "±", "cdot": "·", "times": "×", "lceil": "⌈", "rceil": "⌉", "approx": "≈", "dots": "…",
    "sim": "∼", "in": "∈", "to": "→", "min": "min", "max": "max", "{": "{", "}": "}",
}  # fmt: skip
LARGE = {"sum": "∑", "int": "∫", "prod": "∏"}
WORDS = ("log", "exp", "erf", "arg")
SPACES = {"\\,": "0.17em", "\\;": "0.28em", "\\ ": "0.3em", "\\quad": "1em", "\\qquad": "2em"}
SIZES = {f"\\{size}{side}" for size in ("big", "Big", "bigg", "Bigg") for side in "lrm"} | {
    "\\left",
    "\\right",
}


class UnknownTex(ValueError):
    """A command that is not known here; the formula is then shown as it is written."""


def formulas(text: str) -> list[Html]:
    r"""Write each `$$...$$` of a docstring as MathML, or as code where it uses a command that is not known.

    >>> formulas("$$e^2$$")
    ['<math display="block"><mrow><msup><mi>e</mi><mn>2</mn></msup></mrow></math>']
    >>> formulas(r"$$\heartsuit < 3$$")
    ['<code>\\heartsuit &lt; 3</code>']
    """
    written = []
    for source in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL):
        try:
            written.append(element("math", {"display": "block"}, _row(Tokens(source))))
        except UnknownTex:
            written.append(element("code", None, " ".join(source.split())))
    return written


class Tokens:
    """The tokens of a formula, with a look at the next one."""

    def __init__(self, source: str) -> None:
        self._rest: Iterator[str] = (t for t in TOKEN.findall(source) if not t.isspace())
        self.next: str | None = next(self._rest, None)

    def take(self) -> str:
        token = self.next
        if token is None:
            raise UnknownTex("the formula ends too early")
        self.next = next(self._rest, None)
        return token


def _row(tokens: Tokens, end: str | None = None) -> Html:
    """Read everything up to `end`, with indices put where they belong."""
    parts: list[Html] = []
    while tokens.next != end:
        parts.append(_scripts(tokens, _atom(tokens)))
    if end is not None:
        tokens.take()
    return element("mrow", None, *parts)


def _scripts(tokens: Tokens, base: Html) -> Html:
    found: dict[str, Html] = {}
    while tokens.next in ("^", "_", "'"):
        sign = tokens.take()
        found["^" if sign == "'" else sign] = element("mo", None, "′") if sign == "'" else _atom(tokens)
    under = any(f">{large}<" in base for large in (LARGE["sum"], LARGE["prod"]))
    if set(found) == {"^", "_"}:
        return element("munderover" if under else "msubsup", None, base, found["_"], found["^"])
    if "_" in found:
        return element("munder" if under else "msub", None, base, found["_"])
    return element("msup", None, base, found["^"]) if found else base


def _atom(tokens: Tokens) -> Html:
    """Read one thing that can carry an index: a letter, a number, a group, a fraction."""
    token = tokens.take()
    if token == "{":
        return _row(tokens, "}")
    if token in SIZES:
        return element("mo", {"stretchy": "false", "lspace": "0", "rspace": "0"}, tokens.take())
    if token in SPACES:
        return element("mspace", {"width": SPACES[token]})
    if token[0] == "\\":
        return _command(token[1:], tokens)
    if token[0].isdigit():
        return element("mn", None, token)
    if token.isalpha():
        return element("mi", None, token)
    fence = {"stretchy": "false", "lspace": "0", "rspace": "0"}
    return element("mo", fence if token in "|()[]" else None, {"-": "−"}.get(token, token))


def _command(name: str, tokens: Tokens) -> Html:
    if name in ("frac", "tfrac"):
        return element("mfrac", None, _atom(tokens), _atom(tokens))
    if name == "sqrt":
        return element("msqrt", None, _atom(tokens))
    if name in ("hat", "bar"):
        return element(
            "mover", {"accent": "true"}, _atom(tokens), element("mo", None, "^" if name == "hat" else "¯")
        )
    if name in ("mathrm", "text"):
        if tokens.take() != "{":
            raise UnknownTex(f"\\{name} without a group")
        letters = []
        while (token := tokens.take()) != "}":
            letters.append(" " if token in SPACES else token)
        return element("mi" if name == "mathrm" else "mtext", {"mathvariant": "normal"}, "".join(letters))
    if name in SYMBOLS:
        return element("mi", None, SYMBOLS[name])
    if name in WORDS:
        return element("mrow", None, element("mi", None, name), element("mspace", {"width": SPACES["\\,"]}))
    if name in LARGE:
        return element("mo", {"largeop": "true"}, LARGE[name])
    if name in OPERATORS:
        return element("mo", None, OPERATORS[name])
    raise UnknownTex(f"\\{name}")
