"""No pattern of the package takes quadratic time: names, headers and pages come from strangers."""

import ast
import re
import time
from itertools import product
from pathlib import Path

import pytest

import truesigma
from truesigma.files import spellings
from truesigma.project import pixel_columns, variation

LONG = 30_000  # characters: a quadratic pattern takes seconds, a linear one milliseconds
CALLS = {
    f"re.{one}" for one in ("compile", "match", "fullmatch", "search", "sub", "findall", "finditer", "split")
}
# Patterns that are not written in their call, by the name that they have there. The group is the user's own.
ELSEWHERE = {
    "pattern": variation.UNITS.values(),
    "known": pixel_columns.AXES.values(),
    "pattern + OUTPUT": [pattern.pattern for pattern in spellings.PATTERNS.values()],
    "group": (),
}


def patterns():
    """Every pattern of the package, by where it is."""
    found = {}
    for path in sorted(Path(truesigma.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
                first = node.args[0]
                texts = [first.value] if isinstance(first, ast.Constant) else ELSEWHERE[ast.unparse(first)]
                call = ast.unparse(node.func).removeprefix("re.")
                found |= {f"{path.stem}:{node.lineno}:{k}": (text, call) for k, text in enumerate(texts)}
    return found


PATTERNS = patterns()


@pytest.mark.parametrize("name", PATTERNS)
def test_it_takes_linear_time(name):
    text, call = PATTERNS[name]
    pattern = re.compile(text)
    looks = {"fullmatch": [pattern.fullmatch], "match": [pattern.match]}
    own = sorted({*re.sub(r"\\.|[^\w ,.<>{}()\"']", "", text)})
    pieces = [*own, *'0a,._ {<"', *map("".join, product([*own[:4], "0", "a"], repeat=2)), "0 cases, file a"]
    for piece in pieces:
        text = piece * (LONG // len(piece)) + "!"
        began = time.thread_time()
        for look in looks.get(call, [pattern.fullmatch, lambda text: sum(1 for _ in pattern.finditer(text))]):
            look(text)
        assert time.thread_time() - began < 0.5, f"{piece!r} repeated"
