"""The command line: a command is a function whose signature is its `--help`; it calls one function of the package.

Command files import only what is light; anything heavy (pyarrow, torch, matplotlib) is imported inside the function
that needs it, so that `--help` stays quick.
"""

import io
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ._options import join_files
from ._output import QUIET, printable
from .apply import apply
from .compare import compare
from .demo import demo
from .evaluate import calibrate, evaluate
from .export import export
from .figure import figure
from .init import init
from .listing import list_plugins
from .predict import predict
from .report import report
from .run import run
from .train import train
from .verify import verify

COMMANDS = (
    demo, evaluate, calibrate, apply, compare, report, figure, init, run, train, predict, export, verify,
)  # fmt: skip
ANYWHERE = ("--quiet", "--debug")  # options of the whole program, taken anywhere on the line
EXTRAS = {
    "torch": "train",
    "timm": "train",
    "lightning_fabric": "train",
    "safetensors": "train",
    "skimage": "train",
    "PIL": "train",
    "tifffile": "train",
    "matplotlib": "plot",
    "ray": "ray",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "nibabel": "medical",
    "pydicom": "medical",
}


def build() -> typer.Typer:
    """Build the program from its commands."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback()(_program)
    for command in COMMANDS:
        app.command(command.__name__)(command)
    app.command("list")(list_plugins)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program: exit code 0, 2 for bad input or usage, 1 for a bug."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters it cannot show appear by number
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    moved = [word for word in given if word in ANYWHERE]
    rest = [word for word in given if word not in ANYWHERE]
    with warnings.catch_warnings():
        if "--debug" not in moved:
            warnings.showwarning = _short_warnings(quiet="--quiet" in moved)
        try:
            build()(args=[*moved, *join_files(rest)], prog_name="truesigma")
        except Exception as problem:
            if "--debug" in moved:
                traceback.print_exc()
            message, code = explain(problem)
            sys.stderr.write(f"error: {printable(' '.join(message.split()))}\n")
            sys.exit(code)


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
        f"{type(problem).__name__}: {problem}. This is a bug in truesigma: please report it, with what --debug shows.",
        1,
    )


def _version(show: bool) -> None:
    if show:
        from .. import __version__

        typer.echo(f"truesigma {__version__}")
        raise typer.Exit


def _program(
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print errors only, and JSON where asked for.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Recalibrate and measure the predictive uncertainty of regression."""
    QUIET.set(quiet)


def _short_warnings(*, quiet: bool) -> Callable[..., None]:
    """Show each warning in one line, and the same words only once, since several stages of a run may raise them."""
    said: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = printable(" ".join(str(message).split()))
        if not quiet and text not in said:
            sys.stderr.write(f"warning: {text}\n")
        said.add(text)

    return show
