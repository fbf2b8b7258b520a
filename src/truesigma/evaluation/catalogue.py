"""What there is to choose from, and what was chosen.

The catalogue is read from files that are not imported: the backbones are listed without torch. A choice is a name, or
a name with options: `name:option=value,option=value`.
"""

import ast
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core import plugins
from ..files.toml import nearest
from .recipe import FOLDER, recipe_names

KINDS = (*plugins.FOLDERS, "recipes")
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


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


def parse(kind: str, choice: str | tuple[str, Mapping[str, Any]]) -> tuple[str, ModuleType, dict[str, Any]]:
    """Name, module and checked options of `"aux:hidden=4"` or `("aux", {"hidden": 4})`.

    >>> parse("recalibrate", "sigma:part=aleatoric")[2]
    {'part': 'aleatoric'}
    """
    if isinstance(choice, str):
        cut = choice.rfind(".py:") + 3 if ".py:" in choice else choice.find(":")
        name, text = (choice, "") if ".py" in choice[cut:] or cut < 0 else (choice[:cut], choice[cut + 1 :])
        given: dict[str, Any] = {}
        for item in filter(None, text.split(",")):
            key, equals, value = item.partition("=")
            if not equals:
                raise ValueError(f"{choice!r}: option {item!r} has no value; expected name:option=value.")
            given[key.strip()] = value.strip()
    elif isinstance(choice, tuple) and len(choice) == 2 and isinstance(choice[1], Mapping):
        name, given = choice[0], dict(choice[1])
    else:
        raise ValueError(
            f"{choice!r} is not a choice; expected a name, or a pair as ('aux', {{'hidden': 4}})."
        )
    module = plugins.load(kind, name)
    taken = plugins.options(kind, module)
    hints = typing.get_type_hints(getattr(module, plugins.FOLDERS[kind][1]))
    for key, value in given.items():
        if key not in taken:
            raise ValueError(f"{name} has no option {key!r}; {nearest(key, taken)}")
        default = taken[key].default  # says the type where the plug-in does not
        hint = hints.get(key, type(default) if isinstance(default, bool | int | float) else str)
        given[key] = _convert(f"{name}:{key}", value, hint, default)
    return Path(name).stem if name.endswith(".py") else name, module, given


def _convert(name: str, value: Any, hint: Any, default: Any) -> Any:
    """Text from the command line as the option's type; a Literal's choices are checked."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    literals = [typing.get_args(kind) for kind in kinds if typing.get_origin(kind) is typing.Literal]
    words = [word for some in literals for word in some]
    if words and value not in words:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(str, words))}.")
    if words or not isinstance(value, str) or str in kinds:
        return value
    try:
        if bool in kinds:
            return BOOLEANS[value.lower()]
        return int(value) if int in kinds else float(value)
    except (KeyError, ValueError):
        raise ValueError(f"{name} is {value!r}; expected a value like {default!r}.") from None


def known(kind: str, name: str) -> ModuleType | None:
    """The plug-in of that name, or the file of one's own with that stem which was loaded last; None for others.

    >>> known("metrics", "uce").TITLE, known("metrics", "unheard of")
    ('UCE', None)
    """
    if name in plugins.names(kind):
        return plugins.load(kind, name)
    own = [key for key in sys.modules if key.rpartition("_")[0] == f"truesigma_plugin_{name}"]
    return sys.modules[own[-1]] if own else None


def address(module: ModuleType) -> str:
    """What `plugins.load` takes to give this module: the plug-in's name, or the path of its file.

    >>> address(plugins.load("metrics", "uce"))
    'uce'
    """
    package, _, name = module.__name__.rpartition(".")
    return name if package in {folder for folder, _ in plugins.FOLDERS.values()} else str(module.__file__)
