"""Output of commands: tables to stdout, notices and progress to stderr; JSON, if asked for, alone on stdout."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ..evaluation.text import TextTable

QUIET = ContextVar("QUIET", default=False)  # whether --quiet was given
EVERY = 5.0  # seconds between lines of progress


def say(text: str) -> None:
    """Print a notice, on stderr."""
    if not QUIET.get():
        sys.stderr.write(printable(text) + "\n")


def sayer() -> Callable[[str], None] | None:
    """Return `say`, or None if --quiet was given, which Python functions take for silence."""
    return None if QUIET.get() else say


def deliver(shown: "TextTable | str", result: Mapping[str, Any], json: str | None) -> None:
    """Print the result for people, and write it as JSON: to a file, or with `-` alone to stdout.

    The file goes first, so that a closed pipe (`| head`) cannot lose it.
    """
    from ..files.disk import json_text, write_json

    if json is not None and json != "-":
        write_json(result, json, seal=True)
    if not QUIET.get():
        stream = sys.stderr if json == "-" else sys.stdout
        if isinstance(shown, str):
            stream.write(printable(shown) + "\n")
        else:
            from ..evaluation.text import print_table

            rows = tuple(tuple(map(printable, row)) for row in shown.rows)
            head = tuple(map(printable, shown.head))
            print_table(replace(shown, title=printable(shown.title), head=head, rows=rows), stream)
    if json == "-":
        sys.stdout.write(json_text(result) + "\n")


def printable(text: str) -> str:
    """Escape control characters, which names of files and cases from elsewhere may hold to command a terminal.

    >>> printable("id \\x1b[2J of\\n2 cases")
    'id \\\\x1b[2J of\\n2 cases'
    """
    plain = (
        c if c.isprintable() or c in "\n\t\N{NO-BREAK SPACE}" else c.encode("unicode_escape").decode()
        for c in text
    )
    return text if text.isprintable() else "".join(plain)


def check_output(target: str | Path | None, *inputs: Path | None, endings: tuple[str, ...] = ()) -> None:
    """Refuse a file that cannot be written, or that would replace an input, before the work begins.

    None and `-`, which is stdout, are always fine.
    """
    from ..files.disk import BadFile, check_folder

    if target is None or target == "-":
        return
    resolved = check_folder(target)
    for path in inputs:
        if path is not None and path.exists() and resolved.exists() and resolved.samefile(path):
            raise BadFile(
                f"{target} is read by this command and would be overwritten; write to another file."
            )
    if endings and Path(target).suffix.lower() not in endings:
        raise BadFile(f"{target} should end in {' or '.join(endings)}.")


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say that the same command resumes the work inside if Ctrl-C stops it; the exit code is 130."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped; the same command resumes what is in {folder}.")
        raise typer.Exit(130) from None


def ticker(total: int) -> Callable[[int], None]:
    """Make a function that counts cases and says now and then how many are done, and the time left."""
    return report("", total)


def report(words: str, total: int) -> Callable[[int], None]:
    """Make such a function for one of several passes, which goes by these words."""
    began = printed = time.monotonic()
    done = 0

    def count(cases: int) -> None:
        nonlocal done, printed
        done += cases
        now = time.monotonic()
        if now - printed >= EVERY and 0 < done < total:
            printed, left = now, (now - began) / done * (total - done)
            say(f"{words}{': ' if words else ''}{done} of {total} cases, {left:.0f} s left")

    return count
