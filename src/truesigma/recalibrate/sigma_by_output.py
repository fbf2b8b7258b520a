r"""Sigma scaling with a factor for each output: for networks whose outputs share one sigma.

$$s_j^2 = \frac{1}{m} \sum_i \frac{e_{ij}}{v_{ij}} \quad\text{(Normal)}, \qquad
  s_j = \frac{1}{m} \sum_i \frac{|y_{ij} - \mu_{ij}|}{b_{ij}} \quad\text{(Laplace)}$$

One factor can only be right on the average of the outputs: one of them too wide, another too narrow.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.arrays import Array, like
from ..core.cases import Cases, output_of
from ..core.checks import nothing_left
from ..core.elements import Error, Part
from ..core.errors import Refusal
from ..core.factors import MOST_OUTPUTS
from ..core.recalibration import (
    CaseSums,
    Factor,
    on_predictions,
    on_sums,
    rescale,
    restored,
    select_part,
    stored,
)
from ..core.scores import Sum
from ..core.values import Prediction
from ._factor import factor_from
from ._factor import gather as gather_one

TITLE = "sigma scaling by output"
NEEDS = ("outputs",)
REMEDY = True


@dataclass(frozen=True)
class SigmaByOutput:
    """Multiplies the scale of each output by its own factor; outputs with several axes are counted along the last."""

    factors: tuple[float, ...]
    standard_errors: tuple[float | None, ...]
    part: Part = "total"
    by_block: ClassVar[bool] = True

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        chosen = select_part(prediction, self.part)
        shape = tuple(chosen.location.shape[1:])
        if math.prod(shape) != len(self.factors):
            raise Refusal(
                f"the prediction has {math.prod(shape)} outputs, and factors were fitted for {len(self.factors)}; give "
                "predictions of the same outputs, or fit again."
            )
        return rescale(chosen, like(np.reshape(self.factors, shape), chosen.location))

    def variance_ratio(self, total: Array) -> Array:
        """The factor of both variances."""
        return like(np.reshape(np.square(self.factors), tuple(total.shape[1:])), total)

    @property
    def shown_factors(self) -> dict[str, Factor]:
        pairs = zip(self.factors, self.standard_errors)
        return {f"output {number}": Factor(*pair) for number, pair in enumerate(pairs)}

    to_dict = stored("sigma_by_output")


def gather(cases: Cases, *, part: Part, error: Error) -> dict[str, Sum]:
    """Gather what `sigma` needs, for each output, as OUTPUT/NAME."""
    count = math.prod(cases.prediction.location.shape[1:])
    if count > MOST_OUTPUTS:
        raise Refusal(
            f"there are {count} outputs; expected at most {MOST_OUTPUTS}, for a factor each. Maps need one for all: "
            "sigma."
        )
    sums: dict[str, Sum] = {}
    for output in range(count):
        own = gather_one(output_of(cases, output), part=part, outputs="separate", error=error)
        sums |= {f"{output}/{key}": value for key, value in own.items()}
    return sums


@on_sums(gather)
def fit(cases: CaseSums, *, part: Part = "total", error: Error = "mean") -> SigmaByOutput:
    """Fit the factor of each output that makes its calibration targets most probable.

    Args:
        cases: of the calibration, or their arrays, as `Fitting` says.
        part: "total", or "aleatoric" to scale and keep the aleatoric part alone (Levi et al.).
        error: "mean" fits the error of the mean prediction; "draws" that of every draw, (mu - y)^2 + spread.

    Returns:
        The recalibration, with `.factors` and their `.standard_errors`, as `sigma` has them for one.

    Example:
        >>> fit(Prediction([[0.0, 0.0], [0.0, 0.0]], scale=[[1.0, 1.0], [1.0, 1.0]]), [[2.0, 3.0], [2.0, 3.0]]).factors
        (2.0, 3.0)

    Reference: Laves et al., MELBA 2021, Eq. 8 and 9, for each output.
    """
    if not cases.sums:
        raise nothing_left()
    fits = []
    for output, own in cases.apart().items():
        try:
            fits.append(factor_from(own.sums, own.law.moment))
        except ValueError as problem:
            raise type(problem)(f"output {output}: {problem}") from None
    return SigmaByOutput(tuple(f.value for f in fits), tuple(f.standard_error for f in fits), part)


from_dict = restored(SigmaByOutput)
