"""paper: the tables, figures and claims of the paper, from committed results; and new results for it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import Json, as_one, flag
from ._session import check_json

if TYPE_CHECKING:
    from ..reproduce import Paper

Root = Annotated[Path, flag("--root", "The folder that describes the paper.", "DIR")]
Data = Annotated[Path | None, flag("--data", "Folder of data sets: run first what is missing.", "DIR")]
Runs = Annotated[Path, flag("--runs", "Where training keeps its state.", "DIR")]
Hours = Annotated[float | None, flag("--hours", "Time for training; another call resumes it.")]
HERE, RUNS = Path("paper"), Path("runs")


@dataclass(frozen=True)
class Place:
    """The folder of the paper, and what is run first if the data is given."""

    root: Root = HERE
    data: Data = None
    runs: Runs = RUNS
    hours: Hours = None

    def complete(self, context: typer.Context, paper: "Paper", **which: Any) -> "Paper":
        """The folder, after running what can be run if the data is given; without data, the folder as it is."""
        seconds = _seconds(self.hours)
        if self.data is None:
            return paper
        from ..reproduce import open_paper
        from ..reproduce.run import run_missing

        say, quiet = context.obj.say, context.obj.quiet
        run_missing(paper, self.data, say, seconds=seconds, runs=self.runs, quiet=quiet, **which)
        return open_paper(paper.root)


PLAIN = Place()
BESIDE = "ours, the paper's, the published logs'"  # what a table shows


def register(app: typer.Typer) -> None:
    commands = typer.Typer(
        no_args_is_help=True, help="Tables, figures and claims of the paper, from committed results."
    )
    named: dict[str, Any] = {
        "table1": table_command("table1", f"MSE, UCE and factor on the test sets: {BESIDE}."),
        "table2": table_command("table2", f"Negative log-likelihood on the test sets: {BESIDE}."),
        "figure": figure,
        "status": status,
        "all": everything,
        "run": run,
    }
    for name, command in named.items():
        commands.command(name)(as_one(command, "place", Place))
    app.add_typer(commands, name="paper")


def table_command(name: str, words: str) -> Callable[..., None]:
    """Make the command that shows a table of the paper; `words` are its help."""

    def command(context: typer.Context, place: Place = PLAIN, json: Json = None) -> None:
        from ..reproduce.tables import planned_names, read_table, rows
        from ..reproduce.text import table_text

        paper = _open(place.root, json)
        table = read_table(paper.root, name)
        paper = place.complete(context, paper, names=planned_names(paper, table))
        numbers = rows(paper, table)
        texts = table_text(paper, table, numbers)
        shown = [table.title, table.caption]
        shown += [f"{paper.plan.data_sets[data_set]}\n{text}" for data_set, text in texts.items()]
        context.obj.deliver("\n\n".join(shown), {"rows": [row.plain() for row in numbers]}, json)

    command.__doc__ = words
    return command


def figure(
    context: typer.Context,
    number: Annotated[str, typer.Argument(metavar="N", help="1 to 23, C, tails or size.")],
    out: Annotated[Path | None, flag("--out", "Where PDF and PNG go. [default: ROOT/figures]", "DIR")] = None,
    place: Place = PLAIN,
    json: Json = None,
) -> None:
    """Draw a figure as PDF and PNG, and give its numbers."""
    from ..reproduce.figures import find_figure
    from ..reproduce.write import draw_one

    paper = _open(place.root, json)
    spec = find_figure(paper.root, number)
    paper = place.complete(context, paper, names=spec.runs)
    made = draw_one(paper, spec, paper.root / "figures" if out is None else out)
    context.obj.deliver(made.text, {"rows": list(made.rows)}, json)


def status(context: typer.Context, root: Root = HERE, json: Json = None) -> None:
    """What has been run, for how long, and what is missing."""
    from ..reproduce.pages.markdown import missing_lines, run_lines
    from ..reproduce.write import status_rows

    paper = _open(root, json)
    text = f"{run_lines(paper)}\n\nNot run:\n{missing_lines(paper)}"
    context.obj.deliver(text, {"rows": status_rows(paper)}, json)


def everything(
    context: typer.Context,
    place: Place = PLAIN,
    engine: Annotated[str, flag("--engine", "local, or ray: run what is missing there.")] = "local",
    address: Annotated[str | None, flag("--address", "Of the Ray cluster.")] = None,
    gpus: Annotated[float, flag("--gpus", "Of each run on the cluster, as 0.5.")] = 0.0,
    json: Json = None,
) -> None:
    """Write every figure, RESULTS.md and DEVIATIONS.md."""
    from ..reproduce.write import write_all

    where: dict[str, Any] = {"engine": engine, "address": address, "gpus": gpus}
    paper = place.complete(context, _open(place.root, json), **where)
    result = write_all(paper, context.obj.say)
    context.obj.deliver(result["text"], {"rows": result["rows"], "claims": result["claims"]}, json)


def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Of an experiment; `truesigma paper status` lists them.")],
    data: Annotated[Path, flag("--data", "The data set, or a folder of data sets.", "DIR")],
    root: Root = HERE,
    runs: Runs = RUNS,
    other: Annotated[Path | None, flag("--other", "BreastPathQ, as severe shift of bone age.", "DIR")] = None,
    epochs: Annotated[int | None, flag("--epochs", "Instead of what the plan says.")] = None,
    hours: Hours = None,
    device: Annotated[str, flag("--device", "auto, cpu or cuda.")] = "auto",
    precision: Annotated[str, flag("--precision", "auto, fp32 or bf16.")] = "auto",
    json: Json = None,
) -> None:
    """Train an experiment, or resume it, and write its results."""
    from ..reproduce import open_paper
    from ..reproduce.run import run_planned
    from ..reproduce.write import status_rows

    paper = _open(root, json)
    options: dict[str, Any] = {
        "runs": runs,
        "other": other,
        "epochs": epochs,
        "device": device,
        "precision": precision,
    }
    trained = run_planned(paper, name, data, seconds=_seconds(hours), quiet=context.obj.quiet, **options)
    rows = [row for row in status_rows(open_paper(root)) if row["run"] == name]
    context.obj.deliver(
        f"{name}: {trained!r}; results in {paper.root / 'results' / name}", {"rows": rows}, json
    )


def _open(root: Path, json: str | None) -> "Paper":
    from ..reproduce import open_paper

    check_json(json)
    return open_paper(root)


def _seconds(hours: float | None) -> float | None:
    if hours is not None and not 0 <= hours < float("inf"):
        raise ValueError(f"--hours is {hours:g}; expected a number of 0 or more.")
    return None if hours is None else 3600 * hours
