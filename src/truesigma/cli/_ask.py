"""The questions of init, on a terminal: each with what was found as its answer, so that Enter is enough."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ..project.propose import Wishes
    from ..project.survey import Survey


def ask(question: str, default: str = "") -> str:
    """Ask for an answer in words; Enter takes the default."""
    given = typer.prompt(question, default=default, show_default=bool(default), err=True)
    return str(given).strip()


def folder() -> Path:
    """Ask where the images are."""
    while True:
        answer = Path(ask("Folder of the images", ".")).expanduser()
        if answer.is_dir():
            return answer
        typer.echo(f"there is no folder {answer}", err=True)


def table() -> Path | None:
    """Ask where the table is; None: to be looked for."""
    while True:
        answer = ask("Their csv table (Enter: the only one there)")
        if not answer:
            return None
        path = Path(answer).expanduser()
        if path.is_file():
            return path
        typer.echo(f"there is no file {path}", err=True)


def wishes(seen: "Survey", given: "Wishes") -> "Wishes":
    """Ask for what cannot be proposed and was not given: targets, their units, and who belongs together."""
    from ..project.propose import target_names
    from ..project.scale import unit_in

    while not given.target or not set(given.target) <= set(seen.header):
        some = seen.candidates[0] if seen.candidates else ""
        answer = ask(f"Columns to predict, of {', '.join(seen.candidates)}", some)
        given = replace(given, target=target_names([answer]))
    if not given.unit:
        units = tuple(ask(f"Unit of {name} (Enter: none)", unit_in(name)) for name in given.target)
        given = replace(given, unit=units)
    if given.patient is None:
        question = "Column of the patient, never in two splits (none: every image alone)"
        answer = ask(question, seen.patient or "none")
        while answer not in ("none", *seen.header):
            typer.echo(f"there is no column {answer}; there are {', '.join(seen.header)}", err=True)
            answer = ask(question, seen.patient or "none")
        given = replace(given, patient="" if answer == "none" else answer)
    return given
