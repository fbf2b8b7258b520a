"""Where the uncertainty comes from: its aleatoric and epistemic share, over all cases and from sure to unsure."""

from typing import Any

import numpy as np

from ...core.bins import assign, bin_edges
from ...core.scores import Mean
from ...evaluation.bootstrap import Estimate, estimate
from ...evaluation.replicates import from_rows, mean_of, stack_rows
from ..blocks import Section, columns, figure, paragraph, split
from ..numbers import estimate_text, percent
from ..subject import Subject

BINS = 10


def table(subject: Subject) -> tuple[list[dict[str, Any]], Estimate] | None:
    """Average variances in bins of equal count of the total, with the epistemic share of all; None if unknown."""
    cases = subject.before
    if cases.prediction.epistemic is None:
        return None
    whole = stack_rows(cases, Mean(lambda e: e.total), {"outputs": "mean"}).toarray()
    inner = stack_rows(cases, Mean(lambda e: e.aleatoric), {"outputs": "mean"}).toarray()
    weight, total, aleatoric = whole[:, 0], whole[:, 1], inner[:, 1]
    both = np.stack([total, total - aleatoric], axis=1)
    found = from_rows([(subject.plan.gather(both), mean_of)], subject.plan)[0]
    some = weight > 0
    value = total[some] / weight[some]
    even = bool((weight[some] == weight[some][0]).all())
    edges = bin_edges(value, bins=BINS, spacing="mass", weight=None if even else weight[some])
    index = assign(value, edges)
    rows = []
    for k in range(len(edges) - 1):
        inside = index == k
        if inside.any():
            count, all_of_it, a = (part[some][inside].sum() for part in (weight, total, aleatoric))
            row = {"count": count, "sigma": float(np.sqrt(all_of_it / count))}
            rows.append({**row, "aleatoric": a / count, "epistemic": max(all_of_it - a, 0.0) / count})
    return rows, estimate(found, subject.plan)


def section(subject: Subject) -> Section | None:
    known = table(subject)
    if known is None:
        return None
    rows, share = known
    ends = [row["epistemic"] / (row["aleatoric"] + row["epistemic"]) for row in (rows[0], rows[-1])]
    words = [
        paragraph(
            "Aleatoric is the noise that the model sees in the data, which more training cases would not cure; "
            "epistemic is what the model does not know, the disagreement of its draws."
        ),
        paragraph(
            f"The epistemic part makes up {estimate_text(share, share=True)} of the variance before recalibration: "
            f"{percent(ends[0])} for the surest tenth of the cases, {percent(ends[1])} for the least sure."
        ),
    ]
    label = "Aleatoric and epistemic variance, from the surest to the least sure tenth of the cases"
    body = [split(words, figure("shares", label))]
    return Section("shares", "Aleatoric and epistemic", body, "Parts", columns(rows))
