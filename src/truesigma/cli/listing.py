"""list: what there is to choose from, with its options."""

from typing import Annotated

from typer import Argument

from ._options import Json, names_of
from ._output import check_output, deliver


def list_plugins(
    kind: Annotated[
        str | None,
        Argument(
            autocompletion=names_of("kinds"),
            help="recalibrate, metrics, diagrams, datasets, backbones, recipes.",
        ),
    ] = None,
    json: Json = None,
) -> None:
    """List recalibrations, metrics and so on; of one kind with their options."""
    from ..evaluation.catalogue import KINDS, catalogue

    check_output(json)
    entries = {name: catalogue(name) for name in ((kind,) if kind else KINDS)}
    lines = []
    for name, some in entries.items():
        if kind is None:
            lines += [name, *(f"  {entry.name:<20} {entry.help}" for entry in some)]
            continue
        for entry in some:
            lines.append(f"{entry.name}: {entry.help}")
            lines += [f"  {entry.name}:{o.name}={o.default}\n      {o.help}" for o in entry.options]
    if kind is None:
        lines.append("options: truesigma list KIND, such as recalibrate")
    result = {
        name: [{"name": e.name, "help": e.help, "options": [vars(o) for o in e.options]} for e in some]
        for name, some in entries.items()
    }
    deliver("\n".join(lines), result, json)
