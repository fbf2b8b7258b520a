"""verify: whether results still follow from their files."""

from pathlib import Path
from typing import Annotated

import typer

from ._options import Json
from ._session import Session, check_json


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(metavar="FOLDER|FILE", help="Of run or train; a card, scores, a report, an .onnx."),
    ],
    json: Json = None,
) -> None:
    """Compute results again from their files; exit 2 if one does not follow."""
    from ..project.verify import verify as look

    session: Session = context.obj
    check_json(json, path)
    found = look(path)
    wrong = [check for check in found if check.holds is False]
    summary = f"{len(found)} statements, {len(wrong)} of them do not follow from the files"
    result = {"path": str(path), "follows": not wrong, "checks": [vars(check) for check in found]}
    session.deliver("\n".join([*(check.line() for check in found), summary]), result, json)
    if wrong:
        raise typer.Exit(2)
