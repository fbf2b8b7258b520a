"""Calibration diagrams before and after: observed error over predicted sigma, with bands and counts."""

from typing import Any

import numpy as np

from ...core import plugins
from ...core.bins import Spacing
from ...core.law import Undefined
from ...core.scores import edges_over
from ...core.values import Cases
from ...diagrams.calibration import TRUST
from ...evaluation.replicates import metric_rows
from ..blocks import Section, choice, columns, controls, csv_button, details, figure, paragraph
from ..markup import join
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
    options: dict[str, Any] = {
        "outputs": "separate",
        "error": "mean",
        **asked,
        "bins": BINS,
        "spacing": spacing,
    }
    edges = edges_over(
        [(cases.prediction, cases.target, cases.weight)],
        outputs=options["outputs"],
        bins=BINS,
        spacing=spacing,
        wide=True,
    )
    held, _ = metric_rows(cases, uce, options, subject.plan.code)
    count, error, variance = np.asarray(held.sum(axis=0)).reshape(4, -1)[:3, 1:]
    inside = counted(cases).reshape(len(cases), -1)
    elements = inside.sum() if options["outputs"] == "separate" else inside.any(axis=1).sum()
    heaviness = count.sum() / elements  # bins are judged by elements, whatever the unit of weights
    drawn = subject.plan.draw(held).reshape(subject.plan.replicates, 4, -1)[:, :2, 1:]
    found = []
    for k in np.flatnonzero(count > 0):
        some = drawn[:, 0, k] > 0
        low, high = subject.plan.band(drawn[some, 1, k] / drawn[some, 0, k])
        middle, mean = variance[k] / count[k], error[k] / count[k]
        row = {
            "recalibration": label,
            "bins": spacing,
            "variance_from": edges[k],
            "variance_to": edges[k + 1],
        }
        row |= {"count": count[k] / heaviness, "variance": middle, "squared_error": mean}
        found.append({**row, "squared_error_low": low, "squared_error_high": high})
    return found


def section(subject: Subject) -> Section:
    rows = table(subject)
    options = subject.options("uce")
    compared = (
        "the squared error of every draw"
        if options.get("error") == "draws"
        else "the squared error of the prediction"
    )
    body = join(
        [
            paragraph(
                "Cases with about the same predicted sigma share a bin; each point shows the error that its cases "
                "really had. On the dashed line every promise is kept; above it the model is too sure."
            ),
            controls(
                choice("bins", "Bins", {"mass": "equal count", "width": "equal width"}),
                choice("axes", "Axes", {"root": "sigma", "square": "variance"}),
            ),
            figure("calibration", "Calibration diagrams: observed error over predicted sigma"),
            details(
                "How to read this",
                paragraph(
                    f"The error is {compared}; bins of equal count are those of ENCE, bins of equal width those "
                    "of UCE. Bars on top count the elements of each bin (their roots); hollow points are bins of "
                    f"fewer than {TRUST}. Bands are {100 * subject.plan.level:g} % bootstrap intervals by "
                    f"{subject.plan.by}. A straight line through the origin with another slope is mended by one "
                    "factor; a bent line is not; a flat line means that sigma does not know which cases are hard."
                ),
            ),
            csv_button("calibration"),
        ]
    )
    shown = list(subject.pair)
    return Section("calibration", "Calibration", body, "", columns(rows), {"labels": shown, "trust": TRUST})
