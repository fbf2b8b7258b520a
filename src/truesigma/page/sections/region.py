"""The joint region of several outputs at once; for two it is drawn for the cases furthest outside."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.law import Undefined
from ...diagrams.region import Outline
from ...diagrams.region import table as outline
from ...metrics import joint_coverage
from ...recalibrate import region
from ..blocks import Section, columns, paragraph
from ..markup import Attributes, Html, element
from ..numbers import number, percent, with_unit
from ..subject import BEFORE, Subject, counted
from ..thumbnails import find_images, picture

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


def table(subject: Subject) -> RegionFound | None:
    """Fit the region on the calibration cases; None if they are too few, or for more than two outputs unless asked."""
    test, calibration = subject.cases[BEFORE], subject.calibration
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


def section(subject: Subject) -> Section | None:
    found = table(subject)
    if found is None:
        return None
    test, fitted = subject.cases[BEFORE], found.fitted
    boxes = joint_coverage.score(subject.after.prediction, subject.after.target, level=fitted.level)
    area = fitted.volume(test.prediction)
    typical = with_unit(number(float(np.median(area[found.counts]))), subject.unit, subject.outputs)
    all_of, size = ("both", "area") if subject.outputs == 2 else (f"all {subject.outputs}", "volume")
    count = int(found.counts.sum())
    words = (
        f"The {percent(fitted.level)} region ({fitted.shape}) holds {all_of} outputs of {percent(found.held, 1)} of "
        f"{count:,} test cases at once; its typical {size} is {typical}. Intervals of each output, "
        f"{percent(fitted.level)} each, hold {all_of} of {percent(boxes, 1)}. It is fitted on "
        f"{len(subject.calibration):,} calibration cases, and holds its level for cases like them, whatever the law of "
        "the errors. Sigma and its intervals are not changed by it."
    )
    order = np.argsort(np.where(found.counts, -found.score, np.inf), kind="stable")[:count]
    rows = []
    for k in order:
        inside = bool(found.score[k] <= fitted.bound())
        rows.append({"case": subject.name_of(k), "score": found.score[k], "inside": inside, size: area[k]})
    body = [paragraph(words)]
    if subject.outputs == 2:
        names = [row["case"] for row in rows[:SHOWN]]
        paths = {} if subject.images is None else find_images(subject.images, names)
        panels = [
            _panel(outline(fitted, test.prediction, test.target, case=int(k)), name, paths.get(name))
            for k, name in zip(order, names)
        ]
        body.append(paragraph("The test cases furthest outside, or closest to the border:", kind="note"))
        body.append(element("div", {"class": "panels"}, *panels))
    title = f"{all_of[:1].upper()}{all_of[1:]} outputs at once"
    return Section("region", title, body, "Region", columns(rows))


def _panel(shown: Outline, name: str, path: Path | None) -> Html:
    """Draw one case: the border, the prediction and the target, on its image if the outputs are its pixels."""
    assert shown.target is not None
    border = shown.border[:: max(1, len(shown.border) // POINTS)]
    every = np.concatenate([border, shown.location[None], shown.target[None]])
    seen = None if path is None else picture(path)
    low, high = every.min(axis=0), every.max(axis=0)
    parts: list[Html] = []
    if seen is not None and (low >= 0).all() and (high <= seen.size).all():
        low, high = np.zeros(2), np.array(seen.size, dtype=float)
        size: Attributes = {"width": f"{high[0]:g}", "height": f"{high[1]:g}", "href": seen.address}
        parts.append(element("image", {"x": 0, "y": 0, "preserveAspectRatio": "none", **size}))
    else:
        room = EDGE * float((high - low).max())
        low, high = low - room, high + room
    span = float((high - low).max())
    pen: Attributes = {"fill": "none", "stroke-width": f"{0.012 * span:.5g}"}
    for kind, path_of in (
        ("after", _path(border)),
        ("after", _cross(shown.location, 0.03 * span, turned=False)),
        ("before", _cross(shown.target, 0.03 * span, turned=True)),
    ):
        parts.append(element("path", {"class": f"whisker {kind}", **pen, "d": path_of}))
    words = "inside" if shown.inside else "outside"
    given: Attributes = {
        "viewBox": f"{low[0]:.6g} {low[1]:.6g} {high[0] - low[0]:.6g} {high[1] - low[1]:.6g}",
        "width": 176,
        "height": 176,
        "role": "img",
        "aria-label": f"{name}: the target is {words} the {percent(shown.level)} region",
    }
    caption = element("figcaption", None, f"{name}: {words}")
    return element("figure", {"class": "panel"}, element("svg", given, *parts), caption)


def _path(points: Host) -> str:
    return "M" + " L".join(f"{x:.6g} {y:.6g}" for x, y in points) + " Z"


def _cross(at: Host, reach: float, *, turned: bool) -> str:
    """The path of a plus, or of a times sign."""
    arms = [(1, 1), (1, -1)] if turned else [(1, 0), (0, 1)]
    lines = [(at - reach * np.array(arm), at + reach * np.array(arm)) for arm in arms]
    return " ".join(f"M{a[0]:.6g} {a[1]:.6g} L{b[0]:.6g} {b[1]:.6g}" for a, b in lines)
