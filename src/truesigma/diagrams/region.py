r"""The joint region of one case with two outputs, such as a landmark, on its image: where it is, and how sure.

$$\{y : z^\top M^{-1} z = q_\gamma\} \quad\text{or}\quad \{y : \max_j |z_j| / \sqrt{M_{jj}} = q_\gamma\}$$
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases
from ..core.checks import check_whole
from ..core.values import Prediction
from ..files.disk import plain
from ..recalibrate.region import Region
from ._style import Axes, axes_or_new, look, style

TITLE = "joint region of a case"


@dataclass(frozen=True, eq=False)
class Outline:
    """The border of the region, (point, 2), the prediction, and the target where it is known, (2,) each."""

    border: Host
    location: Host
    target: Host | None
    inside: bool | None  # None if the target is not known
    level: float

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        return {"x": plain(self.border[:, 0]), "y": plain(self.border[:, 1])}

    def __repr__(self) -> str:
        return f"Outline({len(self.border)} points, {self.level:g})"


def table(
    region: Region,
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    case: int = 0,
    level: float | None = None,
) -> Outline:
    """Trace the border of one case's region.

    Args:
        region: what `recalibrate.region` fitted, of two outputs: the first is x, the second y.
        prediction: of some cases.
        target: of these cases, with the location's shape; None where it is not known.
        case: the number of the case to show, from 0.
        level: of the region; None for the one it was fitted with.

    Returns:
        The numbers to draw.

    Example:
        >>> from truesigma.recalibrate import region
        >>> y = np.random.default_rng(0).normal(size=(99, 2))
        >>> prediction = Prediction(0 * y, aleatoric=0 * y + 1)
        >>> found = table(region.fit(prediction, y, shape="box"), prediction, y)
        >>> len(found.border), found.inside
        (5, True)

    Reference: Laves et al., MELBA 2021, Figure 5, with a region that holds both coordinates at once.
    """
    if isinstance(prediction, Cases):
        target, prediction = prediction.target, prediction.prediction
    check_whole("case", case, 0)
    if case >= len(prediction):
        raise ValueError(f"case is {case}, and there are {len(prediction)}; expected one of them, from 0.")
    one = prediction[case : case + 1]
    border = region.outline(one, level=level)[0]
    location = to_host(one.location).astype(np.float64).reshape(2)
    known = inside = None
    if target is not None:
        known = to_host(target)[case : case + 1].astype(np.float64)
        inside = bool(region.contains(one, known, level=level)[0])
        known = known.reshape(2)
    return Outline(border, location, known, inside, region.level if level is None else level)


def draw(table: Outline, ax: Axes = None, *, image: Any = None, title: str = "", unit: str = "") -> Axes:
    """Draw the region, the prediction and the target, on the image if there is one.

    Args:
        table: what `table` computed.
        ax: matplotlib axes; None for a new figure of one journal column.
        image: (row, column) or (row, column, colour), whose pixels the outputs count; None for a plain panel.
        title: of the panel.
        unit: of the outputs; with an image they are pixels.

    Returns:
        The axes.
    """
    with style():
        ax = axes_or_new(ax, ratio=1.0)
        color = look("sigma", 0)["color"]
        if image is not None:
            ax.imshow(image, cmap="gray")
            ax.set(xticks=[], yticks=[])
        else:
            end = f" ({unit})" if unit else ""
            ax.set(xlabel=f"x{end}", ylabel=f"y{end}")
            ax.set_aspect("equal", adjustable="datalim")
        ax.plot(
            *table.border.T, color=color, linewidth=1.4, zorder=3, label=f"{100 * table.level:g} % region"
        )
        ax.plot(*table.location, marker="+", color=color, linestyle="none", zorder=3, label="prediction")
        if table.target is not None:
            word = "target" if table.inside else "target, outside"
            ax.plot(
                *table.target, marker="x", color=look("", 1)["color"], linestyle="none", zorder=4, label=word
            )
        ax.set_title(title, pad=18)
        # Above the panel, where it covers nothing.
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, columnspacing=1)
    return ax
