r"""Coverage where it may be missing: in fifths of each covariate, and in the slab of cases where it is worst.

$$\mathrm{slab}(v, a, b) = \{i : a \le v \cdot x_i \le b\}, \qquad
  \min_{v, a, b} \; \mathrm{mean}\{1[y_i \in I_i] : i \in \mathrm{slab}(v, a, b)\}$$

Intervals that hold 90 % of all cases may hold 60 % of a tenth of them. Half of the patients choose the slab, among
those with at least a tenth of the cases; what it holds is counted on the other half.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases, unread
from ..core.checks import check_level, check_whole
from ..core.elements import every_element
from ..core.factors import cluster_error
from ..core.values import Prediction
from ..files.disk import plain
from ._style import GREY, Axes, axes_or_new, labelled, look, style

TITLE = "coverage in slabs"
SHARE = 0.1  # of the cases, at least, in a slab
FIFTHS = 5


@dataclass(frozen=True, eq=False)
class Slabs:
    """Shares that are held, with their standard errors by patient: (covariate, fifth), and in the worst slab."""

    level: float
    names: tuple[str, ...]
    held: Host
    error: Host
    worst: float
    worst_error: float
    direction: Host  # of the worst slab, in standardised covariates

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Plain values by name, for a csv file: the fifths of each covariate, then the worst slab."""
        fifths = [k for _ in self.names for k in range(1, FIFTHS + 1)]
        names = [name for name in self.names for _ in range(FIFTHS)]
        return {
            "covariate": [*names, "worst slab"],
            "fifth": [*fifths, 0],
            "held": plain(np.append(self.held, self.worst)),
            "error": plain(np.append(self.error, self.worst_error)),
        }

    def __repr__(self) -> str:
        return f"Slabs({', '.join(self.names)}; worst {self.worst:.3f} +- {self.worst_error:.3f})"


