"""A plug-in is a file in a folder: the folder is the registry, the file's name is the plug-in's name.

The path of your own file (`./mine.py`) works wherever a name does. Options are the keyword arguments of the
plug-in's main function that have a plain default; a choice is a name, or a name with options: `name:option=value`.
"""

import difflib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import Refusal

OWN = "truesigma_plugin_"  # begins the name of each module that was loaded by its path
FOLDERS = {
    "recalibrate": ("truesigma.recalibrate", "fit"),
    "metrics": ("truesigma.metrics", "score"),
    "diagrams": ("truesigma.diagrams", "table"),
    "datasets": ("truesigma.imaging.datasets", "load"),
    "backbones": ("truesigma.imaging.backbones", "build"),
    "sigmas": ("truesigma.imaging.sigmas", "fit"),
}


class NotGiven(Refusal):
    """A file names code of its own, which the user has not given himself."""


# What a file says of itself in constants, and what is taken of one that leaves them out: callers ask with `said`.
# Nobody else may ask for a plug-in's name, so that a file of one's own gets whatever these get.
SAID: dict[str, Any] = {
    "TITLE": "",  # in words, for tables and figures; "" where its name will do
    "BY_NAME": False,  # it is left out where all are asked for, and taken where it is named
    # Recalibrations. What the cases must have, see `needs`: "groups", "outputs" (more than one), "split" (aleatoric and
    # epistemic), "bounds", "folds", or "draws", a prediction of each of several models.
    "NEEDS": (),
    "REFERENCE": False,  # it leaves the predictions as they are: the others are compared with it
    "REMEDY": False,  # it is quick, and worth a try on any cases that have what it needs
    # Sigmas of a trained network.
    "CROSS_FIT": False,  # it learns so much from the held cases that these are predicted by folds
    # Metrics.
    "BETTER": "lower",  # or "higher", or "nominal"
    "UNITS": 0,  # the power of the target's unit: 0, 1, 2, "volume" or "log"
    "PROPER": False,  # no prediction scores better than the truth, so that recalibrations may be chosen by it
    "TIMES": 1,  # what tables multiply it by
    "OF_SIZE": False,  # it judges the size of sigma, whatever the law of the errors is
    "BOTH_ERRORS": False,  # its two kinds of error differ, so that tables show both
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
    """Make the `__getattr__` and `__dir__` of a folder, so that plug-ins are loaded when they are first used."""

    def find(name: str) -> ModuleType:
        if name not in names(kind):
            raise AttributeError(f"module {_folder(kind)[0]!r} has no attribute {name!r}")
        return load(kind, name)

    return find, functools.partial(names, kind)


def usual(kind: str) -> list[str]:
    """Names of the plug-ins that `all` means; one that says `BY_NAME` is taken only when it is named.

    >>> sorted(set(names("metrics")) - set(usual("metrics")))
    ['energy', 'joint_coverage', 'pinball', 'quantile_score', 'skce', 'variogram', 'volume']
    """
    return [name for name in names(kind) if not said(load(kind, name), "BY_NAME")]


def said(module: ModuleType, word: str) -> Any:
    """Read what a plug-in declares about itself, or the default in `SAID`.

    >>> said(load("metrics", "uce"), "BETTER"), said(load("recalibrate", "sigma"), "NEEDS")
    ('lower', ())
    """
    return getattr(module, word, SAID[word])


def needs(module: ModuleType, options: Mapping[str, Any]) -> set[str]:
    """List what a recalibration with these options needs of the cases; "groups:by=group" holds for that option alone.

    >>> needs(load("recalibrate", "conformal"), {"by": "group"}), needs(load("recalibrate", "conformal"), {"by": "all"})
    ({'groups'}, set())
    """
    needed = set()
    for need in said(module, "NEEDS"):
        what, _, condition = need.partition(":")
        option, _, value = condition.partition("=")
        if not condition or str(options.get(option)) == value:
            needed.add(what)
    return needed


def load(kind: str, name: str) -> ModuleType:
    """Load a plug-in's module, by its name or by the path of its file.

    >>> load("metrics", "uce").BETTER
    'lower'
    """
    package, function = _folder(kind)
    if name.endswith(".py"):
        return _load_file(Path(name), function)
    there = sys.modules.get(f"{package}.{name}")  # a tally asks for every metric at every batch
    if there is not None and not getattr(
        there.__spec__, "_initializing", False
    ):  # nor is another thread at it
        return there
    if name not in names(kind):
        raise Refusal(
            f"no {kind} plug-in is called {name!r}; expected one of {', '.join(names(kind))}, or a .py file."
        )
    return importlib.import_module(f"{package}.{name}")


def given(choice: str, files: Iterable[str | Path], where: str | Path) -> str:
    """Take a choice that was read from a file; Python in it is the user's own file of that name, never the one named.

    Data must not choose the code that runs; so anybody's folder can be opened.

    Args:
        choice: a plug-in as a file names it, perhaps with options.
        files: Python files that the user has given.
        where: the file that the choice was read from.

    >>> given("small:width=8", [], "run/recipe.json"), given("/elsewhere/net.py:width=8", ["net.py"], "run/recipe.json")
    ('small:width=8', 'net.py:width=8')
    """
    path, code, options = choice.rpartition(".py")
    if not code:
        return choice
    for file in files:
        if Path(file).name == Path(path + code).name:
            return f"{file}{options}"
    raise NotGiven(
        f"{where} names the Python file {path}{code}, and what a file names is not executed. Read it and, if you trust "
        f"it, give it yourself: --plugin {path}{code}, or code=[...] in Python."
    )


def _folder(kind: str) -> tuple[str, str]:
    if kind not in FOLDERS:
        raise Refusal(f"kind is {kind!r}; expected one of {', '.join(FOLDERS)}.")
    return FOLDERS[kind]


def _load_file(path: Path, function: str) -> ModuleType:
    """The module of a file, which is executed once, and again only when its text has changed."""
    if not path.is_file():
        raise Refusal(f"there is no plug-in file {path}; expected a Python file that defines {function}().")
    mark = hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"{OWN}{path.stem}_{mark}"  # as two files of one stem have different names
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as problem:
            del sys.modules[name]
            raise Refusal(
                f"{path} cannot be loaded ({type(problem).__name__}: {problem}); correct it, or install what it needs."
            ) from problem
    if not hasattr(sys.modules[name], function):
        raise Refusal(f"{path} defines no {function}(); docs/adding.md shows a skeleton to start from.")
    return sys.modules[name]


def own_bug(problem: BaseException) -> str | None:
    """Locate a bug in a user's plug-in file, as "FILE, line 3"; None if it refused its input or had no part in it.

    A refusal is a `Refusal`; any other error that comes out of such a file is a bug of that file.
    """
    if isinstance(problem, Refusal):
        return None
    places = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(problem.__traceback__)
        if frame.f_globals.get("__name__", "").startswith(OWN)
    ]
    return places[-1] if places else None


