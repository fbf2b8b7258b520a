"""Which public names and options a recording reached: seen as they are called, not claimed.

A name counts once it was called; an option once it had another value than its default, and one with fixed choices once
each of them was seen. Names are those of `truesigma`, `truesigma.imaging`, the plug-ins, and the pages of docs/api.
"""

import contextlib
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

EXCUSED = {  # what this recorder leaves alone, and why
    "engine.ray": "a cluster takes minutes to start; tests/engine compares it with the local engine",
    "--install-completion": "changes the shell of whoever runs it",
    "--show-completion": "asks the shell that runs it for its name",
    "evaluate --address": "the cluster's",
    "evaluate --engine": "the cluster's",
    "paper all --address": "the cluster's",
    "paper all --engine": "the cluster's",
    "paper all --gpus": "the cluster's",
    "devices": "processes of a distributed run, which tests/imaging/training starts",
    "compile": "minutes of compiling, for a GPU",
}
PLAIN = (str, bool, int, float)
MAIN = {
    "recalibrate": "fit",
    "metrics": "score",
    "diagrams": "table",
    "datasets": "load",
    "backbones": "build",
}


class Reach:
    """Watches calls while it is entered: `wanted` and `seen` are names, `name(option)` and `name(option=choice)`."""

    def __init__(self) -> None:
        self.watched: dict[types.CodeType, tuple[str, list[tuple[str, Any, set[Any]]]]] = {}
        self.wanted: list[str] = []
        self.seen: set[str] = set()
        for name, function in {**dict(public_functions()), **dict(commands())}.items():
            code = getattr(inspect.unwrap(function), "__code__", None)
            if code is None or code in self.watched:
                continue
            options = list(_options(function))
            self.watched[code] = name, options
            self.wanted.append(name)
            for key, _, choices in options:
                self.wanted += [_spelt(name, key, one) for one in sorted(choices, key=str)] or [
                    _spelt(name, key)
                ]

    def __enter__(self) -> "Reach":
        sys.settrace(self._see)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _see(self, frame: types.FrameType, event: str, argument: Any) -> None:
        found = self.watched.get(frame.f_code)
        if found is None:
            return
        name, options = found
        self.seen.add(name)
        given = {
            **vars(frame.f_locals.get("reading", object)),
            **frame.f_locals,
        }  # options that arrive as one value
        for key, default, choices in options:
            value = given.get(key, default)
            if choices:
                if isinstance(value, str) and value in choices:
                    self.seen.add(_spelt(name, key, value))
            elif value is not default and (not isinstance(value, PLAIN) or value != default):
                self.seen.add(_spelt(name, key))

    def told(self, before: set[str]) -> str:
        """What is not reached, together with what other parts reached before; a line each, and what is excused."""
        left = [one for one in self.wanted if one not in self.seen | before]
        excused = [one for one in left if any(key in one for key in EXCUSED)]
        left = [one for one in left if one not in excused]
        head = f"{len(self.wanted)} public names, options and choices; not reached: {len(left)}"
        return "\n".join([head, *left, f"excused: {len(excused)}", *(f"  {one}" for one in excused)])


def _options(function: Callable[..., Any]) -> Iterator[tuple[str, Any, set[Any]]]:
    """Name, default and choices of each argument that has a default."""
    hints: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        hints = typing.get_type_hints(function)
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not parameter.empty and not key.startswith("_"):
            yield key, parameter.default, _choices(hints.get(key))


def _spelt(name: str, key: str, choice: Any = None) -> str:
    equals = "" if choice is None else f"={choice}"
    return f"{name} --{key.replace('_', '-')}{equals}" if name[0] == "$" else f"{name}({key}{equals})"


def _choices(hint: Any) -> set[Any]:
    for one in typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,):
        if typing.get_origin(one) is typing.Literal:
            return set(typing.get_args(one))
    return set()


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions, and methods of classes, that the documentation names."""
    import truesigma
    from truesigma import imaging

    from .paths import named

    names, load = named("truesigma.plugins.names"), named("truesigma.plugins.load")

    for package in (truesigma, imaging):
        for name in package.__all__:
            yield from _of(f"{package.__name__}.{name}", getattr(package, name))
    for kind, main in MAIN.items():
        for name in names(kind):
            module = load(kind, name)
            yield f"{kind}.{name}.{main}", getattr(module, main)
            if hasattr(module, "draw"):
                yield f"{kind}.{name}.draw", module.draw
    pages = Path(truesigma.__file__).parents[2] / "docs" / "api"
    for page in sorted(pages.glob("*.md")):
        for address, members in re.findall(
            r"^::: ([\w.]+)(?:\n    options:\n      members: \[([^\]]*)\])?", page.read_text(), re.MULTILINE
        ):
            yield from _documented(address, members)


def _documented(address: str, members: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    try:
        home: Any = importlib.import_module(address)
    except ModuleNotFoundError:
        package, _, name = address.rpartition(".")
        yield from _of(address, getattr(importlib.import_module(package), name))
        return
    if isinstance(home, types.ModuleType):
        for name in re.findall(r"\w+", members):
            yield from _of(f"{address}.{name}", getattr(home, name))


def _of(name: str, value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    if inspect.isfunction(value):
        yield name, value
    elif inspect.isclass(value) and not getattr(value, "_is_protocol", False):
        for key, member in vars(value).items():
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__
            if isinstance(member, property):
                member = member.fget
            if inspect.isfunction(member) and (not key.startswith("_") or key in ("__init__", "__call__")):
                yield f"{name}.{key}", member


def commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions behind the commands."""
    from truesigma.cli import build

    def walk(app: Any, before: str) -> Iterator[tuple[str, Callable[..., Any]]]:
        for one in app.registered_commands:
            name = one.name or one.callback.__name__.replace("_", "-")
            yield f"$ {before}{name}", one.callback
        for group in app.registered_groups:
            yield from walk(group.typer_instance, f"{before}{group.name} ")

    yield from walk(build(), "")
