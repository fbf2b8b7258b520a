"""Errors over sigma: every case as a point, inside or outside its interval."""

from typing import Any

import numpy as np

from ...core.law import central_bounds, variance_ratio
from ...core.varying import ByCase, Varying, usual_law
from ..blocks import Section, before_after, figure, paragraph
from ..numbers import percent
from ..subject import BEFORE, Subject, counted, sigma_of

SHOWN = 1500  # points; more would hide each other, and slow the page


def table(subject: Subject, *, seed: int = 0) -> dict[str, list[Any]]:
    """Draw some elements evenly: their names, targets, predictions, and sigma before and after."""
    places = np.flatnonzero(counted(subject.after))
    if places.size > SHOWN:
        places = np.sort(np.random.default_rng(seed).choice(places, SHOWN, replace=False))
    case = places // max(subject.outputs, 1)
    points: dict[str, list[Any]] = {"case": [subject.name_of(k) for k in case]}
    if subject.outputs > 1:
        points["output"] = (places % subject.outputs).tolist()
    if subject.labels:
        points["group"] = [subject.labels_of(k) for k in case]
    for name, cases in subject.pair.items():
        if name == BEFORE:
            points["target"] = np.ravel(cases.target)[places].tolist()
            points["location"] = np.ravel(cases.prediction.location)[places].tolist()
        points[f"sigma {name}"] = np.ravel(sigma_of(cases.prediction))[places].tolist()
    return points


def section(subject: Subject) -> Section | None:
    laws = [cases.prediction.law for cases in subject.pair.values()]
    if any(isinstance(law, Varying) and not isinstance(law, ByCase) for law in laws):
        return None  # what differs from case to case is no funnel of sigma
    points = table(subject)
    bounds = {}
    for label, cases in subject.pair.items():
        law = usual_law(cases.prediction.law)
        ratio = 1 / np.sqrt(variance_ratio(law) * law.unit)  # of scale to sigma
        bounds[label] = [b * ratio for b in central_bounds(law, subject.level)]
    whole = int(np.prod(subject.before.prediction.location.shape))
    some = "" if len(points["case"]) == whole else f" {len(points['case']):,} of {whole:,} points are shown."
    labels = [*subject.pair][::-1]
    body = [
        paragraph(
            "Each point is a case: how far the truth was from the prediction, over the predicted sigma. The "
            f"funnel is the {percent(subject.level)} interval; points outside are coloured. Errors should "
            f"grow as the funnel does, on both sides alike.{some}"
        ),
        before_after("funnel", labels),
        figure("scatter", "Errors over predicted sigma"),
    ]
    settings = {"bounds": bounds, "labels": labels, "names": subject.names}
    return Section("scatter", "Error over sigma", body, "Errors", points, settings)
