"""Estimated against observed intervals: does the 90 % interval hold 90 %?"""

from typing import Any

import numpy as np
from scipy.sparse import hstack

from ...core import plugins
from ...core.varying import known_levels
from ...diagrams.coverage import LEVELS
from ...evaluation.replicates import metric_rows
from ..blocks import Section, columns, figure, how_to_read, paragraph, split
from ..numbers import percent
from ..subject import Subject


def table(subject: Subject) -> list[dict[str, Any]]:
    """Tabulate the observed share at each level, before and after, with its bootstrap band."""
    metric = plugins.load("metrics", "coverage")
    rows = []
    for label, cases in subject.pair.items():
        levels = known_levels(cases.prediction.law, LEVELS)
        each = [metric_rows(cases, metric, {"level": level}, subject.plan.code)[0] for level in levels]
        held = hstack(each, format="csr")
        whole, drawn = np.asarray(held.sum(axis=0)).ravel(), subject.plan.draw(held)
        weight = np.where(drawn[:, ::2] > 0, drawn[:, ::2], np.nan)
        low, high = subject.plan.band(drawn[:, 1::2] / weight)
        observed = whole[1::2] / whole[::2]
        for level, share, below, above in zip(levels, observed, low, high):
            held_there = {"observed": share, "low": below, "high": above}
            rows.append({"recalibration": label, "level": level, **held_there})
    return rows


def section(subject: Subject) -> Section:
    words = [
        paragraph(
            "For every level, the share of targets that fell inside the interval of that level. Below the dashed "
            "line intervals hold less than they promise."
        ),
        how_to_read(
            f"Bands are {percent(subject.plan.level)} bootstrap intervals by {subject.plan.by}, at each level on its "
            "own. This picture can look right while the calibration diagram does not: intervals too wide for easy "
            "cases and too narrow for hard ones cancel out."
        ),
    ]
    body = [split(words, figure("intervals", "Observed over estimated intervals"))]
    return Section(
        "intervals", "Intervals", body, "", columns(table(subject)), {"labels": list(subject.pair)}
    )
