r"""Rejection: the error of the cases that are kept when the unsure ones are referred to somebody else.

$$\mathrm{MSE}(t) = \mathrm{mean}\{e_i : v_i \le t\}, \qquad \mathrm{rejected}(t) = \mathrm{share}\{v_i > t\}$$
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..core.checks import check_choice
from ..core.ranking import By, keep_lowest, rank
from ..core.values import Prediction
from ..files.disk import plain
from ._style import GREY, INK, PALE, Axes, axes_or_new, labelled, look, note_power, scientific, strip, style

TITLE = "rejection"
STEPS = 100


@dataclass(frozen=True, eq=False)
class Rejection:
    """Error of the kept cases by threshold, and by rejected share beside the best and a blind order."""

    threshold: Host  # (100,), from the largest variance to the smallest
    rejected: Host  # share of the cases above each threshold
    mse: Host  # of the cases that are kept
    share: Host  # (100,), rejected shares 0, 0.01 ... 0.99
    by_variance: Host  # MSE of the kept at each share, the largest variances rejected first
    oracle: Host  # the largest errors rejected first
    random: Host  # rejected blindly: the MSE of all
    ause: float | None  # None if every error is 0

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        names = ("threshold", "rejected", "mse", "share", "by_variance", "oracle", "random")
        return {name: plain(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        return f"Rejection({self.threshold.size} thresholds, MSE {self.mse[0]:.3g}, AUSE {self.ause})"


def table(
    prediction: Prediction | Cases, target: Any = None, *, weight: Any = None, by: By = "case"
) -> Rejection:
    """Error of the kept cases for 100 thresholds of the variance, and for 100 rejected shares.

    Args:
        prediction: of the test cases.
        target: with the location's shape.
        weight: (case,) or the location's shape.
        by: "case" rejects whole cases, their error and variance averaged over the outputs; "element" each output alone.

    Returns:
        The numbers to draw, with the AUSE.

    Example:
        >>> found = table(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [1.0, 3.0])
        >>> found.mse[0], found.rejected[0], found.mse[-1], found.rejected[-1]
        (np.float64(5.0), np.float64(0.0), np.float64(1.0), np.float64(0.5))

    Reference: Laves et al., MELBA 2021, section 4.2, Figure 8; Ilg et al., ECCV 2018.
    """
    cases = rank(prediction, target, weight=weight, by=by)
    kept, best = (keep_lowest(key, cases.error, cases.weight) for key in (cases.variance, cases.error))
    threshold = np.linspace(cases.variance.max(), cases.variance.min(), STEPS)
    below = np.searchsorted(kept.key, threshold, side="right")
    share = np.arange(STEPS) / STEPS
    ause = max(kept.area - best.area, 0.0) / cases.mse if cases.mse > 0 else None
    return Rejection(
        threshold=threshold,
        rejected=1 - kept.share[below],
        mse=kept.total[below] / kept.share[below],
        share=share,
        by_variance=kept.mse(1 - share),
        oracle=best.mse(1 - share),
        random=np.full(STEPS, cases.mse),
        ause=ause,
    )


def draw(
    tables: Rejection | Cases | Mapping[str, Rejection | Cases],
    ax: Axes = None,
    *,
    over: Literal["threshold", "share"] = "share",
    title: str = "",
    unit: str = "",
) -> Axes:
    """Draw the error of the kept cases.

    Args:
        tables: cases, or what `table` computed; or several by their label.
        ax: matplotlib axes; None for a new figure of one journal column.
        over: "share" draws it over the rejected share, beside the best and the blind order; "threshold" over the
            variance above which cases are rejected, with the rejected share on top, as the paper does.
        title: of the panel.
        unit: of the target, such as "mm".

    Returns:
        The axes.
    """
    check_choice("over", over, "threshold", "share")
    with style():
        ax = axes_or_new(ax)
        named = labelled(tables, table)
        for index, (name, one) in enumerate(named.items()):
            series = look(name, index)
            series.pop("marker")
            if over == "share":
                ause = "" if one.ause is None else f"AUSE {scientific(one.ause)}"
                label = ", ".join(filter(None, (name, ause)))
                ax.plot(one.share, one.by_variance, **series, zorder=3, label=label)
            else:
                ax.plot(one.threshold, one.mse, **series, zorder=3, label=name)
        if over == "share":
            _finish_share(ax, named)
        else:
            _finish_threshold(ax, named, unit)
        note_power(ax.yaxis, "MSE of the kept cases", unit)
        ax.set_title(title, pad=3)
    return ax


def _finish_share(ax: Axes, named: Mapping[str, Rejection]) -> None:
    """Draw the two bounds, blind and best, which depend on the errors alone; once if all tables agree."""
    first = next(iter(named.values()))
    ax.plot(
        first.share, first.random, color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1, label="blind"
    )
    ax.plot(
        first.share, first.oracle, color=INK, linestyle=":", linewidth=0.9, zorder=1, label="best possible"
    )
    ax.set(xlim=(0, 1), xlabel="rejected cases (%)")
    top = 1.1 * max(max(one.by_variance.max(), one.random[0]) for one in named.values())
    ax.set_ylim(0, top if top > 0 else 1.0)
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
    # Right below the blind line, the one place that falling curves leave free; rising curves leave the top free.
    below: dict[str, Any] = {
        "loc": "upper right",
        "bbox_to_anchor": (1, first.random[0] / ax.get_ylim()[1] - 0.02),
    }
    ax.legend(**below if top < 1.65 * first.random[0] else {"loc": "upper left"})


def _finish_threshold(ax: Axes, named: Mapping[str, Rejection], unit: str) -> None:
    """Draw over the threshold, which falls to the right as cases are rejected; the share rejected is on top."""
    name, first = next(iter(named.items()))
    high = max(one.threshold[0] for one in named.values())
    low = min(one.threshold[-1] for one in named.values())
    ax.set_xlim(high, low if low < high else 0.0)
    ax.set_ylim(0, 1.1 * max(one.mse.max() for one in named.values()) or 1.0)
    note_power(ax.xaxis, "largest variance that is kept", unit)
    top = strip(ax)
    top.fill_between(first.threshold, 0, first.rejected, color=PALE, linewidth=0)
    top.set_ylim(0, 1)
    label = f"share rejected ({name})" if len(named) > 1 else "share rejected"
    top.text(0.01, 0.9, label, transform=top.transAxes, fontsize=5.5, color=GREY, va="top")
    if any(named):
        ax.legend(loc="best")
