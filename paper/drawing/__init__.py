"""The figures of the paper: what `figures.toml` asks for, drawn from committed results by the file of its kind."""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truesigma.diagrams import figure as new_figure
from truesigma.diagrams import style

from ..described import make, read_toml
from ..paper import Paper
from ..plan import Ensemble

FILE = "figures.toml"
COLUMN, PAGE = 85 / 25.4, 170 / 25.4  # inches: one column of a journal page, and both
BLUE, RED, ORANGE, INK, GREY = "#0072B2", "#D55E00", "#E69F00", "#222222", "#767676"
Rows = list[dict[str, Any]]


class NotRun(ValueError):
    """None of the results that a figure needs is there; the message says why."""


@dataclass(frozen=True)
class Figure:
    """One figure: its kind is a file in `paper/drawing`, its runs are names of experiments or ensembles."""

    id: str
    kind: str
    title: str
    says: str  # what the paper says the figure shows
    runs: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def caption(self) -> str:
        """What it shows; the words of the paper are told apart from what ours show."""
        return f"The paper: {self.says}" if self.id.isdigit() else self.says

    @property
    def stem(self) -> str:
        """The name of its files, without suffix."""
        return f"figure-{int(self.id):02d}" if self.id.isdigit() else f"figure-{self.id}"


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure as drawn: matplotlib's figure, its numbers as rows, and the runs that it lacks, with the reason."""

    figure: Any
    rows: tuple[dict[str, Any], ...]
    missing: Mapping[str, str]


def read_figures(root: Path) -> list[Figure]:
    """Read figures.toml."""
    listed = read_toml(root / FILE, "figure")["figure"]
    found: list[Figure] = [make(Figure, one, f"{FILE}: figure {one.get('id', '?')}: ") for one in listed]
    for one in found:
        if importlib.util.find_spec(f"{__name__}.{one.kind}") is None:
            raise ValueError(
                f"{FILE}: figure {one.id} is of kind {one.kind!r}, which no file in figures/ draws."
            )
    return found


def find_figure(root: Path, id: str) -> Figure:
    """The figure of that number or name."""
    figures = read_figures(root)
    for one in figures:
        if id.lower() in (one.id.lower(), one.stem):
            return one
    raise ValueError(f"there is no figure {id!r}; expected one of {', '.join(one.id for one in figures)}.")


def lacking(paper: Paper, figure: Figure) -> dict[str, str]:
    """The runs that cannot be in the figure, with the reason: not run, or not sampled on what the figure shows."""
    needed = set(figure.options.get("splits", ()))
    found = {}
    for name in figure.runs:
        reason = paper.reason(paper.about(name))
        if reason is None and needed and not needed & set(paper.splits(name)):
            reason = f"not sampled on {' or '.join(sorted(needed))}"
        if reason is not None:
            found[name] = reason
    return found


def draw_figure(paper: Paper, figure: Figure) -> Drawn:
    """Draw a figure with what has been run; raises `NotRun` where nothing of it has."""
    module = importlib.import_module(f"{__name__}.{figure.kind}")
    missing = lacking(paper, figure)
    there = [name for name in figure.runs if name not in missing]
    if figure.runs and not there:
        raise NotRun("; ".join(f"{name}: {reason}" for name, reason in missing.items()))
    with style():
        made, rows = module.draw(paper, figure, there)
    return Drawn(made, tuple(rows), missing)


def panels(count: int, *, ratio: float, wide: int = 3, width: float | None = None) -> tuple[Any, list[Any]]:
    """A figure of that many panels, at most so many beside each other; a place that is left over stays empty."""
    wide = min(wide, count)
    width = width or (PAGE if wide > 1 else COLUMN)
    made, axes = new_figure(-(-count // wide), wide, width=width, ratio=ratio)
    flat = list(axes.ravel())
    for panel in flat[count:]:
        panel.set_axis_off()
    return made, flat[:count]


def scale_only(label: str) -> str:
    """The label of an axis next to a panel that says the rest: its power of ten."""
    return label[label.index("$") : label.rindex("$") + 1] if "$" in label else ""


def number(
    paper: Paper,
    name: str,
    metric: str | None,
    value: float | None,
    *,
    recipe: str = "exact",
    part: str = "total",
    recalibration: str = "none",
    sd: float | None = None,
    reason: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One number of a figure, with the keys of the tables' rows; `more` tells it apart (a level, a split)."""
    about = paper.about(name)
    likelihood = "gaussian" if isinstance(about, Ensemble) else about.likelihood
    return {
        "data_set": about.data_set, "network": about.network, "likelihood": likelihood, "recipe": recipe, "part": part,
        "recalibration": recalibration, "metric": metric, "value": value, "sd": sd, "paper": None, "log": None,
        "reason": reason, "run": name, **more,
    }  # fmt: skip


def title(paper: Paper, name: str) -> str:
    """How a run is called above a panel."""
    about = paper.about(name)
    said = [paper.plan.title(about.data_set, about.network)]
    if not isinstance(about, Ensemble):
        seed = f"seed {about.seed}" if about.seed else ""
        said += ["Laplace" if about.likelihood == "laplace" else "", seed, about.variant]
    return ", ".join(filter(None, said))


def empty(panel: Any, paper: Paper, name: str) -> None:
    """A panel for a run that is missing, which says so."""
    reason = (paper.reason(paper.about(name)) or "").split(":")[0]
    panel.set(xticks=[], yticks=[], title=title(paper, name))
    panel.text(0.5, 0.5, reason, transform=panel.transAxes, ha="center", va="center", color=GREY)
    for side in panel.spines.values():
        side.set(color=GREY, linestyle=":")
