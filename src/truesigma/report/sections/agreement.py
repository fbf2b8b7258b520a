"""Truth against prediction, and their difference against their mean (Bland-Altman)."""

from typing import Any

import numpy as np

from ...core.ranking import columns_of
from ...evaluation.inference.agreement import limits
from ..blocks import Section, choice, columns, controls, csv_button, figure, paragraph
from ..markup import join
from ..subject import Subject

MOST = 8  # outputs that have limits of their own


def table(subject: Subject) -> list[dict[str, Any]]:
    """Tabulate the limits of agreement of each output, or of all together if there are many."""
    cases = subject.before
    found = columns_of(cases.prediction, cases.target, weight=cases.weight)
    code = np.arange(len(cases))
    if subject.plan.by != "case":
        code = np.unique(cases.cluster, return_inverse=True)[1]
    apart = found.target.shape[1] <= MOST
    rows = []
    for number in range(found.target.shape[1] if apart else 1):
        some = slice(number, number + 1) if apart else slice(None)
        there = found.weight[:, some] > 0
        difference = (found.target - found.location)[:, some][there]
        whose = np.broadcast_to(code[:, None], there.shape)[there]
        made = limits(difference, whose)
        if made is not None:
            rows.append(
                {"output": number if apart else None, **made._asdict(), "cases": int(there.any(axis=1).sum())}
            )
    return rows


def section(subject: Subject) -> Section | None:
    found = table(subject)
    if not found:
        return None
    several = len(found) > 1
    options = {str(row["output"]): f"output {row['output']}" for row in found}
    whose = "" if subject.plan.by == "case" else f", counting that cases of a {subject.plan.by} err together"
    body = join(
        [
            paragraph(
                "Left, points should lie along the dashed line. Right, each case's difference between truth and "
                "prediction over their mean: about 95 % lie between the outer lines, the limits of agreement"
                f"{whose}; the middle line is the bias."
            ),
            controls(choice("agreed", "Show", options)) if several else "",
            figure("agreement", "Truth against prediction, and difference against mean"),
            csv_button("agreement"),
        ]
    )
    return Section("agreement", "Truth and prediction", body, "Agreement", columns(found))
