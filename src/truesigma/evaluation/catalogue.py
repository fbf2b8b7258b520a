"""What there is to choose from, read from files that are not imported: the backbones are listed without torch."""

import ast
import inspect
from dataclasses import dataclass
from pathlib import Path

from ..core import plugins
from .recipe import FOLDER, recipe_names

KINDS = (*plugins.FOLDERS, "recipes")


@dataclass(frozen=True)
class Option:
    """An option of a plug-in: its name, its default as written, and a line of help."""

    name: str
    default: str
    help: str


@dataclass(frozen=True)
class Entry:
    """A plug-in: its name, a line of help, its options."""

    name: str
    help: str
    options: tuple[Option, ...]


def catalogue(kind: str) -> list[Entry]:
    """All plug-ins of a kind, such as "metrics", in the order of their names; or the recipes.

    >>> [option.name for option in catalogue("recalibrate")[0].options][:2]
    ['part', 'outputs']
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}.")
    if kind == "recipes":
        heads = [(name, (FOLDER / f"{name}.toml").read_text(encoding="utf-8")) for name in recipe_names()]
        return [Entry(name, _first_line(text).lstrip("# "), ()) for name, text in heads]
    package, function = plugins.FOLDERS[kind]
    folder = Path(__file__).parents[1].joinpath(*package.split(".")[1:])
    found = []
    for name in plugins.names(kind):
        path = folder / f"{name}.py"
        path = path if path.is_file() else folder / name / "__init__.py"
        found.append(_entry(kind, name, function, path.read_text(encoding="utf-8")))
    return found


def _entry(kind: str, name: str, function: str, source: str) -> Entry:
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            text = inspect.cleandoc(ast.get_docstring(node) or "")
            described = _arguments(text)
            pairs = zip(node.args.kwonlyargs, node.args.kw_defaults)
            options = tuple(
                Option(a.arg, "" if d is None else ast.unparse(d).strip("'"), described.get(a.arg, ""))
                for a, d in pairs
                if plugins.is_option(kind, a.arg)
            )
            return Entry(name, _first_line(text or ast.get_docstring(tree) or ""), options)
    return Entry(name, _first_line(ast.get_docstring(tree) or ""), ())


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]


def _arguments(text: str) -> dict[str, str]:
    """The lines of the docstring's `Args:` (or `Arguments:`) section, each argument's joined.

    >>> _arguments("What it does.\\n\\nArgs:\\n    low, high: ends of\\n        the range.")
    {'low': 'ends of the range.', 'high': 'ends of the range.'}
    """
    found: dict[str, str] = {}
    inside, current = False, [""]
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            inside = line.startswith(("Args:", "Arguments:"))
        elif inside and indent == 4 and ":" in line:
            names, _, words = line.strip().partition(":")
            current = [name.strip() for name in names.split(",")]
            found.update(dict.fromkeys(current, words.strip()))
        elif inside and current[0] and line.strip():
            found.update({name: f"{found[name]} {line.strip()}" for name in current})
    return found
