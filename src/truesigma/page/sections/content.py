"""How much intervals hold by sigma and by predicted value, and where in its distribution the truth lies (PIT)."""

from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.cases import Cases
from ...core.elements import every_element
from ...core.law import Undefined
from ..blocks import Section, before_after, choice, columns, controls, figure, paragraph
from ..numbers import percent
from ..subject import Subject

TENTHS = 10
CELLS = 20  # of the probability integral transform
KEYS = {"sigma": "by sigma", "prediction": "by predicted value"}


def by_size(subject: Subject) -> list[dict[str, Any]]:
    """Tabulate how much intervals hold in tenths of sigma and of the prediction, before and after, with bands."""
    rows = []
    for label, cases in subject.pair.items():
        p = cases.prediction
        found = every_element(p, cases.target, weight=cases.weight)
        bounds = p.interval(subject.level)
        inside = ((bounds.lower <= cases.target) & (cases.target <= bounds.upper)).reshape(found.target.shape)
        for name, key in {"sigma": found.scale, "prediction": found.location}.items():
            counting = found.weight > 0
            edges = np.unique(np.quantile(key[counting], np.linspace(0, 1, TENTHS + 1)))
            cell = np.clip(np.searchsorted(edges, key, side="right") - 1, 0, max(len(edges) - 2, 0))
            used = np.unique(cell[counting])  # with few cases, some tenths are empty
            cell = np.minimum(np.searchsorted(used, cell), len(used) - 1)
            weight, held = _sums(subject, cell, found.weight, inside, len(used))
            count, hits = weight.sum(axis=0), held.sum(axis=0)
            drawn = [subject.plan.draw(part) for part in (weight, held)]
            low, high = subject.plan.band(drawn[1] / np.where(drawn[0] > 0, drawn[0], np.nan))
            for k, first in enumerate(used):
                some = np.asarray(counting & (cell == k))
                ends = {"from": edges[first], "to": edges[min(first + 1, len(edges) - 1)]}
                middle = float(np.median(key[some]))
                share = {"observed": hits[k] / count[k], "low": low[k], "high": high[k], "count": count[k]}
                rows.append({"recalibration": label, "by": name, **ends, "middle": middle, **share})
    return rows


def _sums(subject: Subject, cell: Host, weight: Host, inside: Host, cells: int) -> tuple[Host, Host]:
    """The weight of each cluster in each cell, and of what is inside its interval, (cluster, cell)."""
    place = (subject.plan.code[:, None] * cells + cell).ravel()
    size = subject.plan.clusters * cells
    parts = (weight, weight * inside)
    first, second = (np.bincount(place, part.ravel(), size).reshape(-1, cells) for part in parts)
    return first, second


def section(subject: Subject) -> Section:
    body = [
        paragraph(
            f"The share that the {percent(subject.level)} intervals hold, in tenths of the cases. A sigma that "
            "knows the hard cases holds the same share everywhere: along the dashed line."
        ),
        controls(choice("sorted", "Tenths", KEYS)),
        figure("content", "Share inside the intervals, by sigma and by predicted value"),
    ]
    settings = {"labels": list(subject.pair), "level": subject.level}
    return Section("content", "Easy and hard cases", body, "Hard cases", columns(by_size(subject)), settings)


def pit(subject: Subject) -> list[dict[str, Any]]:
    """Tabulate where in its predicted distribution the truth lies, before and after; nothing if a law does not say."""
    rows = []
    for label, cases in subject.pair.items():
        try:
            cell = np.minimum((_transform(cases) * CELLS).astype(np.int64), CELLS - 1)
        except Undefined:
            continue
        weight = every_element(cases.prediction, cases.target, weight=cases.weight).weight
        held, _ = _sums(subject, cell, weight, np.ones(cell.shape), CELLS)
        drawn = subject.plan.draw(held)
        low, high = subject.plan.band(CELLS * drawn / drawn.sum(axis=1, keepdims=True))
        density = CELLS * held.sum(axis=0) / held.sum()
        for k in range(CELLS):
            ends = {"from": k / CELLS, "to": (k + 1) / CELLS}
            rows.append(
                {"recalibration": label, **ends, "density": density[k], "low": low[k], "high": high[k]}
            )
    return rows


def _transform(cases: Cases) -> Host:
    """The probability that the law gives to what lies below the truth, (case, output)."""
    found = every_element(cases.prediction, cases.target, weight=cases.weight)
    return np.clip(np.nan_to_num(found.cdf, nan=0.5), 0.0, 1.0)


def shape_section(subject: Subject) -> Section | None:
    rows = pit(subject)
    if not rows:
        return None
    labels = [*dict.fromkeys(row["recalibration"] for row in rows)][::-1]
    body = [
        paragraph(
            "Where the truth lies in the predicted distribution, from its lower to its upper end (PIT). True "
            "predictions give bars of equal height. A hill: sigma is too large; a valley: too small; a slope: "
            "predictions are biased; bars at the ends alone: heavier tails than assumed."
        ),
        before_after("pit", labels),
        figure("pit", "Histogram of the probability integral transform"),
    ]
    return Section("pit", "Shape of the errors", body, "Shape", columns(rows), {"labels": labels})
