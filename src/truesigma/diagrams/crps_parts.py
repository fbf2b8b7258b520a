r"""The CRPS in parts: what miscalibration costs, and what knowing the cases apart gains.

$$\mathrm{CRPS} = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}$$

At each threshold t the predicted probability $p_i = F_i(t)$ and the outcome $o_i = 1[y_i \le t]$ have Brier scores;
with r the isotonic regression of o on p, and $\bar o$ its mean,

$$\mathrm{MCB} = \int \overline{(p - o)^2} - \overline{(r - o)^2}\, dt, \quad
  \mathrm{DSC} = \int \overline{(\bar o - o)^2} - \overline{(r - o)^2}\, dt, \quad
  \mathrm{UNC} = \int \overline{(\bar o - o)^2}\, dt.$$

In the cases at hand MCB is above 0 even if the laws are right; so it is shown beside that of targets drawn from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases, unread
from ..core.checks import check_whole
from ..core.elements import every_element
from ..core.values import Prediction
from ..files.disk import plain
from ._style import GREY, Axes, axes_or_new, labelled, look, style

TITLE = "the CRPS in parts"
THRESHOLDS = 400
PROBES = (
    0.001,
    0.02,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    0.98,
    0.999,
)  # quantiles of the laws that thresholds lie between
MOST = 2000  # cases that are looked at, drawn at random


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts, in the target's unit; `chance` is the MCB of targets that are drawn from the laws themselves."""

    miscalibration: float
    discrimination: float
    uncertainty: float
    chance: float

    @property
    def crps(self) -> float:
        """Their sum: the CRPS of the cases, within 1 %."""
        return self.miscalibration - self.discrimination + self.uncertainty

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file."""
        names = ("crps", "miscalibration", "discrimination", "uncertainty", "chance")
        return {name: plain([getattr(self, name)]) for name in names}

    def __repr__(self) -> str:
        return f"Parts(CRPS {self.crps:.4g}, MCB {self.miscalibration:.3g}, DSC {self.discrimination:.3g})"


def table(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    replicates: int = 5,
    seed: int = 0,
) -> Parts:
    """Divide the CRPS into miscalibration, discrimination and uncertainty; of several outputs, the mean over them.

    Args:
        prediction: of the test cases, with `target` and `weight`; or Cases.
        target: with the location's shape.
        weight: (case,) or the location's shape.
        replicates: sets of targets drawn from the laws, for the miscalibration that is chance.
        seed: of these draws; of more than 2,000 cases as many are drawn at random.

    Returns:
        The parts.

    Example:
        >>> right = table(Prediction([0.0, 10.0, 20.0], scale=[1.0, 1.0, 1.0]), [0.0, 10.0, 20.0])
        >>> bool(right.discrimination > right.miscalibration)
        True

    Reference: Arnold, Walz, Ziegel and Gneiting, "Decompositions of the mean continuous ranked probability score",
    Electronic Journal of Statistics 2024.
    """
    check_whole("replicates", replicates, 1)
    rng = np.random.default_rng(seed)
    cases = unread(prediction, target, weight=weight)
    if len(cases) > MOST:
        cases = cases[np.sort(rng.choice(len(cases), MOST, replace=False))]
    e = every_element(cases)
    drawn = np.asarray(cases.prediction.sample(replicates, seed=seed)).reshape(replicates, *e.target.shape)
    held = [_parts(cases.prediction, e.target, e.weight)]
    held += [_parts(cases.prediction, one, e.weight) for one in drawn]
    mcb, dsc, unc = map(float, held[0])
    return Parts(mcb, dsc, unc, chance=float(np.mean([parts[0] for parts in held[1:]])))


def _parts(prediction: Prediction, target: Host, weight: Host) -> Host:
    """MCB, DSC and UNC, the mean over the outputs by their weight."""
    from scipy.optimize import isotonic_regression

    shape = prediction.location.shape
    probes = [to_host(prediction.quantile(p)).reshape(target.shape) for p in PROBES]
    found, shares = [], weight.sum(axis=0)
    for j in range(target.shape[1]):
        some = weight[:, j] > 0
        w, y = weight[some, j] / shares[j], target[some, j]
        near = np.sort(np.concatenate([y, *(probe[some, j] for probe in probes)]))
        near = near[np.isfinite(near)]  # some laws end in steps to infinity
        ends = near[np.linspace(0, len(near) - 1, THRESHOLDS + 1).round().astype(int)]
        sums = np.zeros(3)
        for t, step in zip((ends[1:] + ends[:-1]) / 2, np.diff(ends)):
            p = to_host(prediction.cdf(np.full(shape, t))).reshape(target.shape)[some, j]
            o = (y <= t).astype(float)
            place = np.unique(p, return_inverse=True)[1]  # ties are pooled
            mass = np.bincount(place, w)
            mean = np.bincount(place, w * o) / mass
            r = isotonic_regression(mean, weights=mass).x[place]
            spread, best = w @ (w @ o - o) ** 2, w @ (r - o) ** 2
            sums += step * np.array([w @ (p - o) ** 2 - best, spread - best, spread])
        found.append(sums)
    return np.asarray(np.average(found, axis=0, weights=shares))


def draw(
    tables: Parts | Cases | Mapping[str, Parts | Cases], ax: Axes = None, *, title: str = "", unit: str = ""
) -> Axes:
    """Draw discrimination over miscalibration: the CRPS falls towards the upper left, and is alike along the lines.

    Args:
        tables: cases, or what `table` computed; or several by their label.
        ax: matplotlib axes; None for a new figure of one journal column.
        title: of the panel.
        unit: of the target, such as "mm".

    Returns:
        The axes.
    """
    with style():
        ax = axes_or_new(ax, ratio=0.9)
        named = labelled(tables, table)
        right = 1.25 * max(max(one.miscalibration, one.chance) for one in named.values())
        known = [one.discrimination for one in named.values()]
        middle, reach = (max(known) + min(known)) / 2, max(np.ptp(known), right) * 0.75
        for index, (name, one) in enumerate(named.items()):
            kind = {"color": look(name, index)["color"], "marker": look(name, index)["marker"]}
            label = f"{name or 'CRPS'} {one.crps:.3g}"
            ax.plot(
                [one.miscalibration], [one.discrimination], linestyle="none", label=label, zorder=3, **kind
            )
            ax.plot(
                [0, right], one.discrimination - one.miscalibration + np.array([0, right]), color=GREY, lw=0.5
            )
        first = next(iter(named.values()))
        ax.axvline(first.chance, color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, label="right laws")
        words = f" ({unit})" if unit else ""
        ax.set(xlim=(0, right), ylim=(middle - reach, middle + reach), title=title)
        ax.set(xlabel=f"miscalibration{words}", ylabel=f"discrimination{words}")
        ax.legend(loc="best")
    return ax
