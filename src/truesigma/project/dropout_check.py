"""Is the mean of the draws a worse prediction than one pass without dropout? With batch norm it can be: say so."""

import math
from typing import TYPE_CHECKING

from ..core.cases import Cases
from ..metrics import rmse

if TYPE_CHECKING:
    from .work import Work

CLEARLY = 1.1  # times the error of one pass: from there on a warning


def one_pass(work: "Work", split: str, drawn: Cases) -> tuple[str, str]:
    """Give both errors on a split, and a warning if the draws are clearly worse ("" if they are not).

    Args:
        work: with its one network, trained.
        split: its name.
        drawn: its cases, as they were drawn.
    """
    from ..imaging.prediction.drawing import settled
    from ..imaging.prediction.predict import predict_split

    # An ensemble of one: a single pass, without dropout.
    way = settled(work.runs, single=True, batch=work.project.sample.batch)
    single = predict_split(way.nets, work.data, split, **way.how, moments=True, scaled=work.units.mixed)
    assert isinstance(single, Cases)
    of_draws, of_pass = (rmse.score(cases.prediction, cases.target) for cases in (drawn, single))
    return in_words(of_draws, of_pass, drawn.unit or ""), warning(of_draws, of_pass)


def in_words(draws: float, single: float, unit: str) -> str:
    """Say both root mean squared errors.

    >>> in_words(1.4567, 1.3712, "months")
    'mean of the draws: RMSE 1.46; one pass without dropout: 1.37 (months)'
    """
    return f"mean of the draws: RMSE {draws:.3g}; one pass without dropout: {single:.3g}" + (
        f" ({unit})" if unit else ""
    )


def warning(draws: float, single: float) -> str:
    """Say what to do if the draws are clearly worse; "" if they are not.

    >>> warning(1.46, 1.37)
    ''
    """
    if not draws > CLEARLY * single:
        return ""
    worse = math.inf if single == 0 else 100 * (draws / single - 1)
    return (
        f"warning: the mean of the draws is {worse:.0f} % worse than one pass without dropout: too much dropout for "
        "this network, and all that follows is of the draws. Lower network.stage_dropout in the recipe (0: none inside "
        'the backbone) or network.head_dropout, then --redo; or take sample.method = "ensemble"'
    )
