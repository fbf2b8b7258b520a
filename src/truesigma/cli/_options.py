"""Options that several commands share, each written once, and how their texts are read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

SETS = ("--calibration", "--test")
SEVERAL = {  # options that take several files, by command
    **dict.fromkeys(("evaluate", "calibrate", "compare", "report"), SETS),
    "predict": ("--images",),
}
EMPTY = "empty"
NEXT = "\0"  # between the files of one argument: it is in no file's name


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Make the function that completes names of a kind after TAB, and the last item of a comma list.

    >>> names_of("recalibrate")("none,si"), names_of("recipes")("p"), names_of("kinds")("me")
    (['none,sigma', 'none,sigma_by_group', 'none,sigma_by_output'], ['paper'], ['metrics'])
    """

    def offer(incomplete: str) -> list[str]:
        from ..core.plugins import FOLDERS, names
        from ..evaluation.recipe import recipe_names

        known = (
            [*FOLDERS, "recipes"] if kind == "kinds" else recipe_names() if kind == "recipes" else names(kind)
        )
        head, comma, last = incomplete.rpartition(",")
        return [f"{head}{comma}{name}" for name in known if name.startswith(last)]

    return offer


Json = Annotated[str | None, Option("--json", metavar="FILE", help="Write the result as JSON; - for stdout.")]
CalibrationFiles = Annotated[
    list[str],
    Option(
        "--calibration",
        metavar="FILES",
        help="Cases to fit on: .npz, .csv, .parquet, .npy, NIfTI; several, a glob, or a manifest.",
    ),
]
Like = Annotated[Path | None, Option(metavar="FILE", help="Weight cases to resemble these of a new site.")]
Column = Annotated[
    list[str] | None, Option(metavar="ROLE=NAME", help="Columns by role: target=age, weight=none; repeat it.")
]
Missing = Annotated[
    list[str] | None, Option(metavar="empty|NUMBER", help="Leave out cases with this target; repeat it.")
]
Unit = Annotated[str, Option(help="Unit of the targets, such as mm, if files do not say it.")]
Law = Annotated[str | None, Option(help="Law, normal or laplace, if files do not say it.")]
Recalibrations = Annotated[
    str,
    Option(autocompletion=names_of("recalibrate"), help="Comma list, such as none,sigma:part=aleatoric,aux."),
]
Recipe = Annotated[
    str, Option(autocompletion=names_of("recipes"), help="exact, own, paper, code, or a TOML file.")
]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="TABLE.KEY=VALUE", help="A recipe's setting, see above; repeat it."),
]
Levels = Annotated[str | None, Option("--level", help="Levels of intervals, as 0.5,0.9. [default: 0.9]")]
Card = Annotated[Path | None, Option("--card", metavar="FILE", help="Recalibrate with this card.")]
Draws = Annotated[int | None, Option(help="Draws per case. [default: the card's, or recipe's]")]
Seed = Annotated[int | None, Option(help="Seed of dropout masks. [default: the card's, or 0]")]
Deterministic = Annotated[bool, Option("--deterministic", help="Predict in one pass, without dropout.")]
Plugins = Annotated[
    list[Path] | None, Option("--plugin", metavar="FILE.py", help="Python file that runs may use; repeat it.")
]
Device = Annotated[str, Option(help="auto, cpu, cuda, cuda:NUMBER or mps.")]
TimeLimit = Annotated[str | None, Option(help="Stop after 90, 30m or 8h; run again to resume.")]


def join_files(arguments: Sequence[str]) -> list[str]:
    """Join the files after an option that takes several into one argument.

    >>> join_files(["evaluate", "--test", "a.npz", "b.npz", "--recipe", "paper"])
    ['evaluate', '--test', 'a.npz\\x00b.npz', '--recipe', 'paper']
    """
    joined: list[str] = []
    option = ""
    several = SEVERAL.get(next((word for word in arguments if not word.startswith("-")), ""), ())
    for argument in arguments:
        if argument.startswith("-"):
            option = argument.partition("=")[0]
        elif option in several and joined[-1] != option:
            joined[-1] += NEXT + argument
            continue
        joined.append(argument)
    return joined


def paths_of(texts: Sequence[str] | None) -> list[Path]:
    """Split the files that `join_files` has joined."""
    return [Path(line) for text in texts or [] for line in text.split(NEXT)]


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


def split_levels(text: str) -> list[float]:
    """Read the levels of intervals.

    >>> split_levels("0.5,0.9")
    [0.5, 0.9]
    """
    from ..core.checks import check_level

    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"level is {text!r}; expected numbers such as 0.5,0.9.") from None
    for level in levels:
        check_level(level)
    return list(dict.fromkeys(levels))


def split_pair(flag: str, text: str, example: str) -> tuple[str, str]:
    """Split `name=value`.

    >>> split_pair("--column", "target=age", "target=age")
    ('target', 'age')
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{flag} {text!r} has no value; expected something like {example}.")
    return name.strip(), value.strip()


def columns_of(texts: Sequence[str] | None) -> dict[str, Any]:
    """Read the roles of columns, as Python's `columns`; `none` means that no column has the role.

    >>> columns_of(["weight=none", "group=site", "group=sex"])
    {'weight': None, 'group': ['site', 'sex']}
    """
    from ..files.roles import role_of

    columns: dict[str, Any] = {}
    for text in texts or []:
        role, name = split_pair("--column", text, "target=age")
        role = role_of(role)
        if role == "group":
            columns["group"] = [*columns.get("group", []), *([] if name == "none" else [name])]
        else:
            columns[role] = None if name == "none" else name
    return columns


def reading(column: Sequence[str] | None, missing: Sequence[str] | None, law: str | None) -> dict[str, Any]:
    """Collect the options for reading files, by their names in Python.

    >>> reading(["target=age"], ["empty", "-999"], None)
    {'law': None, 'columns': {'target': 'age'}, 'mask_missing': True, 'missing': -999.0}
    """
    codes = [text for text in missing or [] if text != EMPTY]
    if len(codes) > 1:
        raise ValueError(f"--missing names the numbers {', '.join(codes)}; expected at most one.")
    try:
        code = float(codes[0]) if codes else None
    except ValueError:
        raise ValueError(f"--missing is {codes[0]!r}; expected {EMPTY}, or a number such as -999.") from None
    given = {"law": law, "columns": columns_of(column), "mask_missing": EMPTY in (missing or [])}
    return {**given, "missing": code}


def numbers(flag: str, text: str) -> dict[str, float]:
    """Read numbers by their names.

    >>> numbers("--refer", "tolerance=10,risk=0.05")
    {'tolerance': 10.0, 'risk': 0.05}
    """
    example = "tolerance=10,risk=0.05"
    try:
        return {
            name: float(value) for name, value in (split_pair(flag, one, example) for one in text.split(","))
        }
    except ValueError:
        raise ValueError(f"{flag} is {text!r}; expected numbers, as {example}.") from None


def seconds(text: str | None) -> float | None:
    """Read a time limit, in seconds; None for none.

    >>> seconds("90"), seconds("1.5h")
    (90.0, 5400.0)
    """
    if text is None:
        return None
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        value = float(number) * unit
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ValueError(
            f"time limit is {text!r}; expected seconds, or a number with s, m or h, such as 30m."
        )
    return value
