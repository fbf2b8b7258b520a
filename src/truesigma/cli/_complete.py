"""Options that name plug-ins or recipes: a shell offers the names after TAB, from folders that are not imported."""

from typing import Any

import typer


def named_option(flag: str, kind: str, help: str) -> Any:
    """Make a typer option whose value is a name of that kind, or a comma list of names."""
    return typer.Option(flag, help=help, autocompletion=lambda incomplete: offer(kind, incomplete))


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
