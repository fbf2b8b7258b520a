"""Shift: is the model less sure about cases that are unlike those it learned from?"""

from dataclasses import dataclass

import numpy as np

from ...core.arrays import Host
from ...core.cases import Cases
from ...core.ranking import rank
from ...core.values import Prediction
from ...diagrams.shift import Shift
from ...diagrams.shift import table as shift_table
from ...evaluation.bootstrap import Estimate, estimate
from ...evaluation.replicates import Resampling, replicate
from ..blocks import Section, figure, paragraph, split
from ..numbers import estimate_text, percent
from ..subject import Subject

NAMES = ("test", "shifted")


@dataclass(frozen=True, eq=False)
class ShiftFound:
    """Histograms of both sets, the AUROC with its interval, and what shifted cases with targets show."""

    shift: Shift
    auroc: Estimate
    coverage: Estimate | None
    rmse: Estimate | None
    cases: int


def table(subject: Subject) -> ShiftFound | None:
    """Compare the variance of test and shifted cases after recalibration; None if no shifted cases were given."""
    if subject.shifted is None:
        return None
    moved = subject.shifted
    prediction = moved.prediction if isinstance(moved, Cases) else moved
    shift = shift_table(subject.after.prediction, {NAMES[1]: prediction}, name=NAMES[0])
    sets = [_variances(p) for p in (subject.after.prediction, prediction)]
    low, high = auroc_interval(*sets, level=subject.plan.level)
    auroc = Estimate(shift.auroc[NAMES[1]], low, high)
    if not isinstance(moved, Cases):
        return ShiftFound(shift, auroc, None, None, len(prediction))
    plan = Resampling.of(
        moved, replicates=subject.plan.replicates, level=subject.plan.level, seed=subject.plan.seed
    )
    found = replicate(moved, [("coverage", {"level": subject.level}), "rmse"], plan)
    coverage, rmse = (estimate(one, plan, share=k == 0) for k, one in enumerate(found))
    return ShiftFound(shift, auroc, coverage, rmse, len(prediction))


def _variances(prediction: Prediction) -> Host:
    return rank(prediction, prediction.location).variance


def auroc_interval(unshifted: Host, shifted: Host, *, level: float) -> tuple[float, float]:
    """Compute the AUROC's confidence interval from its placement values, treating cases as independent.

    If the two sets do not overlap, nothing varies; the bound is then the binomial one of the smaller set.

    Reference: DeLong, DeLong and Clarke-Pearson, Biometrics 1988.
    """
    from scipy.special import ndtri

    def placements(values: Host, others: Host) -> Host:
        """Compute for each value the share of the others below it, ties by half."""
        ordered = np.sort(others)
        sides = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
        return (sides[0] + sides[1]) / (2 * ordered.size)

    above = placements(shifted, unshifted)
    below = 1 - placements(unshifted, shifted)
    variance = sum(float(p.var(ddof=1)) / p.size for p in (above, below) if p.size > 1)
    if variance == 0 and above.mean() in (0.0, 1.0):
        near = ((1 - level) / 2) ** (1 / min(unshifted.size, shifted.size))
        return (near, 1.0) if above.mean() else (0.0, 1 - near)
    half = float(ndtri((1 + level) / 2)) * variance**0.5
    return max(float(above.mean()) - half, 0.0), min(float(above.mean()) + half, 1.0)


def sentences(subject: Subject, found: ShiftFound | None) -> list[str]:
    """Say what the shifted cases show; nothing if there are none."""
    if found is None:
        return []
    sure = [100 * (found.shift.median[n] ** 0.5) / (found.shift.median[NAMES[0]] ** 0.5) for n in NAMES]
    words = [
        f"The typical sigma of the {found.cases:,} shifted cases is {sure[1]:.0f} % of that of the test cases. "
        f"Sigma tells the two apart with an AUROC of {estimate_text(found.auroc)} (0.5 is chance, 1 is perfect)."
    ]
    if found.coverage is not None and found.rmse is not None:
        words.append(
            f"On the shifted cases the {percent(subject.level)} intervals hold "
            f"{estimate_text(found.coverage, share=True)}, with an RMSE of "
            f"{estimate_text(found.rmse, unit=subject.unit)}."
        )
    return words


def section(subject: Subject) -> Section | None:
    found = table(subject)
    if found is None:
        return None
    picture = figure("shift", "Histograms of the predicted sigma of test and shifted cases")
    body = [split([paragraph(words) for words in sentences(subject, found)], picture)]
    root = np.sqrt(found.shift.edges)
    columns = {"sigma_from": root[:-1], "sigma_to": root[1:], **{n: found.shift.share[n] for n in NAMES}}
    medians = {n: found.shift.median[n] ** 0.5 for n in NAMES}
    plain = {key: np.asarray(column).tolist() for key, column in columns.items()}
    return Section("shift", "Shift", body, "", plain, {"names": list(NAMES), "medians": medians})
