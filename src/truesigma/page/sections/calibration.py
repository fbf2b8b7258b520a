"""Calibration diagrams before and after: observed error over predicted sigma, with bands and counts."""

from typing import Any

import numpy as np

from ...core import plugins
from ...core.bins import Spacing
from ...core.cases import Cases
from ...core.law import Undefined
from ...core.sketches import edges_over
from ...diagrams.calibration import TRUST
from ...evaluation.replicates import metric_rows
from ..blocks import Section, choice, columns, controls, figure, how_to_read, paragraph
from ..subject import Subject, counted

BINS = 15


def table(subject: Subject) -> list[dict[str, Any]]:
    """Tabulate the bins of each diagram: variance, mean squared error and its bootstrap band, count."""
    rows = []
    for label, cases in subject.pair.items():
        for spacing in ("mass", "width"):
            try:
                rows += _bins(subject, label, cases, spacing)
            except Undefined:  # a law without a variance has no such diagram
                continue
    return rows


def _bins(subject: Subject, label: str, cases: Cases, spacing: Spacing) -> list[dict[str, Any]]:
    uce = plugins.load("metrics", "uce")
    asked = {k: v for k, v in subject.options("uce").items() if k in ("outputs", "error")}
    options: dict[str, Any] = {"outputs": "separate", "error": "mean", **asked}
    binned: dict[str, Any] = {"bins": BINS, "spacing": spacing}
    run = (cases.prediction, cases.target, cases.weight)
    edges = edges_over([run], outputs=options["outputs"], wide=True, **binned)
    held, _ = metric_rows(cases, uce, {**options, **binned}, subject.plan.code)
    count, error, variance = np.asarray(held.sum(axis=0)).reshape(4, -1)[:3, 1:]
    inside = counted(cases).reshape(len(cases), -1)
    elements = inside.sum() if options["outputs"] == "separate" else inside.any(axis=1).sum()
    heaviness = count.sum() / elements  # bins are judged by elements, whatever the unit of weights
    drawn = subject.plan.draw(held).reshape(subject.plan.replicates, 4, -1)[:, :2, 1:]
    rows = []
    for k in np.flatnonzero(count > 0):
        some = drawn[:, 0, k] > 0
        low, high = subject.plan.band(drawn[some, 1, k] / drawn[some, 0, k])
        ends = {"variance_from": edges[k], "variance_to": edges[k + 1], "count": count[k] / heaviness}
        means = {"variance": variance[k] / count[k], "squared_error": error[k] / count[k]}
        band = {"squared_error_low": low, "squared_error_high": high}
        rows.append({"recalibration": label, "bins": spacing, **ends, **means, **band})
    return rows


def section(subject: Subject) -> Section:
    of_draws = subject.options("uce").get("error") == "draws"
    body = [
        paragraph(
            "Cases with about the same predicted sigma share a bin; each point shows the error that its cases "
            "really had. On the dashed line every promise is kept; above it the model is too sure."
        ),
        controls(
            choice("bins", "Bins", {"mass": "equal count", "width": "equal width"}),
            choice("axes", "Axes", {"root": "sigma", "square": "variance"}),
        ),
        figure("calibration", "Calibration diagrams: observed error over predicted sigma"),
        how_to_read(
            f"The error is the squared error of {'every draw' if of_draws else 'the prediction'}; bins of equal count "
            "are those of ENCE, bins of equal width those of UCE. Bars on top count the elements of each bin (their "
            f"roots); hollow points are bins of fewer than {TRUST}. Bands are {100 * subject.plan.level:g} % bootstrap "
            f"intervals by {subject.plan.by}. A straight line through the origin with another slope is mended by one "
            "factor; a bent line is not; a flat line means that sigma does not know which cases are hard."
        ),
    ]
    settings = {"labels": list(subject.pair), "trust": TRUST}
    return Section("calibration", "Calibration", body, "", columns(table(subject)), settings)
