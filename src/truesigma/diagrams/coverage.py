r"""Observed over estimated prediction intervals: does the 90 % interval hold 90 % of the targets?

$$\mathrm{observed}(\gamma) = \tfrac{1}{m} \sum_i 1[l_i(\gamma) \le y_i \le u_i(\gamma)] \quad\text{over}\quad \gamma$$
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import plugins
from ..core.arrays import Host
from ..core.cases import Cases
from ..core.checks import check_level
from ..core.law import Undefined
from ..core.ranking import rank
from ..core.scores import measure, request
from ..core.values import Prediction
from ..files.disk import plain
from ._repeats import runs
from ._style import GREY, Axes, axes_or_new, labelled, look, style

TITLE = "observed over estimated intervals"
LEVELS = (*(round(0.05 * k, 2) for k in range(1, 20)), 0.99)
NAMED_LEVELS = (0.5, 0.9, 0.95, 0.99)  # those of the paper, which get a marker


@dataclass(frozen=True, eq=False)
class Coverage:
    """Observed share at each level, and the range in which 95 % of calibrated test sets of this size would lie there.

    The range is for each level on its own, and for cases that err independently: a whole curve leaves it more often.
    """

    level: Host
    observed: Host  # mean over the repeats
    deviation: Host  # standard deviation over the repeats, NaN for one run
    low: Host
    high: Host
    cases: float  # effective number of cases behind the range
    repeats: int

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        names = ("level", "observed", "deviation", "low", "high")
        return {name: plain(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        return f"Coverage({self.level.size} levels, {self.cases:.0f} cases, {self.repeats} repeats)"


def table(
    prediction: Prediction | Cases | Sequence[Cases],
    target: Any = None,
    *,
    weight: Any = None,
    levels: Sequence[float] = LEVELS,
) -> Coverage:
    """Share of the targets inside the central interval of each level.

    Args:
        prediction: of the test cases, with `target` and `weight`; or Cases, which hold them; or a list of Cases, one
            for each repeated test run.
        target: with the location's shape.
        weight: (case,) or the location's shape.
        levels: of the intervals, between 0 and 1.

    Returns:
        The numbers to draw. The range of chance is binomial in the number of cases, not of outputs: outputs of one case
        are correlated, and counting each would promise too much.

    Example:
        >>> table(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [0.1, 2.0], levels=(0.5, 0.9)).observed
        array([0.5, 0.5])

    Reference: Laves et al., MELBA 2021, section 4.1, Figures 6 and 11.
    """
    wanted = np.sort(np.asarray(levels, dtype=np.float64).ravel())
    if wanted.size == 0:
        raise ValueError("levels is empty; expected numbers between 0 and 1, such as 0.9.")
    for level in wanted:
        check_level(float(level))
    metric = plugins.load("metrics", "coverage")
    requests = [request(metric, {"level": float(level)}) for level in wanted]
    many = runs(prediction, target, weight)
    rows = [measure(one, truth, requests, weight=share) for one, truth, share in many]
    for value in (value for row in rows for value in row):
        if isinstance(value, Undefined):
            raise value
    observed = np.array(rows)
    one, truth, share = many[0]
    weights = rank(one, truth, weight=share).weight
    cases = float(weights.sum() ** 2 / (weights**2).sum())
    low, high = _chance(wanted, cases)
    deviation = observed.std(axis=0, ddof=1) if len(many) > 1 else np.full(wanted.size, np.nan)
    return Coverage(wanted, observed.mean(axis=0), deviation, low, high, cases, len(many))


def _chance(level: Host, cases: float) -> tuple[Host, Host]:
    """Compute the central 95 % of the shares that a calibrated prediction would show in that many cases."""
    from scipy.stats import binom

    count = max(round(cases), 1)
    low, high = (binom.ppf(p, count, level) / count for p in (0.025, 0.975))
    return low, high


def draw(
    tables: Coverage | Cases | Mapping[str, Coverage | Cases], ax: Axes = None, *, title: str = ""
) -> Axes:
    """Draw observed over estimated intervals, before and after recalibration, with the band of chance.

    Args:
        tables: cases, or what `table` computed; or several by their label; the band is that of the first.
        ax: matplotlib axes; None for a new figure of one journal column.
        title: of the panel.

    Returns:
        The axes.
    """
    with style():
        ax = axes_or_new(ax, ratio=0.9)
        named = labelled(tables, table)
        first = next(iter(named.values()))
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1, label="perfect")
        ax.fill_between(first.level, first.low, first.high, color=GREY, alpha=0.25, linewidth=0, zorder=1)
        for index, (name, one) in enumerate(named.items()):
            marks = [k for k, level in enumerate(one.level) if np.isclose(level, NAMED_LEVELS).any()]
            ax.plot(
                one.level,
                one.observed,
                **look(name, index),
                markevery=marks,
                zorder=3,
                label=name or "observed",
            )
            if one.repeats > 1:
                sides = one.observed - one.deviation, one.observed + one.deviation
                ax.fill_between(one.level, *sides, color=look(name, index)["color"], alpha=0.2, linewidth=0)
        shares = np.linspace(0, 1, 6)
        ax.set(xlim=(0, 1), ylim=(0, 1), xticks=shares, yticks=shares)
        ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
        ax.set(xlabel="estimated interval (%)", ylabel="observed interval (%)", title=title)
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[1:] + handles[:1], labels[1:] + labels[:1], loc="upper left")
    return ax
