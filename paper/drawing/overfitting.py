"""The factor against the root of test over training error, for every recorded epoch of every run (ours)."""

from typing import Any

import numpy as np

from truesigma.core import Host

from ..paper import Paper
from ..runs import Run
from . import BLUE, GREY, INK, PAGE, RED, Figure, Rows, number, panels, title

SHOWN = (0.55, 2.6)  # of both axes: the few epochs beyond leave the panel, which says how many they are
TICKS = (0.6, 0.8, 1, 1.2, 1.5, 2, 2.5)
KINDS = {
    "full-length, random weights": (BLUE, "o"),
    "full-length, ImageNet weights": (RED, "s"),
    "short": (GREY, "^"),
}


def epochs_of(run: Run) -> tuple[Host, Host]:
    """Root of test over training error and factor of the aleatoric part, of each epoch in which both were measured."""
    train, test, factor = (run.column(name) for name in ("train_mse", "test_mse", "test_factor"))
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(test / train)
    measured = np.isfinite(root) & np.isfinite(factor) & (root > 0) & (factor > 0)
    return root[measured], factor[measured]


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """All epochs as small points, the kept one of each run as a large one; full-length runs have their name beside."""
    made, (panel,) = panels(1, ratio=0.62, width=PAGE)
    named, numbers, beyond = [], [], 0
    for name in runs:
        run = paper.result(name)
        colour, marker = KINDS[_kind(paper, name, run)]
        root, factor = epochs_of(run)
        beyond += int(np.sum(~(_inside(root) & _inside(factor))))
        panel.scatter(root, factor, s=4, color=colour, alpha=0.25, linewidths=0, zorder=1, rasterized=True)
        at, kept = float(np.sqrt(run.overfitted)), float(run.kept("test_factor"))
        _large(panel, [at], [kept], colour, marker)
        if run.full_length:
            named.append((at, kept, title(paper, name).removesuffix(" weights")))
        numbers.append(number(paper, name, "factor", kept, part="aleatoric", root=at))
    line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkB": 3, "relpos": (0.0, 0.5)}
    blank = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # over the lines of the labels below
    for place, (at, kept, text) in enumerate(sorted(named)):
        panel.annotate(
            text, (at, kept), (0.745, 0.03 + 0.036 * place), textcoords="axes fraction", fontsize=5.3, va="center",
            arrowprops=line, bbox=blank,
        )  # fmt: skip
    panel.plot(SHOWN, SHOWN, color=INK, linewidth=0.8, linestyle="--", zorder=2, label="s = root")
    panel.axhline(1, color=GREY, linewidth=0.6, zorder=0)
    for kind, (colour, marker) in KINDS.items():
        _large(panel, [], [], colour, marker, label=kind)
    panel.set(xscale="log", yscale="log", xlim=SHOWN, ylim=SHOWN)
    panel.minorticks_off()
    for set_ticks in (panel.set_xticks, panel.set_yticks):
        set_ticks(TICKS, [f"{tick:g}" for tick in TICKS])
    panel.set(xlabel="root of test MSE / training MSE", ylabel="factor s of the aleatoric part, test split")
    said = f"every recorded epoch (small, {beyond} lie beyond), the kept one (large)"
    panel.legend(loc="upper left", title=said, title_fontsize=6.5)
    return made, numbers


def _large(panel: Any, x: list[float], y: list[float], colour: str, marker: str, label: str = "") -> None:
    look = {"s": 26, "edgecolors": INK, "linewidths": 0.6, "zorder": 3}
    panel.scatter(x, y, color=colour, marker=marker, label=label or None, **look)


def _inside(values: Host) -> Host:
    return (values >= SHOWN[0]) & (values <= SHOWN[1])


def _kind(paper: Paper, name: str, run: Run) -> str:
    if not run.full_length:
        return "short"
    return f"full-length, {'ImageNet' if paper.plan.find(name).weights else 'random'} weights"
