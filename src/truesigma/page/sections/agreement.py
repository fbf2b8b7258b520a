"""Truth against prediction, and their difference against their mean (Bland-Altman)."""

from typing import Any

import numpy as np

from ...core.cases import name_of
from ...core.elements import every_element
from ...evaluation.inference.agreement import limits
from ..blocks import Section, choice, columns, controls, figure, paragraph
from ..subject import Subject

MOST = 8  # outputs that have limits of their own


def table(subject: Subject) -> list[dict[str, Any]]:
    """Tabulate the limits of agreement of each output, or of all together if there are many."""
    cases = subject.before
    every = every_element(cases.prediction, cases.target, weight=cases.weight)
    code = np.arange(len(cases))
    if subject.plan.by != "case":
        code = np.unique(cases.patient_or_group, return_inverse=True)[1]
    outputs = every.target.shape[1]
    parts = {k: slice(k, k + 1) for k in range(outputs)} if outputs <= MOST else {None: slice(None)}
    rows = []
    for output, some in parts.items():
        there = every.weight[:, some] > 0
        difference = every.residual[:, some][there]
        made = limits(difference, np.broadcast_to(code[:, None], there.shape)[there])
        if made is not None:
            rows.append({"output": output, **made._asdict(), "cases": int(there.any(axis=1).sum())})
    return rows


def section(subject: Subject) -> Section | None:
    rows = table(subject)
    if not rows:
        return None
    options = {str(row["output"]): name_of(subject.names, row["output"] or 0) for row in rows}
    whose = "" if subject.plan.by == "case" else f", counting that cases of a {subject.plan.by} err together"
    body = [
        paragraph(
            "Left, points should lie along the dashed line. Right, each case's difference between truth and "
            "prediction over their mean: about 95 % lie between the outer lines, the limits of agreement"
            f"{whose}; the middle line is the bias."
        ),
        controls(choice("agreed", "Show", options)) if len(rows) > 1 else "",
        figure("agreement", "Truth against prediction, and difference against mean"),
    ]
    return Section("agreement", "Truth and prediction", body, "Agreement", columns(rows))
