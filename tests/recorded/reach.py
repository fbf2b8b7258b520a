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
MAIN = {
    "recalibrate": "fit",
    "metrics": "score",
    "diagrams": "table",
    "datasets": "load",
    "backbones": "build",
}


class Reach:
    """Watches calls while it is entered; `missing` says what was never called, or never with another value."""

    def __init__(self) -> None:
        self.watched: dict[types.CodeType, tuple[str, dict[str, inspect.Parameter], dict[str, Any]]] = {}
        self.names: set[str] = set()
        self.options: dict[tuple[str, str], set[Any]] = {}
        for name, function in {**dict(public_functions()), **dict(commands())}.items():
            code = getattr(function, "__code__", None)
            if code is None or code in self.watched:
                continue
            self.names.add(name)
            taken = {
                k: p
                for k, p in inspect.signature(function).parameters.items()
                if p.default is not p.empty and not k.startswith("_")
            }
            with contextlib.suppress(Exception):
                self.watched[code] = (name, taken, typing.get_type_hints(function))
            self.watched.setdefault(code, (name, taken, {}))
        self.called: set[str] = set()

    def __enter__(self) -> "Reach":
        sys.settrace(self._see)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _see(self, frame: types.FrameType, event: str, argument: Any) -> None:
        found = self.watched.get(frame.f_code)
        if found is None:
            return
        name, taken, _ = found
        self.called.add(name)
        for key, parameter in taken.items():
            value = frame.f_locals.get(key, parameter.default)
            seen = self.options.setdefault((name, key), set())
            if isinstance(value, str | bool | int | float | None):
                if len(seen) < 50:
                    seen.add(value)
            elif value is not parameter.default:
                seen.add("a value")

    def missing(self) -> str:
        """What was not reached, a line each, and what is excused."""
        lines = [f"{name}: never called" for name in sorted(self.names - self.called)]
        count = 0
        for name, taken, hints in self.watched.values():
            for key, parameter in taken.items():
                count += 1
                seen = self.options.get((name, key), set())
                choices = _choices(hints.get(key))
                if choices and choices - seen:
                    lines.append(f"{_spelt(name, key)}: never {', '.join(map(repr, sorted(choices - seen)))}")
                elif not choices and not seen - {_plain(parameter.default)}:
                    lines.append(f"{_spelt(name, key)}: only its default")
        excused = [line for line in lines if any(key in line for key in EXCUSED)]
        left = [line for line in lines if line not in excused]
        head = (
            f"{len(self.names)} public functions and commands with {count} options; not reached: {len(left)}"
        )
        return "\n".join([head, *left, f"excused: {len(excused)}", *(f"  {line}" for line in excused)])


def _spelt(name: str, key: str) -> str:
    return f"{name} --{key.replace('_', '-')}" if name.startswith("$") else f"{name}({key}=)"


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float | None) else "its default"


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
