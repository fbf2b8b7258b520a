"""The questions of init, on a terminal: each with what was found as its answer, so that Enter is enough."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..project.propose import Wishes
    from ..project.survey import Survey


def ask(question: str, default: str = "", choices: list[str] | None = None) -> str:
    """Ask for an answer in words; Enter takes the default."""
    from rich.console import Console
    from rich.prompt import Prompt

    console: Any = Console(stderr=True)
    given = Prompt.ask(
        question, default=default, choices=choices, console=console, show_default=bool(default)
    )
    return str(given).strip()


def folder() -> Path:
    """Ask where the images are."""
    while True:
        answer = Path(ask("Folder of the images", ".")).expanduser()
        if answer.is_dir():
            return answer
        print_line(f"there is no folder {answer}")


def table() -> Path | None:
    """Ask where the table is; None: to be looked for."""
    while True:
        answer = ask("Their csv table (Enter: the only one there)")
        if not answer:
            return None
        path = Path(answer).expanduser()
        if path.is_file():
            return path
        print_line(f"there is no file {path}")


def wishes(seen: "Survey", given: "Wishes", out: Path, gpu: bool) -> "Wishes":
    """Ask for what was not given: targets, units, groups, size, backbone, epochs, and how to draw."""
    from ..project.propose import propose, target_names
    from ..project.scale import unit_in

    if not given.target:
        while not given.target or not set(given.target) <= set(seen.header):
            some = seen.candidates[0] if seen.candidates else ""
            answer = ask(f"Columns to predict, of {', '.join(seen.candidates)}", some)
            given = replace(given, target=target_names([answer]))
    if not given.unit:
        found = {name: unit_in(name) for name in given.target}
        asked = (ask(f"Unit of {name}" + " (Enter: none)" * (not unit), unit) for name, unit in found.items())
        given = replace(given, unit=tuple(asked))
    if given.group is None and given.patient is None:
        question = "Column of the patient, never in two splits (none: every image alone)"
        answer = ask(question, seen.group or "none")
        while answer not in ("none", *seen.header):
            print_line(f"there is no column {answer}; there are {', '.join(seen.header)}")
            answer = ask(question, seen.group or "none")
        given = replace(given, group="" if answer == "none" else answer)
    if given.split is None and seen.split:
        answer = ask(f"Use the splits that the column {seen.split} says", "y", ["y", "n"])
        given = replace(given, split=seen.split if answer == "y" else "")
    usual = propose(seen, given, out, gpu=gpu)
    if given.size is None:
        options = usual.project.options
        if "mm_per_pixel" in options:
            question = f"mm per pixel, 0 to squeeze images to one size ({usual.reasons['mm_per_pixel']})"
            answer = ask(question, str(options["mm_per_pixel"]))
            given = replace(given, mm_per_pixel=answer)
        reason = usual.reasons["size"] or "for the largest image"
        question = f"Pixels of every side, 0 as they are ({reason})"
        given = replace(
            given, size=ask(question, str(options["size"])), spacing=str(options.get("spacing", ""))
        )
    if given.backbone is None:
        reason = usual.reasons["backbone"]
        given = replace(given, backbone=ask(f"Backbone ({reason})", usual.project.network.backbone))
    if given.epochs is None:
        default = str(usual.project.train.epochs)
        given = replace(given, epochs=whole(f"Epochs ({usual.reasons['epochs']})", default))
    if not given.members:
        members = whole("Networks of an ensemble (0: one network with dropout)", "0")
        given = replace(given, members=0 if members < 2 else members)
    return given


def whole(question: str, default: str) -> int:
    """Ask for a whole number."""
    while True:
        answer = ask(question, default)
        if answer.isdigit():
            return int(answer)
        print_line(f"{answer!r} is not a whole number")


def print_line(text: str) -> None:
    """Print a word between the questions."""
    from rich.console import Console

    Console(stderr=True).print(text, markup=False)
