"""Options that several commands share, each written once; what their texts mean, and what a shell offers after TAB."""

from collections.abc import Callable
from dataclasses import fields
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ._session import Session


def flag(name: str, help: str, metavar: str | None = None) -> Any:
    """Make a typer option: its name, as "--out" or "--out -o", the words of its help, and what its value is called."""
    return typer.Option(*name.split(), metavar=metavar, help=help)


def column(name: str, help: str) -> Any:
    """Make the same, whose value is the name of a column."""
    return flag(name, help, "COLUMN")


def named_option(name: str, kind: str, help: str) -> Any:
    """Make the same, whose value is a name of that kind, or a comma list of names."""
    return typer.Option(name, help=help, autocompletion=lambda incomplete: offer(kind, incomplete))


def named_argument(kind: str, help: str) -> Any:
    """Make the same as an argument without a flag."""
    return typer.Argument(help=help, autocompletion=lambda incomplete: offer(kind, incomplete))


def offer(kind: str, incomplete: str) -> list[str]:
    """List what may complete `incomplete`; in a comma list, its last item.

    >>> offer("recalibrate", "none,si"), offer("recipes", "p"), offer("kinds", "me")
    (['none,sigma'], ['paper'], ['metrics'])
    """
    from ..core.plugins import names
    from ..evaluation.catalogue import KINDS
    from ..evaluation.recipe import recipe_names

    known = KINDS if kind == "kinds" else recipe_names() if kind == "recipes" else names(kind)
    head, comma, last = incomplete.rpartition(",")
    return [f"{head}{comma}{name}" for name in known if name.startswith(last)]


def as_one(command: Callable[..., None], argument: str, kind: Any) -> Callable[..., None]:
    """Turn a command's argument that is a value into options, one for each field; other commands stay as they are."""
    if argument not in signature(command).parameters:
        return command
    options = fields(kind)

    def run(**given: Any) -> None:
        value = kind(**{one.name: given.pop(one.name) for one in options if one.name in given})
        command(**{argument: value}, **given)

    parameters: list[Parameter] = []
    for one in signature(command).parameters.values():
        if one.name == argument:
            made = ((o.name, o.default, o.type) for o in options)
            parameters += [Parameter(name, one.kind, default=d, annotation=t) for name, d, t in made]
        else:
            parameters.append(one)
    update_wrapper(run, command).__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}  # those of the signature hold
    return run


Json = Annotated[str | None, flag("--json", "Write the result as JSON; - for stdout.", "FILE")]
Calibration = Annotated[
    Path, flag("--calibration", "Cases to fit on: .npz, .csv or .parquet, with targets.", "FILE")
]
LawName = Annotated[str | None, flag("--law", "normal or laplace, for files that do not say it.")]
Part = Annotated[str, flag("--part", "total, or aleatoric: for each recalibration that takes it.")]
RecipeName = Annotated[str, named_option("--recipe", "recipes", "exact, own, paper, code, or a TOML file.")]
Recalibrations = Annotated[
    str,
    named_option(
        "--recalibrate", "recalibrate", "Comma list, with options as sigma:part=aleatoric,aux:hidden=4."
    ),
]
Masking = Annotated[bool, flag("--mask-missing", "Leave out cases whose target is empty.")]
Like = Annotated[
    Path | None,
    flag("--like", "Predictions of a new site, to which the cases are weighted to be alike.", "FILE"),
]
LocationColumn = Annotated[str | None, column("--location", "Column of the prediction. [default: location]")]
ScaleColumn = Annotated[str | None, column("--scale", "Column of sigma. [default: scale]")]
GroupColumns = Annotated[
    list[str] | None, column("--group", "Looked at apart, as site; several: --group again; or none.")
]
DatasetOptions = Annotated[
    list[str] | None, flag("--option", "Of the data set; `truesigma list datasets`.", "NAME=VALUE")
]
Device = Annotated[str, flag("--device", "auto, cpu, cuda, cuda:NUMBER or mps.")]
TimeLimit = Annotated[str | None, flag("--time-limit", "Such as 90, 30m or 8h; the same command resumes.")]


def split_choices(text: str) -> list[str]:
    """Split a comma list; an item with `=` and no `:` continues the options of the one before.

    >>> split_choices("none,aux:hidden=4,steps=500,sigma")
    ['none', 'aux:hidden=4,steps=500', 'sigma']
    """
    choices: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        if "=" not in item or ":" in item:
            choices.append(item)
        elif not choices:
            raise ValueError(
                f"{text!r} begins with the option {item!r}; expected a name first, as in sigma:{item}."
            )
        else:
            choices[-1] += ("," if ":" in choices[-1] else ":") + item
    if not choices:
        raise ValueError(f"{text!r} names nothing; expected a comma list such as none,sigma.")
    return list(dict.fromkeys(choices))


def with_part(choices: list[str], part: str) -> tuple[list[str], list[str]]:
    """Give `part` to each recalibration that takes it and has none; name those that do not take it.

    >>> with_part(["none", "sigma:part=total"], "aleatoric")
    (['none:part=aleatoric', 'sigma:part=total'], [])
    """
    from ..core import plugins
    from ..evaluation.catalogue import parse

    if part not in ("total", "aleatoric"):
        raise ValueError(f"part is {part!r}; expected total or aleatoric.")
    given, without = [], []
    for choice in choices:
        name, module, options = parse("recalibrate", choice)
        takes = "part" in plugins.options("recalibrate", module)
        if part != "total" and not takes:
            without.append(name)
        add = part != "total" and takes and "part" not in options
        given.append(choice + ("," if options else ":") + f"part={part}" if add else choice)
    return given, without


def recalibrations(session: Session, text: str, part: str) -> list[str]:
    """Split a comma list and give each choice its part, with a note for each that takes none."""
    choices, without = with_part(split_choices(text), part)
    for name in without:
        session.say(f"note: {name} has no option part and is fitted on the total.")
    return choices


def split_levels(texts: list[str]) -> list[float]:
    """Read levels from `--level 0.5,0.9 --level 0.99`.

    >>> split_levels(["0.5,0.9", "0.99"])
    [0.5, 0.9, 0.99]
    """
    from ..core.checks import check_level

    levels = []
    for text in ",".join(texts).split(","):
        try:
            levels.append(float(text))
        except ValueError:
            raise ValueError(f"level is {text!r}; expected numbers such as 0.5,0.9.") from None
        check_level(levels[-1])
    return list(dict.fromkeys(levels))


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Read options given as `name=value`.

    >>> pairs(["size=64", "csv=a=b.csv"])
    {'size': '64', 'csv': 'a=b.csv'}
    """
    options: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--option {text!r} has no value; expected name=value, such as size=64.")
        options[name.strip()] = value
    return options


def numbers(flag: str, text: str) -> dict[str, float]:
    """Read numbers by their names, as `tolerance=10,risk=0.05`.

    >>> numbers("--refer", "tolerance=10,risk=0.05")
    {'tolerance': 10.0, 'risk': 0.05}
    """
    try:
        found = {
            name.strip(): float(value) for name, _, value in (one.partition("=") for one in text.split(","))
        }
    except ValueError:
        raise ValueError(
            f"{flag} {text!r} is not understood; expected numbers, as tolerance=10,risk=0.05."
        ) from None
    return found


def seconds(text: str) -> float:
    """Read a time limit, in seconds.

    >>> seconds("90"), seconds("1.5h")
    (90.0, 5400.0)
    """
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, times = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        value = float(number) * times
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ValueError(
            f"time limit is {text!r}; expected seconds, or a number with s, m or h, such as 30m."
        )
    return value
