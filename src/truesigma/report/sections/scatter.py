"""Errors over sigma: every case as a point, inside or outside its interval."""

from typing import Any

import numpy as np

from ...core.by_case import Stated, usual_law
from ...core.law import central_bounds, variance_ratio
from ..blocks import Section, choice, controls, csv_button, figure, paragraph
from ..markup import join
from ..numbers import percent
from ..subject import BEFORE, Subject, counted, sigma_of

SHOWN = 1500  # points; more would hide each other, and slow the page


def table(subject: Subject, *, seed: int = 0) -> dict[str, list[Any]]:
    """Draw some elements evenly: their names, targets, predictions, and sigma before and after."""
    places = np.flatnonzero(counted(subject.after))
    if places.size > SHOWN:
        places = np.sort(np.random.default_rng(seed).choice(places, SHOWN, replace=False))
    case = places // max(subject.outputs, 1)
    found: dict[str, list[Any]] = {"case": [name_of(subject, k) for k in case]}
    if subject.outputs > 1:
        found["output"] = (places % subject.outputs).tolist()
    if labels_of(subject):
        found["group"] = [label_of(subject, k) for k in case]
    for name, cases in subject.pair.items():
        if name == BEFORE:
            found["target"] = np.ravel(cases.target)[places].tolist()
            found["location"] = np.ravel(cases.prediction.location)[places].tolist()
        found[f"sigma {name}"] = np.ravel(sigma_of(cases.prediction))[places].tolist()
    return found


def name_of(subject: Subject, case: Any) -> str:
    """Return the case's id, or its number (from 0)."""
    return f"case {case}" if subject.before.id is None else str(subject.before.id[case])


def labels_of(subject: Subject) -> dict[str, Any]:
    """What the cases are called besides their id: patients, then groups by their columns."""
    patient = subject.before.patient
    return {**({} if patient is None else {"patient": patient}), **subject.before.groups}


def label_of(subject: Subject, case: Any) -> str:
    """Return these names for one case."""
    return ", ".join(str(names[case]) for names in labels_of(subject).values())


def section(subject: Subject) -> Section | None:
    if isinstance(subject.before.prediction.bounds, Stated):
        return None  # predicted bounds are not a funnel of sigma
    points = table(subject)
    bounds = {}
    for label, cases in subject.pair.items():
        law = usual_law(cases.prediction.law)
        ratio = 1 / np.sqrt(variance_ratio(law) * law.unit)  # of scale to sigma
        bounds[label] = [b * ratio for b in central_bounds(law, subject.level)]
    whole = int(np.prod(subject.before.prediction.location.shape))
    some = "" if len(points["case"]) == whole else f" {len(points['case']):,} of {whole:,} points are shown."
    options = {label: "before" if label == BEFORE else f"after {label}" for label in reversed(subject.pair)}
    body = join(
        [
            paragraph(
                "Each point is a case: how far the truth was from the prediction, over the predicted sigma. The "
                f"funnel is the {percent(subject.level)} interval; points outside are coloured. Errors should "
                f"grow as the funnel does, on both sides alike.{some}"
            ),
            controls(choice("funnel", "Sigma", options)) if len(options) > 1 else "",
            figure("scatter", "Errors over predicted sigma"),
            csv_button("scatter"),
        ]
    )
    return Section(
        "scatter", "Error over sigma", body, "Errors", points, {"bounds": bounds, "labels": list(options)}
    )
