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
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


class Size(NamedTuple):
    """What one file, or several, hold."""

    files: int = 0
    lines: int = 0
    nodes: int = 0
    functions: int = 0
    longest: int = 0

    def add(self, other: "Size") -> "Size":
        """Add the sizes of other files; the longest function is the longer one."""
        sums = [one + two for one, two in zip(self[:4], other[:4])]
        return Size(*sums, max(self.longest, other.longest))


def measure(text: str) -> Size:
    """Measure the text of one file."""
    docstrings: set[int] = set()
    functions: list[range] = []
    nodes = 0
    for node in ast.walk(ast.parse(text)):
        nodes += 1
        if isinstance(node, BODIES) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
            nodes -= 2
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            signature = ast.dump(node.args)
            is_command = "typer" in signature or "Option" in signature
            start = node.body[0].lineno if is_command else node.lineno
            functions.append(range(start, (node.end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    lines = text.splitlines()
    code = {number for number in code - docstrings if lines[number - 1].strip()}
    longest = max((len(code.intersection(one)) for one in functions), default=0)
    return Size(1, len(code), nodes, len(functions), longest)


def by_file(folder: Path = SOURCE) -> dict[str, Size]:
    """Measure every Python file below a folder."""
    return {
        path.relative_to(folder).as_posix(): measure(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


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
    print(f"{'package':16}{'files':>7}{'lines':>8}{'nodes':>9}{'functions':>11}{'longest':>9}")
    for package in sorted(packages, key=lambda name: (name == "all", name)):
        files, lines, nodes, functions, longest = packages[package]
        print(f"{package:16}{files:7}{lines:8}{nodes:9}{functions:11}{longest:9}")
    others = {
        kind: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob(f"*.{kind}"))
        for kind in ("toml", "js", "css", "html")
    }
    print("other lines:", ", ".join(f"{kind} {lines}" for kind, lines in others.items() if lines) or "none")


if __name__ == "__main__":
    main(sys.argv[1:])
