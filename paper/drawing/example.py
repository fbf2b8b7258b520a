"""One case with its region location +- scale on the image, before and after sigma scaling (Figure 5)."""

from typing import Any

import numpy as np

from truesigma import Prediction
from truesigma.core import Host

from ..paper import Paper
from ..studies.simulation import REACH, simulated_test, tip_voxel
from . import BLUE, INK, ORANGE, PAGE, RED, Figure, Rows, number, panels

AXES = (0, 2)  # of the cube that the projection along the depth, axis 1, shows: rows and columns
SHOWN = (-16, 8)  # voxels beside the tip that are shown: most of them on the needle's side


def draw(paper: Paper, figure: Figure, runs: list[str]) -> tuple[Any, Rows]:
    """Two panels; the case is one that shows the difference, and the numbers say how many cases are like it."""
    name = runs[0]
    images, target = simulated_test(paper.result(name).about["options"])
    before, after = (paper.predictions(name, "test", "exact", r)[0][0] for r in ("none", "sigma"))
    inside = {kind: inside_region(p) for kind, p in (("none", before), ("sigma", after))}
    case = pick(before, inside["none"], inside["sigma"])
    made, places = panels(2, ratio=1.0, width=0.75 * PAGE)
    # Residuals are prediction minus target: the target of the made-up set gives the prediction back.
    tip, truth = (tip_voxel(p)[list(AXES)] for p in (target[case] + before.location[case], target[case]))
    for panel, prediction, color, said in zip(places, (before, after), (RED, BLUE), ("none", "σ scaling")):
        radius = REACH * prediction.scale[case, list(AXES)]
        _panel(panel, images[case, 1], tip, truth, radius, color, said)
    places[0].legend(loc="lower left", framealpha=0.85, frameon=True, edgecolor="none")
    rows = [
        number(paper, name, "inside_region", share_inside(paper, name, kind), recalibration=kind)
        for kind in inside
    ]
    return made, rows


def share_inside(paper: Paper, name: str, recalibration: str) -> float:
    """Share of the cases of the first test run whose truth lies in the region."""
    return float(np.mean(inside_region(paper.predictions(name, "test", "exact", recalibration)[0][0])))


def inside_region(prediction: Prediction) -> Host:
    """Whether the truth of each case lies in the ellipse of one scale around the location, over the two shown axes."""
    z = prediction.location[:, list(AXES)] / prediction.scale[:, list(AXES)]
    return np.asarray((z**2).sum(axis=1) <= 1)


def pick(before: Prediction, raw: Host, scaled: Host) -> int:
    """Of the cases that are outside before and inside after, the one with the median error."""
    shown = np.flatnonzero(~raw & scaled)
    if shown.size == 0:
        return 0
    error = (before.location[shown][:, list(AXES)] ** 2).sum(axis=1)
    return int(shown[np.argsort(error)[shown.size // 2]])


def _panel(panel: Any, image: Host, tip: Host, truth: Host, radius: Host, color: str, said: str) -> None:
    from matplotlib.patches import Ellipse

    panel.imshow(image, cmap="Greys_r", vmin=0, vmax=90)
    region = Ellipse(
        (tip[1], tip[0]), 2 * radius[1], 2 * radius[0], facecolor=(color, 0.35), edgecolor=color,
        label="location ± scale",
    )  # fmt: skip
    panel.add_patch(region)
    panel.plot(tip[1], tip[0], color=color, marker="o", linestyle="none", label="prediction")
    panel.plot(
        truth[1], truth[0], color=ORANGE, marker="X", markersize=6, markeredgecolor=INK, markeredgewidth=0.4,
        linestyle="none", label="target",
    )  # fmt: skip
    low, high = SHOWN
    panel.set(xlim=(tip[1] + low, tip[1] + high), ylim=(tip[0] + high, tip[0] + low), title=said)
    panel.set(xlabel="axis 2 (voxel)", ylabel="axis 0 (voxel)")
