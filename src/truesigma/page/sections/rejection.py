"""The gain of referring unsure cases: the error of the rest, and the scale above which to refer."""

import math
from dataclasses import dataclass

import numpy as np

from ...core.arrays import Host
from ...core.ranking import keep_lowest
from ...core.scores import Mean
from ...evaluation.replicates import stack_rows
from ..blocks import Section, columns, controls, figure, how_to_read, paragraph
from ..markup import Attributes, element
from ..numbers import number, percent, with_unit
from ..subject import Subject

STEPS = 100
START = 10  # where the slider begins
GAIN = 0.995  # of the error; leaving more than this is no gain


@dataclass(frozen=True, eq=False)
class Referred:
    """For each desired share 0, 1 ... 99 %: the threshold, what is really referred, and the error of the rest."""

    wished: Host
    threshold: Host  # scale above which a case is referred; equal ones stay together, so fewer than desired may leave
    referred: Host  # share of the cases above the threshold
    cases: Host  # how many they are
    mse: Host  # of the rest
    low: Host
    high: Host
    oracle: Host  # MSE of the rest when the largest errors are referred first

    def row(self, percent: int) -> dict[str, float]:
        """Return the row of one place of the slider."""
        return {name: float(getattr(self, name)[percent]) for name in self.__dataclass_fields__}


def table(subject: Subject) -> Referred:
    """Refer cases starting with the least sure, as a threshold on sigma would; the band is the bootstrap's."""
    held, variance = _errors(subject)
    weight, error = held.T
    some = weight > 0
    kept = keep_lowest(variance[some], error[some] / weight[some], weight[some])
    best = keep_lowest(error[some] / weight[some], error[some] / weight[some], weight[some])
    wished = np.arange(STEPS) / STEPS
    # The lowest threshold that refers no more than desired; the slack is for rounding errors in the sums of shares.
    place = np.clip(np.searchsorted(kept.share[1:], 1 - wished - 1e-9), 0, kept.key.size - 1)
    threshold = kept.key[place]
    low, high = _band(subject, held, variance, threshold)
    share = kept.share[place + 1]
    return Referred(
        wished=wished,
        threshold=np.sqrt(threshold),
        referred=1 - share,
        cases=np.array([(variance[some] > t).sum() for t in threshold]),
        mse=kept.total[place + 1] / share,
        low=low,
        high=high,
        oracle=best.mse(share),
    )


def _errors(subject: Subject) -> tuple[Host, Host]:
    """Sum each case: weight, weighted squared error, and its variance, infinite if nothing counts."""
    cases = subject.after
    held = stack_rows(cases, Mean(lambda e: e.squared), {"outputs": "mean"}).toarray()
    some = held[:, 0] > 0
    total = stack_rows(cases, Mean(lambda e: e.total), {"outputs": "mean"}).toarray()[:, 1]
    # The threshold is for the scale that `apply` writes, which a recalibration of the law leaves as it is.
    unit = cases.prediction.law.unit
    return held, np.where(some, total / np.where(some, held[:, 0], 1) / unit, np.inf)


def _band(subject: Subject, held: Host, variance: Host, threshold: Host) -> tuple[Host, Host]:
    """Bootstrap the kept cases' MSE, at thresholds that are held fixed."""
    # Thresholds fall, so a case is kept at the first few of them.
    stays = np.searchsorted(-threshold, -variance, side="right")
    plan, width = subject.plan, STEPS + 1
    cell = plan.code * width + stays
    sums = [np.bincount(cell, part, plan.clusters * width).reshape(-1, width) for part in held.T]
    drawn = plan.draw(np.concatenate(sums, axis=1)).reshape(-1, 2, width)
    weight, error = np.moveaxis(np.cumsum(drawn[:, :, ::-1], axis=2)[:, :, ::-1][:, :, 1:], 1, 0)
    return plan.band(error / np.where(weight > 0, weight, np.nan))


def sentence(subject: Subject, row: dict[str, float], mse: float) -> str:
    """Say in words what one place of the slider means."""
    unit = subject.unit
    rmse = math.sqrt(row["mse"])
    bounds = f"[{number(math.sqrt(row['low']))}, {number(math.sqrt(row['high']))}]"
    gain = "" if rmse < GAIN * math.sqrt(mse) else ", so nothing is gained"
    return (
        f"Refer {row['cases']:,.0f} case{'' if row['cases'] == 1 else 's'} ({percent(row['referred'], 1)}), those with "
        f"a scale above {with_unit(number(row['threshold']), unit)}: the RMSE of the rest is "
        f"{with_unit(number(rmse), unit)} {bounds} instead of {with_unit(number(math.sqrt(mse)), unit)}{gain}."
    )


def gained(made: Section, unit: str) -> str:
    """Say in one line what referring the least sure tenth gains; nothing where equal sigmas cannot be told apart."""
    referred, rest, blind = (made.table[name][START] for name in ("referred", "rmse", "mse_blind"))
    if not referred:
        return ""
    if rest >= GAIN * math.sqrt(blind):
        return f"nothing: without the least sure {percent(referred)} errors are as large"
    with_all = with_unit(number(math.sqrt(blind)), unit)
    return f"without the least sure {percent(referred)}, RMSE {with_unit(number(rest), unit)} instead of {with_all}"


def section(subject: Subject) -> Section:
    found = table(subject)
    mse = float(found.mse[0])
    range_of: Attributes = {
        "type": "range",
        "id": "refer",
        "min": 0,
        "max": STEPS - 1,
        "step": 1,
        "value": START,
    }
    said = sentence(subject, found.row(START), mse)
    shown = element("output", {"id": "referred", "for": "refer", "aria-live": "polite"}, said)
    note = " Sigma and error of a case are root means over its outputs." if subject.outputs > 1 else ""
    scale = f"after {subject.label}" if subject.recalibrated else "as it is"
    body = [
        paragraph("Hand the least sure cases to an expert: move the slider to see what error is left."),
        controls(
            element("label", {"for": "refer", "class": "slider"}, "Refer the least sure cases"),
            element("input", range_of),
        ),
        element("p", {"class": "answer"}, shown),
        figure("rejection", "Error of the cases that are kept, over the share that is referred"),
        how_to_read(
            "The curve should fall; the dotted one is what perfect knowledge of the errors would give, the dashed line "
            "what referring blindly gives. One factor on all sigmas changes the threshold, not the curve. The "
            f"threshold is for the scale {scale}, as apply writes it. The band is the {100 * subject.plan.level:g} % "
            f"bootstrap interval by {subject.plan.by}, at thresholds held fixed.{note}"
        ),
    ]
    rows = []
    for r in map(found.row, range(STEPS)):
        referred = {"wished": r["wished"], "referred": r["referred"], "cases": int(r["cases"])}
        kept = {"mse": r["mse"], "mse_low": r["low"], "mse_high": r["high"], "rmse": math.sqrt(r["mse"])}
        bounds = {"mse_oracle": r["oracle"], "mse_blind": mse}
        rows.append({**referred, "sigma_threshold": r["threshold"], **kept, **bounds})
    settings = {"start": START, "gain": GAIN}
    return Section("rejection", "Referring the unsure", body, "Referring", columns(rows), settings)
