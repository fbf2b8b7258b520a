"""Where a command's words go: tables to stdout, notices to stderr, and JSON alone on stdout when asked for there."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..evaluation.text import TextTable


@dataclass(frozen=True)
class Session:
    """What the options of the whole program ask for; `context.obj` of every command."""

    quiet: bool = False

    def say(self, text: str) -> None:
        """Print a notice, on stderr."""
        if not self.quiet:
            sys.stderr.write(printable(text) + "\n")

    def deliver(self, shown: "TextTable | str", result: Mapping[str, Any], json: str | None) -> None:
        """Print what a person reads, and write the JSON: to a file, or with `-` alone to stdout.

        The file goes first, so that a closed pipe (`| head`) cannot lose it.
        """
        from ..files.disk import json_text, write_json

        if json is not None and json != "-":
            write_json(result, json, seal=True)
        if not self.quiet:
            stream = sys.stderr if json == "-" else sys.stdout
            if isinstance(shown, str):
                stream.write(printable(shown) + "\n")
            else:
                from ..evaluation.text import print_table

                rows = tuple(tuple(map(printable, row)) for row in shown.rows)
                shown = replace(
                    shown, title=printable(shown.title), head=tuple(map(printable, shown.head)), rows=rows
                )
                print_table(shown, stream)
        if json == "-":
            sys.stdout.write(json_text(result) + "\n")


def printable(text: str) -> str:
    """The text without what a terminal would obey, such as escapes in the names of strangers' files and cases.

    >>> printable("id \\x1b[2J of\\n2 cases")
    'id \\\\x1b[2J of\\n2 cases'
    """
    plain = (
        c if c.isprintable() or c in "\n\t\N{NO-BREAK SPACE}" else c.encode("unicode_escape").decode()
        for c in text
    )
    return text if text.isprintable() else "".join(plain)


def check_json(json: str | None, *inputs: Path) -> None:
    """Check the target of the option --json, where `-` is stdout."""
    if json is not None and json != "-":
        check_target(json, *inputs)


def check_card(out: Path, *inputs: Path) -> None:
    """Check the target of a recalibration's card."""
    check_target(out, *inputs)
    if out.suffix.lower() != ".json":
        raise ValueError(f"{out} should end in .json: a card is written as JSON.")


def check_page(out: Path, *inputs: Path) -> None:
    """Check the target of a report."""
    check_target(out, *inputs)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{out} should end in .html: a report is a page for the browser.")


def check_target(target: str | Path, *inputs: Path) -> None:
    """Refuse a file that cannot be written, or that would replace what is read, before the work begins."""
    from ..files.disk import BadFile, check_folder

    resolved = check_folder(target)
    for path in inputs:
        if path.exists() and resolved.exists() and resolved.samefile(path):
            raise BadFile(
                f"{target} is read by this command and would be overwritten; write to another file."
            )