def options(kind: str, module: ModuleType) -> dict[str, inspect.Parameter]:
    """The options of a plug-in: keyword-only arguments with a plain default."""
    named = keywords(getattr(module, _folder(kind)[1]))
    return {name: one for name, one in named.items() if is_option(kind, name)}


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
    """Keep those of the given options that the function takes as keywords."""
    return {name: given[name] for name in keywords(function) if name in given}


@functools.lru_cache(maxsize=256)
def keywords(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The arguments that a function takes by name only."""
    parameters = inspect.signature(function).parameters
    return {name: one for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}


def help_of(kind: str, module: ModuleType) -> str:
    """A plug-in's line of help: the first line of its main function's docstring, or of the file's.

    >>> help_of("metrics", load("metrics", "mae"))
    "Mean absolute error of the location, in the target's unit."
    """
    text = inspect.getdoc(getattr(module, _folder(kind)[1])) or module.__doc__ or ""
    return text.strip().partition("\n")[0]


def nearest(key: str, known: Collection[str]) -> str:
    """Name the known key that is most like another one, or all of them.

    >>> nearest("bathc", ["batch", "epochs"]), nearest("x", ["batch", "epochs"])
    ("did you mean 'batch'?", 'expected one of batch, epochs')
    """
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known) or 'none'}"


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
    taken = options(kind, module)
    hints = typing.get_type_hints(getattr(module, FOLDERS[kind][1]))
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
    """Find the plug-in of that name, or the user's file of that name that was loaded last; None if there is none.

    >>> known("metrics", "uce").TITLE, known("metrics", "unheard of")
    ('UCE', None)
    """
    if name in names(kind):
        return load(kind, name)
    own = [key for key in sys.modules if key.rpartition("_")[0] == f"truesigma_plugin_{name}"]
    return sys.modules[own[-1]] if own else None


def address(module: ModuleType) -> str:
    """Return what `plugins.load` takes to load this module: the plug-in's name, or the path of its file.

    >>> address(load("metrics", "uce"))
    'uce'
    """
    package, _, name = module.__name__.rpartition(".")
    return name if package in {folder for folder, _ in FOLDERS.values()} else str(module.__file__)
