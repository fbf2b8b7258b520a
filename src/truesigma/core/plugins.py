"""A plug-in is a file in a folder: the folder is the registry, the file's name is the plug-in's name.

A path to a file of one's own (`./mine.py`) works wherever a name does. Options are the keyword arguments of the
plug-in's main function that have a plain default.
"""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDERS = {
    "recalibrate": ("truesigma.recalibrate", "fit"),
    "metrics": ("truesigma.metrics", "score"),
    "diagrams": ("truesigma.diagrams", "table"),
    "datasets": ("truesigma.imaging.datasets", "load"),
    "backbones": ("truesigma.imaging.backbones", "build"),
}
# Arguments of the numeric half that are never options.
DATA = {"prediction", "target", "weight", "group", "patient", "shift", "fold", "region"}


def names(kind: str) -> list[str]:
    """Names of all plug-ins of a kind, such as "metrics".

    >>> "uce" in names("metrics")
    True
    """
    folder = Path(__file__).parents[1].joinpath(*_folder(kind)[0].split(".")[1:])
    return sorted(m.name for m in pkgutil.iter_modules([str(folder)]) if not m.name.startswith("_"))


def in_folder(kind: str) -> tuple[Callable[[str], ModuleType], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a folder, whose plug-ins are loaded when they are named."""

    def find(name: str) -> ModuleType:
        if name not in names(kind):
            raise AttributeError(f"module {_folder(kind)[0]!r} has no attribute {name!r}")
        return load(kind, name)

    return find, functools.partial(names, kind)


def usual(kind: str) -> list[str]:
    """Names of those that are meant where all are asked for; others say `BY_NAME`, and are taken when they are named.

    >>> sorted(set(names("metrics")) - set(usual("metrics")))
    ['joint_coverage', 'volume']
    """
    return [name for name in names(kind) if not getattr(load(kind, name), "BY_NAME", False)]


def load(kind: str, name: str) -> ModuleType:
    """The plug-in's module, by its name or by the path of its file.

    >>> load("metrics", "uce").BETTER
    'lower'
    """
    package, function = _folder(kind)
    if name.endswith(".py"):
        return _load_file(Path(name), function)
    if f"{package}.{name}" in sys.modules:  # a tally asks for every metric at every batch
        return sys.modules[f"{package}.{name}"]
    if name not in names(kind):
        raise ValueError(
            f"no {kind} plug-in is called {name!r}; expected one of {', '.join(names(kind))}, or a .py file."
        )
    return importlib.import_module(f"{package}.{name}")


def _folder(kind: str) -> tuple[str, str]:
    if kind not in FOLDERS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(FOLDERS)}.")
    return FOLDERS[kind]


def _load_file(path: Path, function: str) -> ModuleType:
    # The name tells files of the same stem apart: a metric finds its own formula by its module's name.
    mark = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"truesigma_plugin_{path.stem}_{mark}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(
            f"there is no plug-in file {path}; expected a Python file that defines {function}()."
        )
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[spec.name]
        raise ValueError(
            f"{path} cannot be loaded ({type(problem).__name__}: {problem}); correct it, or install what it needs."
        ) from problem
    if not hasattr(module, function):
        raise ValueError(f"{path} defines no {function}(); docs/adding.md shows a skeleton to start from.")
    return module


def options(kind: str, module: ModuleType) -> dict[str, inspect.Parameter]:
    """The options of a plug-in: keyword-only arguments with a plain default."""
    keywords = _keywords(getattr(module, _folder(kind)[1]))
    return {name: one for name, one in keywords.items() if is_option(kind, name)}


def settled(kind: str, module: ModuleType, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a plug-in: those given, and the others at their defaults, which its main function alone says.

    >>> settled("metrics", load("metrics", "coverage"), {})
    {'level': 0.9}
    """
    return {**{name: one.default for name, one in options(kind, module).items()}, **given}


def is_option(kind: str, name: str) -> bool:
    """Whether a keyword is an option; a data set may call the names of its columns `target` and `group`.

    >>> is_option("metrics", "weight"), is_option("datasets", "target"), is_option("backbones", "pretrained")
    (False, True, False)
    """
    if kind == "backbones":
        # Asked for by itself: it says where the weights come from, not what they are of.
        return name != "pretrained"
    return kind == "datasets" or name not in DATA


def accepted(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given options that the function takes as keywords."""
    return {name: given[name] for name in _keywords(function) if name in given}


@functools.lru_cache(maxsize=256)
def _keywords(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: one for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
