"""verify: whether results still follow from their files."""

from pathlib import Path
from typing import Annotated

import typer

from ._options import Json, Plugins
from ._output import check_output, deliver


def verify(
    path: Annotated[
        Path,
        typer.Argument(metavar="FOLDER|FILE", help="A folder of run or train, a card, scores, an .onnx."),
    ],
    plugin: Plugins = None,
    json: Json = None,
) -> None:
    """Compute results again from their files; exit 2 if one does not follow."""
    from ..project.verify import verify as look

    check_output(json, path)
    checks = look(path, code=plugin or ())
    wrong = [check for check in checks if check.holds is False]
    summary = f"{len(checks)} statements, {len(wrong)} of them do not follow from the files"
    result = {"path": str(path), "follows": not wrong, "checks": [vars(check) for check in checks]}
    deliver("\n".join([*(check.line() for check in checks), summary]), result, json)
    if wrong:
        raise typer.Exit(2)
