"""Count the code of Python files: `python tests/support/code_lines.py FOLDER [--each]`.

A line of code has a token that is neither a comment nor part of a docstring. For each package below the folder and for
the whole: files, lines of code, nodes of the syntax tree (which no layout changes), functions, and the lines of the
longest one (a command's signature apart). The last line counts what else lies there.
"""

import ast
import io
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "truesigma"
BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SILENT = ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")
OTHERS = ("toml", "js", "css", "html")


class Size(NamedTuple):
    """What one file, or several, hold."""

    files: int = 0
    lines: int = 0
    nodes: int = 0
    functions: int = 0
    longest: int = 0

    def add(self, other: "Size") -> "Size":
        """Add the sizes of other files; the longest function is the longer one."""
        return Size(*(one + two for one, two in zip(self[:4], other)), max(self.longest, other.longest))


def measure(text: str) -> Size:
    """Measure the text of one file."""
    silent: set[int] = set()
    functions: list[range] = []
    nodes = list(ast.walk(ast.parse(text)))
    said = [one.body[0] for one in nodes if isinstance(one, BODIES) and ast.get_docstring(one) is not None]
    for one in said:
        silent.update(range(one.lineno, (one.end_lineno or 0) + 1))
    for one in nodes:
        if isinstance(one, BODIES[2:]):
            is_command = any(word in ast.dump(one.args) for word in ("typer", "Option"))
            start = one.body[0].lineno if is_command else one.lineno
            functions.append(range(start, (one.end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    lines = text.splitlines()
    code = {number for number in code - silent if lines[number - 1].strip()}
    longest = max((len(code.intersection(one)) for one in functions), default=0)
    return Size(1, len(code), len(nodes) - 2 * len(said), len(functions), longest)


def by_file(folder: Path = SOURCE) -> dict[str, Size]:
    """Measure every Python file below a folder."""
    paths = sorted(folder.rglob("*.py"))
    return {path.relative_to(folder).as_posix(): measure(path.read_text(encoding="utf-8")) for path in paths}


def main(words: list[str]) -> None:
    """Print the table."""
    folder = Path(words[0]) if words[:1] and words[0] != "--each" else SOURCE
    if not folder.is_dir():
        sys.exit(f"{folder} is not a folder; expected one with Python files.")
    packages: dict[str, Size] = {}
    for name, size in by_file(folder).items():
        if "--each" in words:
            print(f"{size.lines:6} {name}")
        for package in (name.split("/")[0] if "/" in name else ".", "all"):
            packages[package] = packages.get(package, Size()).add(size)
    row = "{:16}{:>7}{:>8}{:>9}{:>11}{:>9}".format
    print(row("package", *Size._fields))
    for package in sorted(packages, key=lambda name: (name == "all", name)):
        print(row(package, *packages[package]))
    texts = {
        kind: [path.read_text(encoding="utf-8") for path in folder.rglob(f"*.{kind}")] for kind in OTHERS
    }
    counts = {kind: sum(len(text.splitlines()) for text in some) for kind, some in texts.items()}
    print("other lines:", ", ".join(f"{kind} {lines}" for kind, lines in counts.items() if lines) or "none")


if __name__ == "__main__":
    main(sys.argv[1:])