def table(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    covariates: Mapping[str, Any] | None = None,
    level: float = 0.9,
    directions: int = 500,
    seed: int = 0,
) -> Slabs:
    """Count what intervals hold in fifths of each covariate, and in the worst slab of them.

    Args:
        prediction: of the test cases, with `target` and `weight`; or Cases, whose patients then stay together.
        target: with the location's shape; of several outputs, a case holds with the mean over them.
        weight: (case,) or the location's shape.
        covariates: numbers of each case by name, such as its age; the prediction and the log of sigma come besides.
        level: of the intervals.
        directions: random ones that are tried for the slab.
        seed: of the directions and the halves.

    Returns:
        The numbers to draw. With 1,000 cases the worst slab nearly always finds a tenth of them that is held at 60 %;
        with few cases it says little.

    Example:
        >>> table(Prediction(np.arange(100.0), scale=np.ones(100)), np.arange(100.0)).worst
        1.0

    Reference: Cauchois, Gupta and Duchi, "Knowing what you know", JMLR 2021.
    """
    check_level(level)
    check_whole("directions", directions, 1)
    cases = unread(prediction, target, weight=weight)
    e = every_element(cases)
    low, high = e.reach(level)
    w = e.weight.sum(axis=1)
    held = (((low <= e.z) & (e.z <= high)) * e.weight).sum(axis=1) / np.where(w > 0, w, 1.0)
    own = {"prediction": e.location.mean(axis=1), "log sigma": np.log(e.scale).mean(axis=1)}
    given = {name: to_host(part).astype(float) for name, part in (covariates or {}).items()}
    for name, part in given.items():
        if part.shape != w.shape or not np.isfinite(part).all():
            raise ValueError(
                f"covariate {name!r} has shape {part.shape}; expected {len(w)} finite numbers, one a case."
            )
    named = {name: part for name, part in {**own, **given}.items() if np.ptp(part) > 0}
    names = np.arange(len(w)) if cases.cluster is None else np.asarray(cases.cluster)
    code = np.unique(names, return_inverse=True)[1]
    fifths = []
    for part in named.values():
        cell = np.minimum(np.argsort(np.argsort(part, kind="stable")) * FIFTHS // len(part), FIFTHS - 1)
        fifths.append([_share(held, w * (cell == k), code) for k in range(FIFTHS)])
    x = (
        np.stack([(part - part.mean()) / part.std() for part in named.values()], axis=1)
        if named
        else w[:, None] * 0
    )
    direction, worst = _worst(x, held, w, code, directions, np.random.default_rng(seed))
    found = np.array(fifths).reshape(len(named), FIFTHS, 2)
    return Slabs(level, tuple(named), found[..., 0], found[..., 1], *worst, direction)


def _share(held: Host, weight: Host, code: Host) -> tuple[float, float]:
    """The share that is held, and its standard error by patient."""
    if not weight.any():
        return np.nan, np.nan
    share = float(weight @ held / weight.sum())
    s, of_weight = np.bincount(code, weight * held), np.bincount(code, weight)
    error = cluster_error(
        share, np.sum(of_weight > 0), of_weight.sum(), s @ s, s @ of_weight, of_weight @ of_weight
    )
    return share, float(error)


def _worst(
    x: Host, held: Host, weight: Host, code: Host, directions: int, rng: np.random.Generator
) -> tuple[Host, tuple[float, float]]:
    """The slab that holds least on half of the patients, and what it holds on the other half."""
    first = rng.permutation(code.max() + 1)[code] % 2 == 0
    v = rng.normal(size=(directions, x.shape[1]))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    best: tuple[float, Host, float, float] = (np.inf, v[0], -np.inf, np.inf)
    for one in v:
        along = x[first] @ one
        order = np.argsort(along, kind="stable")
        w = weight[first][order]
        ends, sums = np.append(0.0, np.cumsum(w)), np.append(0.0, np.cumsum(w * held[first][order]))
        least = SHARE * ends[-1]
        starts = np.linspace(0, len(w) - 1, min(len(w), 100)).astype(int)  # slabs begin at a hundredth
        begin, end = np.meshgrid(starts, starts + 1)
        size = ends[end] - ends[begin]
        share = np.where(size >= least, (sums[end] - sums[begin]) / np.maximum(size, 1e-300), np.inf)
        place = np.unravel_index(share.argmin(), share.shape)
        if share[place] < best[0]:
            rising = along[order]
            best = (float(share[place]), one, rising[begin[place]], rising[end[place] - 1])
    along = x[~first] @ best[1]
    slab = (along >= best[2]) & (along <= best[3])
    return best[1], _share(held[~first], weight[~first] * slab, code[~first])


def draw(tables: Slabs | Cases | Mapping[str, Slabs | Cases], ax: Axes = None, *, title: str = "") -> Axes:
    """Draw the shares held in the fifths of each covariate with their 95 % intervals, and the worst slab's.

    Args:
        tables: cases, or what `table` computed; or several by their label, side by side.
        ax: matplotlib axes; None for a new figure of one journal column.
        title: of the panel.

    Returns:
        The axes.
    """
    with style():
        ax = axes_or_new(ax)
        named = labelled(tables, table)
        first = next(iter(named.values()))
        ax.axhline(100 * first.level, color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, label="promised")
        for index, (name, one) in enumerate(named.items()):
            middle = np.arange(len(one.names))[:, None] + np.linspace(-0.3, 0.3, FIFTHS)
            x = np.append(middle, len(one.names)) + 0.03 * index
            y, reach = np.append(one.held, one.worst), 1.96 * np.append(one.error, one.worst_error)
            kind = {"color": look(name, index)["color"], "marker": look(name, index)["marker"]}
            ax.errorbar(
                x, 100 * y, 100 * reach, linestyle="none", elinewidth=0.6, label=name or "held", **kind
            )
        ax.set_xticks(range(len(first.names) + 1), [*first.names, "worst slab"])
        ax.set(xlim=(-0.5, len(first.names) + 0.5), xlabel="fifths of each, from low to high")
        ax.set(ylabel=f"{100 * first.level:g} % intervals hold (%)", title=title)
        ax.set_ylim(top=min(ax.get_ylim()[1], 103))
        ax.legend(loc="best")
    return ax
