"""Write what the folder shows: figures, scores beside the draws, RESULTS.md and DEVIATIONS.md."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truesigma.diagrams import save

from .claims import judge_all
from .drawing import Figure, NotRun, draw_figure, lacking, number, read_figures
from .pages.deviations import deviations_text
from .pages.markdown import results_text
from .paper import Paper
from .plan import Planned
from .rows import read_table, rows
from .text import grid

RECIPES = ("paper", "exact")
# What tells numbers of a figure apart.
TELLS = ("level", "split", "epoch", "hidden", "cases", "truth", "epistemic", "draws")
NAMES = ("run", "recipe", "part", "recalibration", "metric")


@dataclass(frozen=True, eq=False)
class Made:
    """A figure on disk: what to print about it, and its numbers."""

    text: str
    rows: tuple[dict[str, Any], ...]
    files: tuple[Path, ...]


def draw_one(paper: Paper, figure: Figure, folder: Path) -> Made:
    """Draw one figure into a folder, as PDF and PNG; where nothing of it has been run, say so."""
    head = f"Figure {figure.id}: {figure.title}\n{figure.caption}"
    missing = lacking(paper, figure)
    try:
        drawn = draw_figure(paper, figure)
    except NotRun as problem:
        reasons = {name: missing.get(name, str(problem)) for name in figure.runs}
        return Made(f"{head}\nNot drawn: {problem}", _without(paper, figure, reasons), ())
    files = save(drawn.figure, folder / figure.stem)
    lines = [head, *(f"Not in it: {name} ({reason})" for name, reason in drawn.missing.items())]
    if drawn.rows:
        lines.append(_numbers(drawn.rows))
    lines.append(f"Written: {', '.join(map(str, files))}")
    found = [{"figure": figure.id, **row} for row in drawn.rows]
    return Made("\n\n".join(lines), (*found, *_without(paper, figure, missing)), files)


def _without(paper: Paper, figure: Figure, reasons: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """A row without a value for each run that is not in the figure."""
    return tuple(
        {"figure": figure.id, **number(paper, name, None, None, reason=reason)}
        for name, reason in reasons.items()
    )


def _numbers(found: tuple[dict[str, Any], ...]) -> str:
    shown = [key for key in NAMES if any(row.get(key) for row in found)]
    shown += [key for key in TELLS if any(key in row for row in found)]
    body = []
    for row in found:
        cells = ["" if row.get(key) is None else str(row[key]) for key in shown]
        body.append([*cells, "" if row["value"] is None else f"{row['value']:.4g}"])
    return grid([*shown, "value"], body)


def status_rows(paper: Paper) -> list[dict[str, Any]]:
    """One row for each experiment and ensemble: what it is, and its state."""
    found = []
    for one in paper.plan.everything:
        run = paper.run(one.name) if isinstance(one, Planned) else None
        about = {} if run is None else run.about
        kept = {key: about.get(key) for key in ("epochs", "best_epoch", "finished", "plateaus", "seconds")}
        if run is not None and run.annealed:
            kept["plateaus"] = None
        what = {"run": one.name, "data_set": one.data_set, "network": one.network}
        what["likelihood"] = one.likelihood if isinstance(one, Planned) else "gaussian"
        found.append({**what, **kept, "reason": paper.reason(one)})
    return found


def score_files(paper: Paper) -> dict[Path, dict[str, Any]]:
    """What scores.json of every run holds: its evaluation under each recipe."""
    return {
        run.folder / "scores.json": {recipe: _plain(paper, one.name, recipe) for recipe in RECIPES}
        for one, run in paper.finished()
    }


def _plain(paper: Paper, name: str, recipe: str) -> dict[str, Any]:
    scores = paper.scores(name, recipe).to_dict()
    del scores["versions"]  # of this computer, not of the result
    return scores


def write_whole(path: Path, text: str) -> None:
    """Write a text as a file that is there whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def write_all(paper: Paper, say: Callable[[str], None]) -> dict[str, Any]:
    """Write every figure, the scores, RESULTS.md and DEVIATIONS.md; returns the tables' rows and the verdicts."""
    for figure in read_figures(paper.root):
        made = draw_one(paper, figure, paper.root / "figures")
        say(f"figure {figure.id}: {'drawn' if made.files else 'not drawn'}")
        for old in () if made.files else (paper.root / "figures").glob(f"{figure.stem}.*"):
            old.unlink()  # drawn from results that are no longer there
    for path, scores in score_files(paper).items():
        write_whole(path, json.dumps(scores, indent=1, allow_nan=False) + "\n")
    for name, text in (("RESULTS.md", results_text(paper)), ("DEVIATIONS.md", deviations_text(paper))):
        write_whole(paper.root / name, text)
    tables = [rows(paper, read_table(paper.root, name)) for name in ("table1", "table2")]
    judged = judge_all(paper)
    verdicts = [
        {"says": c.says, "where": c.where, "verdict": v.word, "evidence": v.evidence} for c, v in judged
    ]
    text = grid(["claim", "verdict"], [[c.says, v.word] for c, v in judged])
    return {
        "rows": [row.plain() for table in tables for row in table],
        "claims": verdicts,
        "text": f"{text}\n\nWritten: {paper.root / 'RESULTS.md'}, DEVIATIONS.md, figures/",
    }
