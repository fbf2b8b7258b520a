"""The five questions about sets of cases: all five for cases in memory, for files those that sums can answer."""

import math
from collections.abc import Sequence
from typing import Any

from .fit import Fit, choose_all
from .inference.summed import RESIDUAL, TARGET, WEIGHT, summed_sets
from .passes import Asking, pass_over
from .questions import ANSWERED, MOST_OUTPUTS, answers, summed_answers, unanswered
from .sets import CaseSet


def answers_of(calibration: CaseSet, test: CaseSet, fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """The answers of all five questions if the cases fit into memory; otherwise of those that sums can answer."""
    both = (calibration, test)
    count = max(one.elements for one in both)
    if count <= ANSWERED and all(one.fits for one in both):
        fitted = {fit.chosen.label: fit.fitted for fit in fits}
        return answers(calibration.read(), test.read(), fitted, calibration.recipe)
    return _summed_answers(calibration, test, fits, f"{count:,} elements are not looked at together")


def _summed_answers(
    calibration: CaseSet, test: CaseSet, fits: Sequence[Fit], reason: str
) -> list[dict[str, Any]]:
    """Answer skill, centre and size from a pass over each set; the other questions say why they have no answer."""
    plain = choose_all(["none"], calibration.recipe)["none"]
    every = {"none": Fit(plain, plain.module.Identity())}
    every |= {
        fit.chosen.label: fit for fit in fits if "bounds" not in fit.chosen.needs
    }  # those have no sigma
    outputs = math.prod(calibration.outputs or ()) if calibration.outputs == test.outputs else 0
    apart = 1 < outputs <= MOST_OUTPUTS
    fitted = [(fit.chosen.module, fit.fitted) for fit in every.values()]
    known = pass_over(calibration, Asking(fitted, [0.0], apart), "questions")
    sums = known["0/sums"][1:] if apart else known["0/sums"]
    asking = Asking(fitted, (sums[:, TARGET] / sums[:, WEIGHT]).tolist(), apart)
    sets: list[dict[str, Any]] = [{}, {}]
    for own, held in zip(sets, [pass_over(one, asking, "questions") for one in (calibration, test)]):
        for number, label in enumerate(every):
            start = f"{number}/"
            mine = {key.removeprefix(start): one for key, one in held.items() if key.startswith(start)}
            moves = mine["sums"][0, RESIDUAL] != held["0/sums"][0, RESIDUAL]
            own[label] = summed_sets(mine, test.law, test.unit, reason, moves=bool(moves))
    left = [
        row
        for row in unanswered([fit.chosen.label for fit in fits], reason)
        if row["recalibration"] not in every
    ]
    return [*summed_answers(sets[0], sets[1], test.names), *left]
