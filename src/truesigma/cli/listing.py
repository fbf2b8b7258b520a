"""list: recalibrations, metrics and so on, with their options."""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Annotated, Any

from typer import Argument

from ..core import plugins
from ._options import Json, names_of
from ._output import check_output, deliver

Entry = dict[str, Any]  # a plug-in: its name, a line of help, and its options, which have a default, too


def list_plugins(
    kind: Annotated[
        str | None,
        Argument(
            autocompletion=names_of("kinds"),
            help="recalibrate, metrics, diagrams, datasets, backbones, sigmas, recipes.",
        ),
    ] = None,
    json: Json = None,
) -> None:
    """List recalibrations, metrics and so on; of one kind with their options."""
    check_output(json)
    entries = {name: list(catalogue(name)) for name in ((kind,) if kind else (*plugins.FOLDERS, "recipes"))}
    lines = []
    for name, some in entries.items():
        if kind is None:
            lines += [name, *(f"  {entry['name']:<20} {entry['help']}" for entry in some)]
            continue
        for entry in some:
            lines.append(f"{entry['name']}: {entry['help']}")
            for one in entry["options"]:
                lines.append(f"  {entry['name']}:{one['name']}={one['default']}\n      {one['help']}")
    if kind is None:
        lines.append("options: truesigma list KIND, such as recalibrate")
    deliver("\n".join(lines), entries, json)


def catalogue(kind: str) -> Iterator[Entry]:
    """All plug-ins of a kind, such as "metrics", in the order of their names; or the recipes.

    >>> [option["name"] for option in next(catalogue("recalibrate"))["options"]][:2]
    ['part', 'outputs']
    """
    from ..evaluation.recipe import FOLDER, recipe_names

    if kind == "recipes":
        for name in recipe_names():
            first, *_ = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()
            yield {"name": name, "help": first.lstrip("# "), "options": []}
        return
    for name in plugins.names(kind):
        try:
            module = plugins.load(kind, name)
        except ModuleNotFoundError as missing:
            words = f"needs {missing.name}: pip install 'truesigma[train]'"
            yield {"name": name, "help": words, "options": []}
            continue
        yield {"name": name, "help": plugins.help_of(kind, module), "options": _options(kind, module)}


def _options(kind: str, module: ModuleType) -> list[dict[str, str]]:
    words = _arguments(inspect.getdoc(getattr(module, plugins.FOLDERS[kind][1])) or "")
    options = []
    for name, one in plugins.options(kind, module).items():
        default = "" if one.default is inspect.Parameter.empty else str(one.default)
        options.append({"name": name, "default": default, "help": words.get(name, "")})
    return options


def _arguments(text: str) -> dict[str, str]:
    """The lines of the docstring's `Args:` (or `Arguments:`) section, each argument's joined.

    >>> _arguments("What it does.\\n\\nArgs:\\n    low, high: ends of\\n        the range.")
    {'low': 'ends of the range.', 'high': 'ends of the range.'}
    """
    words: dict[str, str] = {}
    inside, current = False, [""]
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            inside = line.startswith(("Args:", "Arguments:"))
        elif inside and indent == 4 and ":" in line:
            names, _, first = line.strip().partition(":")
            current = [name.strip() for name in names.split(",")]
            words.update(dict.fromkeys(current, first.strip()))
        elif inside and current[0] and line.strip():
            words.update({name: f"{words[name]} {line.strip()}" for name in current})
    return words
