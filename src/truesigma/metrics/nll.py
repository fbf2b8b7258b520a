r"""Negative log-likelihood: how improbable the targets are under the prediction.

$$\mathrm{NLL} = \tfrac{1}{m} \sum_i \bigl[\log \mathrm{scale}_i - \log p(z_i)\bigr], \qquad
  z_i = (y_i - \mu_i) / \mathrm{scale}_i$$
"""

import math
from typing import Any, Literal

from ..core import (
    Cases,
    Elements,
    Mean,
    Outputs,
    Prediction,
    Terms,
    Undefined,
    has_terms,
    namespace,
    score_of,
)
from ..core.checks import check_choice

TITLE = "NLL"
BETTER = "lower"
UNITS = "log"
PROPER = True


def terms(elements: Elements, *, units: str = "nats") -> Terms:
    check_choice("units", units, "nats", "table")
    if units == "table" and elements.law.name != "normal":
        raise Undefined(
            f"the paper's table units are those of a normal law, not of {elements.law.name}; use units='nats'."
        )
    law = elements.law
    if has_terms(law):
        # log scale and |z|^moment, which the factor is made of, too.
        constant = law.log_norm - 0.5 * math.log(law.variance)
        log_variance = namespace(elements.variance).log(elements.variance)
        return [(0.5, log_variance), (1 / law.moment, elements.power), (constant, 1.0)]
    return namespace(elements.scale).log(elements.scale) - law.log_density(elements.z)


def finish(mean: float, *, units: str = "nats") -> float:
    return 2 * mean - math.log(2 * math.pi) if units == "table" else mean


SUMS = Mean(terms, finish)


def score(
    prediction: Prediction | Cases,
    target: Any = None,
    *,
    weight: Any = None,
    outputs: Outputs = "separate",
    units: Literal["nats", "table"] = "nats",
) -> float:
    """Negative log-likelihood of the targets, per output.

    Args:
        prediction: location, scale and law; `Undefined` for a law without a density.
        outputs: "separate" scores each output with its own scale; "mean" one per case, its error and its variance
            averaged over the outputs.
        units: "nats", or "table" for the paper's mean(e / v + log v) = 2 NLL - log(2 pi).

    Returns:
        The mean over all elements, with its constants.

    Example:
        >>> round(score(Prediction([0.0], aleatoric=[1.0]), [0.0]), 4)
        0.9189

    Reference: Laves et al., MELBA 2021, Eq. 4 and Table 2; Nix and Weigend, 1994.
    """
    return score_of(SUMS, prediction, target, weight=weight, outputs=outputs, units=units)
