"""Where the numbers come from: data and their hashes, the recipe, the fitted recalibration, versions, resampling."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...files.provenance import versions
from ..blocks import Section, details, paragraph
from ..markup import Html, element, join
from ..numbers import percent
from ..subject import BEFORE, Subject


def section(subject: Subject, files: Mapping[str, Mapping[str, Any]], calibration_cases: int) -> Section:
    test = subject.before
    sizes = {"calibration": calibration_cases, "test": len(test)}
    if subject.shifted is not None:
        sizes["shifted"] = len(subject.shifted)
    rows: list[tuple[str, str]] = []
    for name, size in sizes.items():
        about = files.get(name, {})
        parts = [f"{size:,} cases"]
        parts += [f"file {about['file']}"] if "file" in about else []
        parts += [f"SHA-256 {about['sha256']}"] if "sha256" in about else []
        rows.append((f"{name} data", ", ".join(parts)))
    rows.append(("law", test.prediction.law.name))
    rows.append(("recipe", subject.recipe.name))
    for label, card in subject.cards.items():
        if label != BEFORE:
            rows.append((f"fitted: {label}", _fitted(card.recalibration.to_dict())))
    plan = subject.plan
    what = "cases" if plan.by == "case" else f"{plan.by}s, whose cases are drawn together"
    rows.append(
        (
            "intervals",
            f"{percent(plan.level)} bootstrap intervals (BCa for scores, percentiles for bands): {plan.replicates:,} "
            f"replicates of {plan.units:,} {what}, seed {plan.seed}; the fitted recalibration is held fixed",
        )
    )
    rows += [(f"version of {name}", text) for name, text in versions().items()]
    tables = {
        name: table for name, table in subject.recipe.tables.items() if name not in ("network", "train")
    }
    choices = [
        (f"{table}.{key}", str(value)) for table, chosen in tables.items() for key, value in chosen.items()
    ]
    body = join(
        [
            paragraph("Everything that is needed to make this page again."),
            _list(rows),
            details("The choices of the recipe", _list(choices)),
        ]
    )
    return Section("origin", "Where this comes from", body, "Origin")


def _list(rows: list[tuple[str, str]]) -> Html:
    pairs = [join([element("dt", None, name), element("dd", None, text)]) for name, text in rows]
    return element("dl", {"class": "facts"}, *pairs)


def _fitted(described: Mapping[str, Any]) -> str:
    shown = []
    for key, value in described.items():
        if key == "name" or value is None:
            continue
        if isinstance(value, list | tuple):
            value = f"({np.concatenate([np.ravel(part) for part in value]).size} numbers)"
        shown.append(f"{key.replace('_', ' ')} {f'{value:.6g}' if isinstance(value, float) else value}")
    return ", ".join(shown)
