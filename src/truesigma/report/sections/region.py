"""The joint region of several outputs at once; for two it is drawn for the cases furthest outside."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.law import Undefined
from ...core.values import Cases
from ...diagrams.region import Outline
from ...diagrams.region import table as outline
from ...metrics import joint_coverage
from ...recalibrate import region
from ..blocks import Section, columns, csv_button, paragraph
from ..markup import Attributes, Html, element, join
from ..numbers import number, percent, with_unit
from ..subject import BEFORE, Subject, counted
from ..thumbnails import find_images, picture
from .scatter import name_of

SHOWN = 6
EDGE = 0.08  # of the panel, kept free around what is drawn
POINTS = 61  # of an ellipse


@dataclass(frozen=True, eq=False)
class RegionFound:
    """The fitted region, how far out each test case lies, and which of them count."""

    fitted: region.Region
    score: Host
    counts: Host

    @property
    def held(self) -> float:
        return float((self.score[self.counts] <= self.fitted.bound()).mean())


def table(subject: Subject, calibration: Cases) -> RegionFound | None:
    """Fit the region on the calibration cases; None if they are too few, or for more than two outputs unless asked."""
    test = subject.cases[BEFORE]
    counts = np.asarray(counted(test).reshape(len(test), -1).all(axis=1))
    known = [c.recalibration for c in subject.cards.values() if isinstance(c.recalibration, region.Region)]
    if not (known or subject.outputs == 2) or not counts.any():
        return None
    try:
        prediction = subject.recipe.prediction(calibration)
        given: Any = {"level": subject.level, "patient": calibration.patient}
        fitted = known[0] if known else region.fit(prediction, calibration.target, **given)
        if fitted.too_few_for(fitted.level):
            return None
        return RegionFound(fitted, fitted.score(test.prediction, test.target), counts)
    except (ValueError, Undefined):  # too few cases, or none with both outputs
        return None


def section(
    subject: Subject, found: RegionFound | None, calibration_cases: int, images: Path | None = None
) -> Section | None:
    if found is None:
        return None
    test, fitted = subject.cases[BEFORE], found.fitted
    boxes = joint_coverage.score(subject.after.prediction, subject.after.target, level=fitted.level)
    area = fitted.volume(test.prediction)
    typical = with_unit(number(float(np.median(area[found.counts]))), subject.unit, subject.outputs)
    all_of, size = ("both", "area") if subject.outputs == 2 else (f"all {subject.outputs}", "volume")
    words = (
        f"The {percent(fitted.level)} region ({fitted.shape}) holds {all_of} outputs of {percent(found.held, 1)} of "
        f"{int(found.counts.sum()):,} test cases at once; its typical {size} is {typical}. Intervals of each output, "
        f"{percent(fitted.level)} each, hold {all_of} of {percent(boxes, 1)}. It is fitted on {calibration_cases:,} "
        "calibration cases, and holds its level for cases like them, whatever the law of the errors. Sigma and its "
        "intervals are not changed by it."
    )
    ordered = np.argsort(np.where(found.counts, -found.score, np.inf), kind="stable")
    order = ordered[: min(SHOWN, int(found.counts.sum()))]
    names = [name_of(subject, int(k)) for k in order]
    paths = {} if images is None else find_images(images, names)
    body = [paragraph(words)]
    if subject.outputs == 2:
        drawn = [
            _panel(outline(fitted, test.prediction, test.target, case=int(k)), name, paths.get(name))
            for k, name in zip(order, names)
        ]
        body.append(paragraph("The test cases furthest outside, or closest to the border:", kind="note"))
        body.append(element("div", {"class": "panels"}, *drawn))
    body.append(csv_button("region"))
    rows = [
        {
            "case": name_of(subject, int(k)),
            "score": found.score[k],
            "inside": bool(found.score[k] <= fitted.bound()),
        }
        | {size: area[k]}
        for k in ordered[: int(found.counts.sum())]
    ]
    title = f"{all_of[:1].upper()}{all_of[1:]} outputs at once"
    return Section("region", title, join(body), "Region", columns(rows))


def _panel(shown: Outline, name: str, path: Path | None) -> Html:
    """Draw one case: the border, the prediction and the target, on its image if the outputs are its pixels."""
    assert shown.target is not None
    border = (
        shown.border[:: max(1, len(shown.border) // POINTS)] if len(shown.border) > POINTS else shown.border
    )
    every = np.concatenate([border, shown.location[None], shown.target[None]])
    seen = None if path is None else picture(path)
    low, high = every.min(axis=0), every.max(axis=0)
    back: list[Html] = []
    if seen is not None and (low >= 0).all() and (high <= seen.size).all():
        low, high = np.zeros(2), np.array(seen.size, dtype=float)
        size: Attributes = {"width": f"{high[0]:g}", "height": f"{high[1]:g}", "href": seen.address}
        back = [element("image", {"x": 0, "y": 0, "preserveAspectRatio": "none", **size})]
    else:
        room = EDGE * float((high - low).max())
        low, high = low - room, high + room
    span = float((high - low).max())
    mark = 0.03 * span
    pen: Attributes = {"fill": "none", "stroke-width": f"{0.012 * span:.5g}"}
    parts = [
        *back,
        element("path", {"class": "whisker after", **pen, "d": _path(border)}),
        *[
            element(
                "path", {"class": "whisker after", **pen, "d": _cross(shown.location, mark, turned=False)}
            )
        ],
        *[element("path", {"class": "whisker before", **pen, "d": _cross(shown.target, mark, turned=True)})],
    ]
    box = f"{low[0]:.6g} {low[1]:.6g} {high[0] - low[0]:.6g} {high[1] - low[1]:.6g}"
    words = "inside" if shown.inside else "outside"
    given: Attributes = {"viewBox": box, "width": 176, "height": 176, "role": "img"}
    label = f"{name}: the target is {words} the {percent(shown.level)} region"
    return element(
        "figure",
        {"class": "panel"},
        element("svg", {**given, "aria-label": label}, *parts),
        element("figcaption", None, f"{name}: {words}"),
    )


def _path(points: Host) -> str:
    return "M" + " L".join(f"{x:.6g} {y:.6g}" for x, y in points) + " Z"


def _cross(at: Host, reach: float, *, turned: bool) -> str:
    """The path of a plus, or of a times sign."""
    arms = [(1, 1), (1, -1)] if turned else [(1, 0), (0, 1)]
    lines = [(at - reach * np.array(arm), at + reach * np.array(arm)) for arm in arms]
    return " ".join(f"M{a[0]:.6g} {a[1]:.6g} L{b[0]:.6g} {b[1]:.6g}" for a, b in lines)
