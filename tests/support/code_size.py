"""Count lines of code, without docstrings, comments and blank lines: `python tests/support/code_size.py [FOLDER]`."""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "truesigma"
OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)  # of docstrings
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Count the lines of a file that hold code.

    >>> code_lines('"A docstring."\\n\\n# a comment\\nx = (\\n    1\\n)')
    3
    """
    said: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, OWNERS) and ast.get_docstring(node, clean=False) is not None:
            said.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - said)


def by_file(folder: Path = SOURCE) -> dict[str, int]:
    """Count the lines of code of every file below a folder, by its path from there."""
    files = sorted(folder.rglob("*.py"))
    return {
        file.relative_to(folder).as_posix(): code_lines(file.read_text(encoding="utf-8")) for file in files
    }


def main() -> None:
    """Print the packages and their sum, the fullest folders and the longest files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    lines = by_file(folder)
    packages: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for name, count in lines.items():
        packages[name.split("/")[0] if "/" in name else "."] += count
        folders[name.rpartition("/")[0] or "."] += 1
    print("lines of code")
    for name, count in packages.most_common():
        print(f"{count:7,}  {name}")
    print(f"{sum(lines.values()):7,}  all of {len(lines)} files\n\nfiles in a folder")
    for name, count in folders.most_common(5):
        print(f"{count:7}  {name}")
    long = Counter({name: (folder / name).read_text(encoding="utf-8").count("\n") for name in lines})
    print("\nlines of a file, all counted")
    for name, count in long.most_common(5):
        print(f"{count:7}  {name}")


if __name__ == "__main__":
    main()
