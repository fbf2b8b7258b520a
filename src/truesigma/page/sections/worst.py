"""The worst cases: where the model was surest and wrong, and where it was furthest from the truth."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.cases import name_of
from ..blocks import Section, cell, columns, paragraph, table
from ..markup import Html, element, join
from ..numbers import number, percent, with_unit
from ..subject import Subject, counted, sigma_of
from ..thumbnails import find_images, picture

SHOWN = 10
TITLES = {
    "surprise": "Surest and wrong: the largest errors measured in sigmas",
    "error": "Furthest from the truth: the largest errors",
}


def worst(subject: Subject) -> dict[str, list[dict[str, Any]]]:
    """Find the cases with the largest |error| / sigma and |error|, each with the output where it is largest."""
    cases = subject.after
    p, size = cases.prediction, len(cases)
    inside = np.reshape(counted(cases), (size, -1))
    error, sigma, location, target = (
        np.reshape(part, (size, -1))
        for part in (cases.target - p.location, sigma_of(p), p.location, cases.target)
    )
    sigma = np.where(inside, sigma, 1.0)  # what is masked may be 0 of 0
    bounds = p.interval(subject.level)
    low, high = (np.reshape(part, (size, -1)) for part in (bounds.lower, bounds.upper))
    lists = {}
    for kind, value in (("surprise", abs(error) / sigma), ("error", abs(error))):
        value = np.where(inside, value, -np.inf)
        output = value.argmax(axis=1)
        rows = []
        for case in np.argsort(-value.max(axis=1), kind="stable")[: min(SHOWN, size)]:
            k = output[case]
            if not inside[case, k]:
                continue
            row: dict[str, Any] = {"list": kind, "case": subject.name_of(case)}
            row |= {"group": subject.labels_of(case), "output": name_of(subject.names, int(k))}
            row |= {"target": target[case, k], "location": location[case, k], "error": error[case, k]}
            row |= {"low": low[case, k], "high": high[case, k], "sigma": sigma[case, k]}
            rows.append({**row, "ratio": abs(error[case, k]) / sigma[case, k]})
        lists[kind] = rows
    return lists


def section(subject: Subject) -> Section:
    lists = worst(subject)
    every = [row for rows in lists.values() for row in rows]
    names = {row["case"] for row in every}
    body = [
        paragraph(
            "Look at these cases first: a wrong label, a broken image or a kind of case the model does not know "
            "is often among them."
        )
    ]
    pictures = None
    if subject.images is not None:
        paths = find_images(subject.images, names)
        shown = {name: picture(path) for name, path in paths.items()}
        pictures = {name: one.address for name, one in shown.items() if one is not None}
        if missing := len(names) - len(pictures):
            words = f"{missing} of these {len(names)} cases have no readable image of their id in the folder."
            body.append(paragraph(words, kind="note"))
    body += [_table(subject, TITLES[kind], rows, pictures) for kind, rows in lists.items()]
    return Section("worst", "Worst cases", body, "", columns(every))


def _table(
    subject: Subject, caption: str, rows: list[dict[str, Any]], pictures: Mapping[str, str] | None
) -> Html:
    named, many = ", ".join(subject.labels), subject.outputs > 1
    head = ["case", *([named] if named else []), *(["output"] if many else []), "truth", "prediction"]
    head += [f"{percent(subject.level)} interval", "error", "sigma", "error / sigma"]
    body = []
    for row in rows:
        name: list[str] = [element("span", {"class": "name"}, row["case"])]
        if pictures is not None and row["case"] in pictures:
            name.insert(0, element("img", {"class": "thumbnail", "src": pictures[row["case"]], "alt": ""}))
        elif pictures is not None:
            name.insert(0, element("span", {"class": "thumbnail none"}, "no image"))
        cells = [cell(join(name), head=True)]
        cells += [cell(row["group"])] if named else []
        cells += [cell(row["output"])] if many else []
        # Enough digits to distinguish truth and prediction, however far both are from 0.
        shown = {key: number(row[key], row["sigma"] / 10) for key in ("target", "location", "low", "high")}
        cells += [cell(shown[key], number=True, sort=row[key]) for key in ("target", "location")]
        cells.append(cell(f"{shown['low']} to {shown['high']}", number=True, sort=row["low"]))
        for key in ("error", "sigma"):
            cells.append(cell(with_unit(number(row[key]), subject.unit), number=True, sort=row[key]))
        body.append([*cells, cell(number(row["ratio"]), number=True, sort=row["ratio"])])
    return table(head, body, caption=caption, sort=True)
