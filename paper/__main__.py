"""The tables, figures and claims of the paper, from committed results; and new results for it.

Run it from a checkout: `python -m paper all`, `python -m paper table1`, `python -m paper run NAME --data DIR`.
"""

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import Paper, open_paper
from .drawing import find_figure
from .pages.markdown import missing_lines, run_lines
from .rows import planned_names, read_table, rows
from .text import table_text
from .training import run_missing, run_planned
from .write import draw_one, status_rows, write_all

HERE = Path(__file__).parent
Shown = tuple[str, dict[str, Any]]  # what a person reads, and what --json writes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 2 for bad input."""
    asked = parser().parse_args(arguments)
    warnings.showwarning = show_warning
    try:
        text, result = asked.command(asked)
    except (ValueError, OSError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 2
    if asked.json not in (None, "-"):
        Path(asked.json).write_text(json_text(result), encoding="utf-8")
    if not asked.quiet:
        print(text, file=sys.stderr if asked.json == "-" else sys.stdout)
    if asked.json == "-":
        print(json_text(result), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    every = argparse.ArgumentParser(add_help=False)
    every.add_argument(
        "--root", type=Path, default=HERE, metavar="DIR", help="the folder that describes the paper"
    )
    every.add_argument("--json", metavar="FILE", help="write the result as JSON; - for stdout")
    every.add_argument("--quiet", action="store_true", help="print errors only, and JSON where asked for")
    time = argparse.ArgumentParser(add_help=False)
    time.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="where training keeps its state"
    )
    time.add_argument("--hours", type=float, metavar="N", help="time for training; another call resumes it")
    missing = argparse.ArgumentParser(add_help=False)
    missing.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of data sets: run first what is missing"
    )

    made = argparse.ArgumentParser(prog="python -m paper", description=(__doc__ or "").partition("\n")[0])
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[..., Shown], words: str, *parents: Any) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=words, description=words, parents=[every, *parents])
        one.set_defaults(command=command, name=name)
        return one

    beside = "ours, the paper's, the published logs'"
    add("table1", table, f"MSE, UCE and factor on the test sets: {beside}", missing, time)
    add("table2", table, f"negative log-likelihood on the test sets: {beside}", missing, time)
    one = add("figure", figure, "draw a figure as PDF and PNG, and give its numbers", missing, time)
    one.add_argument("number", metavar="N", help="1 to 23, C, tails or size")
    one.add_argument("--out", type=Path, metavar="DIR", help="where PDF and PNG go [default: ROOT/figures]")
    add("status", status, "what has been run, for how long, and what is missing")
    add("all", everything, "write every figure, RESULTS.md and DEVIATIONS.md", missing, time)
    one = add("run", run, "train an experiment, or resume it, and write its results", time)
    one.add_argument("experiment", metavar="NAME", help="of an experiment; `status` lists them")
    one.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the data set, or a folder of data sets"
    )
    one.add_argument("--other", type=Path, metavar="DIR", help="BreastPathQ, as severe shift of bone age")
    one.add_argument("--epochs", type=int, metavar="N", help="instead of what the plan says")
    one.add_argument("--device", default="auto", help="auto, cpu or cuda")
    one.add_argument("--precision", default="auto", help="auto, fp32 or bf16")
    return made


def table(asked: argparse.Namespace) -> Shown:
    """Show one of the paper's tables."""
    paper = open_paper(asked.root)
    chosen = read_table(paper.root, asked.name)
    paper = complete(paper, asked, names=planned_names(paper, chosen))
    numbers = rows(paper, chosen)
    texts = table_text(paper, chosen, numbers)
    shown = [chosen.title, chosen.caption]
    shown += [f"{paper.plan.data_sets[data_set]}\n{text}" for data_set, text in texts.items()]
    return "\n\n".join(shown), {"rows": [row.plain() for row in numbers]}


def figure(asked: argparse.Namespace) -> Shown:
    """Draw one figure."""
    paper = open_paper(asked.root)
    chosen = find_figure(paper.root, asked.number)
    paper = complete(paper, asked, names=chosen.runs)
    made = draw_one(paper, chosen, asked.out or paper.root / "figures")
    return made.text, {"rows": list(made.rows)}


def status(asked: argparse.Namespace) -> Shown:
    """Say what has been run."""
    paper = open_paper(asked.root)
    return f"{run_lines(paper)}\n\nNot run:\n{missing_lines(paper)}", {"rows": status_rows(paper)}


def everything(asked: argparse.Namespace) -> Shown:
    """Write all pages and figures."""
    paper = complete(open_paper(asked.root), asked)
    result = write_all(paper, teller(asked))
    return result["text"], {"rows": result["rows"], "claims": result["claims"]}


def run(asked: argparse.Namespace) -> Shown:
    """Train one experiment."""
    paper = open_paper(asked.root)
    trained = run_planned(
        paper, asked.experiment, asked.data, runs=asked.runs, other=asked.other, epochs=asked.epochs,
        seconds=seconds(asked.hours), device=asked.device, precision=asked.precision, quiet=asked.quiet,
    )  # fmt: skip
    found = [row for row in status_rows(open_paper(asked.root)) if row["run"] == asked.experiment]
    text = f"{asked.experiment}: {trained!r}; results in {paper.root / 'results' / asked.experiment}"
    return text, {"rows": found}


def complete(paper: Paper, asked: argparse.Namespace, **which: Any) -> Paper:
    """The folder, after running what can be run if the data is given; without data, the folder as it is."""
    left = seconds(asked.hours)
    if asked.data is None:
        return paper
    run_missing(paper, asked.data, teller(asked), seconds=left, runs=asked.runs, quiet=asked.quiet, **which)
    return open_paper(paper.root)


def seconds(hours: float | None) -> float | None:
    """The time for training."""
    if hours is None:
        return None
    if not 0 <= hours < math.inf:
        raise ValueError(f"--hours is {hours:g}; expected a number of 0 or more.")
    return 3600 * hours


def teller(asked: argparse.Namespace) -> Callable[[str], None]:
    """What prints a notice on stderr, or says nothing."""

    def say(text: str) -> None:
        if not asked.quiet:
            sys.stderr.write(f"{text}\n")

    return say


def json_text(result: dict[str, Any]) -> str:
    """The result as JSON."""
    return json.dumps(result, indent=1, allow_nan=False) + "\n"


def show_warning(message: Any, *_: Any, **__: Any) -> None:
    """One line for a warning."""
    sys.stderr.write(f"warning: {message}\n")


if __name__ == "__main__":
    sys.exit(main())
