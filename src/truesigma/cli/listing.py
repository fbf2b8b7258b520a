"""list: what there is to choose from, with its options."""

from typing import Annotated

import typer

from ._options import Json, named_argument
from ._session import check_json


def register(app: typer.Typer) -> None:
    app.command("list")(list_plugins)


def list_plugins(
    context: typer.Context,
    kind: Annotated[
        str | None, named_argument("kinds", "recalibrate, metrics, diagrams, datasets, backbones, recipes.")
    ] = None,
    json: Json = None,
) -> None:
    """List recalibrations, metrics and so on; of one kind with their options."""
    from ..evaluation.catalogue import KINDS, catalogue

    check_json(json)
    found = {name: catalogue(name) for name in ((kind,) if kind else KINDS)}
    lines = []
    for name, entries in found.items():
        lines += [name, *(f"  {entry.name:<20} {entry.help}" for entry in entries)] if kind is None else []
        for entry in entries if kind else []:
            lines.append(f"{entry.name}: {entry.help}")
            lines += [f"  {entry.name}:{o.name}={o.default}\n      {o.help}" for o in entry.options]
    if kind is None:
        lines.append("options: truesigma list KIND, such as recalibrate")
    result = {
        name: [{"name": e.name, "help": e.help, "options": [vars(o) for o in e.options]} for e in entries]
        for name, entries in found.items()
    }
    context.obj.deliver("\n".join(lines), result, json)
