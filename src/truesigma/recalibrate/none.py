"""No recalibration: the prediction as it is, or its aleatoric part alone.

$$v' = A + E \\quad\\text{or}\\quad v' = A$$
"""

from dataclasses import dataclass
from typing import Any

from ..core.cases import Cases
from ..core.elements import Part
from ..core.recalibration import CaseSums, on_predictions, on_sums, restored, select_part, stored
from ..core.values import Prediction

TITLE = "none"
REFERENCE = True
REMEDY = True


@dataclass(frozen=True)
class Identity:
    """Leaves the prediction as it is."""

    part: Part = "total"

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        return select_part(prediction, self.part)

    def variance_ratio(self, total: Any) -> float:
        """The factor of both variances: 1."""
        return 1.0

    to_dict = stored("none")


def gather(cases: Cases, *, part: Part) -> dict[str, Any]:
    """Gather nothing, but check that the cases have that part."""
    select_part(cases.prediction, part)
    return {}


@on_sums(gather)
def fit(cases: CaseSums, *, part: Part = "total") -> Identity:
    """Leave the uncertainty as it is.

    Args:
        cases: of the calibration, or their arrays, as `Fitting` says.
        part: "total", or "aleatoric" to leave the epistemic part out.

    Returns:
        The identity.

    Example:
        >>> fit(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [1.0, 1.0])(Prediction([0.0], aleatoric=[4.0])).scale
        array([2.])

    Reference: Laves et al., MELBA 2021, Table 1, columns "none".
    """
    return Identity(part)


from_dict = restored(Identity)
