"""The command line: parses, calls one function, writes one artefact.

A file in this folder that has `register(app)` adds its commands. Command files import only what is light; anything
heavy (pyarrow, torch, matplotlib) is imported inside the function that needs it, so that `--help` stays quick.
"""

import importlib
import io
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ..files.npz import FLAG, VARIABLE
from ._filesets import join_files
from ._session import Session, printable

ANYWHERE = ("--quiet", "--debug")  # options of the whole program, taken anywhere on the line
EXTRAS = {
    "torch": "train",
    "timm": "train",
    "lightning_fabric": "train",
    "safetensors": "train",
    "skimage": "train",
    "PIL": "train",
    "matplotlib": "plot",
    "ray": "ray",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "nibabel": "medical",
    "pydicom": "medical",
}


def build() -> typer.Typer:
    """Build the program from the commands of every file in this folder."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback()(_program)
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        if hasattr(module, "register"):
            module.register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program: exit code 0, 2 for bad input or usage, 1 for a failure of our own."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters it cannot show appear by number
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    moved, rest = _taken_out(given[:end])
    given = [*moved, *join_files(rest), *given[end:]]
    with warnings.catch_warnings():
        if "--debug" not in moved:
            warnings.showwarning = _quiet_warning if "--quiet" in moved else _short_warnings()
        try:
            build()(args=given, prog_name="truesigma")
        except Exception as problem:
            if "--debug" in moved:
                traceback.print_exc()
            message, code = explain(problem)
            sys.stderr.write(f"error: {printable(' '.join(message.split()))}\n")
            sys.exit(code)


def _taken_out(given: list[str]) -> tuple[list[str], list[str]]:
    """The options of the whole program, wherever they are, and everything else."""
    moved, rest = [], []
    words = iter(given)
    for word in words:
        if word in ANYWHERE or word.startswith(f"{FLAG}="):
            moved.append(word)
        elif word == FLAG:
            moved += [word, *([value] if (value := next(words, None)) is not None else [])]
        else:
            rest.append(word)
    return moved, rest


def explain(problem: Exception) -> tuple[str, int]:
    """Explain an exception, and give the exit code.

    >>> explain(ValueError("level is 90; expected a number between 0 and 1."))
    ('level is 90; expected a number between 0 and 1.', 2)
    """
    if isinstance(problem, ModuleNotFoundError):
        missing = (problem.name or "").split(".")[0]
        if missing in EXTRAS:
            return f"this needs {missing}: pip install 'truesigma[{EXTRAS[missing]}]'.", 2
    from ..core.plugins import own_bug

    if where := own_bug(problem):
        return (
            f"{where}: {type(problem).__name__}: {problem}. This is a bug in that file, not in what it was given.",
            1,
        )
    if isinstance(problem, ValueError | OSError):
        return str(problem), 2
    return (
        f"{type(problem).__name__}: {problem}. This is a fault of ours, or of a plug-in file; --debug shows where.",
        1,
    )


def _version(show: bool) -> None:
    if show:
        from .. import __version__

        typer.echo(f"truesigma {__version__}")
        raise typer.Exit


def _program(
    context: typer.Context,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print errors only, and JSON where asked for.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    unpack_limit: Annotated[
        float | None,
        typer.Option(FLAG, metavar="GB", help="Of what a packed .npz may unpack to. [default: 1]"),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Recalibrate and measure the predictive uncertainty of regression."""
    context.obj = Session(quiet)
    if unpack_limit is not None:
        os.environ[VARIABLE] = str(unpack_limit)  # which the processes that read have, too


def _short_warnings() -> Callable[..., None]:
    """What shows a warning in one line, and the same words only once: several stages of a run may find them."""
    said: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = printable(" ".join(str(message).split()))
        if text not in said:
            sys.stderr.write(f"warning: {text}\n")
        said.add(text)

    return show


def _quiet_warning(*_: Any, **__: Any) -> None:
    return None
