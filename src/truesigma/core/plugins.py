"""A plug-in is a file in a folder: the folder is the registry, the file's name is the plug-in's name.

A path to a file of one's own (`./mine.py`) works wherever a name does. Options are the keyword arguments of the
plug-in's main function that have a plain default; `name:option=value,option=value` sets them from text.
"""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import types
import typing
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
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
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


def address(module: ModuleType) -> str:
    """What `load` takes to give this module: the plug-in's name, or the path of its file.

    >>> address(load("metrics", "uce"))
    'uce'
    """
    package, _, name = module.__name__.rpartition(".")
    return name if package in {folder for folder, _ in FOLDERS.values()} else str(module.__file__)


def known(kind: str, name: str) -> ModuleType | None:
    """The plug-in of that name, or the file of one's own with that stem which was loaded last; None for others.

    >>> known("metrics", "uce").TITLE, known("metrics", "unheard of")
    ('UCE', None)
    """
    if name in names(kind):
        return load(kind, name)
    own = [key for key in sys.modules if key.rpartition("_")[0] == f"truesigma_plugin_{name}"]
    return sys.modules[own[-1]] if own else None


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
    module = load(kind, name)
    known = options(kind, module)
    hints = typing.get_type_hints(getattr(module, _folder(kind)[1]))
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"{name} has no option {key!r}; expected one of {', '.join(known) or 'none'}.")
        default = known[key].default  # says the type where the plug-in does not
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
