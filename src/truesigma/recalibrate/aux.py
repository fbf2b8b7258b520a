r"""Aux scaling: a small network from the predicted to the recalibrated log-variance.

$$\log v' = W_2 \, \mathrm{relu}(W_1 \log v + b_1) + b_2$$

fitted to the likelihood of the calibration cases. More flexible than one factor, and able to overfit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Host, like, namespace, to_host
from ..binning import PER_OCTAVE
from ..elements import Outputs, Part, blocks, check_outputs
from ..measure import nothing_left
from ..recalibration import multiply, select_part
from ..types import Prediction

TITLE = "aux scaling"
MANY = 20_000  # more elements than this are gathered in cells of log2(v) first: the network sees one number of each


@dataclass(frozen=True)
class Aux:
    """Replaces each log-variance by the network's; the ratio multiplies both parts of the variance."""

    weights: tuple[
        tuple[float, ...], ...
    ]  # W1, b1, W2 (hidden each), b2 (one); only b2 when nothing is hidden
    shift: float = 0.0  # of log v before the network
    divisor: float = 1.0
    offset: float = 0.0  # added to the network's output
    part: Part = "total"
    outputs: Outputs = "separate"

    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        chosen = select_part(prediction, self.part)
        xp = namespace(chosen.location)
        total = (
            chosen.total
            if chosen.mask is None
            else xp.where(chosen.mask, chosen.total, xp.ones_like(chosen.total))
        )
        if self.outputs == "mean" and total.ndim > 1:
            total = _case_mean(total, chosen.mask)
        # Through the host: the network is a handful of numbers, and float64 there gives every library the same ratio.
        log_v = np.log(to_host(total).astype(np.float64))
        return multiply(chosen, like(np.exp(self.new_log_variance(log_v) - log_v), chosen.location))

    def new_log_variance(self, log_v: Host) -> Host:
        """The network at log v, elementwise."""
        if len(self.weights) == 1:
            return log_v + self.weights[0][0]
        x = (log_v.ravel() - self.shift) / self.divisor
        return (_forward([np.array(w) for w in self.weights], x)[0] + self.offset).reshape(log_v.shape)

    def to_dict(self) -> dict[str, Any]:
        weights = [list(w) for w in self.weights]
        scaling = {"shift": self.shift, "divisor": self.divisor, "offset": self.offset}
        return {"name": "aux", "weights": weights, **scaling, "part": self.part, "outputs": self.outputs}


def fit(
    prediction: Prediction,
    target: Any,
    *,
    weight: Any = None,
    group: Any = None,
    part: Part = "total",
    outputs: Outputs = "separate",
    hidden: int = 16,
    steps: int = 2000,
    rate: float = 3e-3,
    seed: int = 0,
    standardise: bool = True,
) -> Aux:
    """Fit a two-layer network from the log-variance to the recalibrated one.

    Args:
        prediction: of the calibration cases.
        target: of the calibration cases, with the location's shape.
        weight: (case,) or the location's shape.
        group: not used.
        part: "total", or "aleatoric" to recalibrate and keep the aleatoric part alone.
        outputs: "separate" takes each output as an element; "mean" each case, averaged over its outputs.
        hidden: ReLU units; 0 leaves a single bias in log space, which is sigma scaling.
        steps: full-batch steps of Adam; the rate falls tenfold after 100 steps without gain.
        rate: of Adam at the start.
        seed: of the starting weights.
        standardise: feed the network log v with mean 0 and deviation 1, which makes it indifferent to the target's
            unit; False as in the published code.

    Returns:
        The recalibration.

    Example:
        >>> v = np.linspace(1.0, 4.0, 50)
        >>> aux = fit(Prediction(0 * v, v), 2 * np.sqrt(v), hidden=0)
        >>> aux(Prediction([0.0], [4.0])).scale.round(4)
        array([4.])

    Reference: Laves et al., MELBA 2021, section 3 and Appendix F; after Kuleshov et al., 2018.
    """
    check_outputs(outputs)
    if hidden < 0 or steps < 1:
        raise ValueError(f"hidden is {hidden} and steps {steps}; expected 0 or more, and at least 1.")
    if len(prediction) < 2:
        raise ValueError(
            "one calibration case cannot show how wrong the others are; expected at least two, better 500."
        )
    chosen = select_part(prediction, part)
    log_v, size, share = _gather(chosen, target, weight, outputs)
    share = share / share.sum()
    if (size == 0).all():
        raise ValueError(
            "every calibration error is exactly 0, so nothing can be fitted; are these the training targets?"
        )
    moment = chosen.law.moment
    log_scale = (log_v - math.log(chosen.law.unit)) / 2
    bias = (
        2 / moment * math.log(float(share @ (size * np.exp(-moment * log_scale))))
    )  # sigma scaling's log s^2
    if hidden == 0:
        return Aux(((bias,),), part=part, outputs=outputs)
    shift, divisor, offset = 0.0, 1.0, 0.0
    if standardise:
        shift = float(share @ log_v)
        spread = math.sqrt(float(share @ (log_v - shift) ** 2))
        divisor = spread if spread > 1e-9 else 1.0
        offset = shift + bias  # the network starts around sigma scaling and adds what one factor cannot do
    scaled = size * math.exp(-moment * (offset - math.log(chosen.law.unit)) / 2)
    parameters = _train((log_v - shift) / divisor, scaled, share, moment, hidden, steps, rate, seed)
    return Aux(tuple(tuple(float(w) for w in p) for p in parameters), shift, divisor, offset, part, outputs)


def from_dict(stored: Mapping[str, Any]) -> Aux:
    weights = tuple(tuple(float(w) for w in p) for p in stored["weights"])
    return Aux(**{**stored, "weights": weights})


def _case_mean(total: Any, mask: Any) -> Any:
    xp = namespace(total)
    axes = tuple(range(1, total.ndim))
    if mask is None:
        return xp.mean(total, axis=axes, keepdims=True)
    count = xp.sum(xp.astype(mask, total.dtype), axis=axes, keepdims=True)
    mean = xp.sum(xp.where(mask, total, xp.zeros_like(total)), axis=axes, keepdims=True) / xp.clip(
        count, 1, None
    )
    return xp.where(count > 0, mean, xp.ones_like(mean))


def _gather(prediction: Prediction, target: Any, weight: Any, outputs: Outputs) -> tuple[Host, Host, Host]:
    """log v, |y - mu|^moment and weight of every element, or of cells of log2(v) where there are very many."""
    columns: list[Host] = []
    for block in blocks(prediction, target, weight):
        part = block.view(outputs)
        total = to_host(part.total).astype(np.float64).ravel()
        share = (
            np.ones_like(total) if part.weight is None else to_host(part.weight).astype(np.float64).ravel()
        )
        power = part.squared if part.law.moment == 2 else namespace(part.residual).abs(part.residual)
        new = np.stack([np.log(total), to_host(power).astype(np.float64).ravel(), share])[:, share > 0]
        columns.append(_cells(new) if new.shape[1] > MANY // 4 else new)
    gathered = np.concatenate(columns, axis=1)
    if gathered.shape[1] == 0:
        raise nothing_left()
    return tuple(_cells(gathered) if gathered.shape[1] > MANY else gathered)


def _cells(columns: Host) -> Host:
    """Weighted means in cells of log2(v): at 64 an octave nothing the network could follow is lost."""
    log_v, size, share = columns
    _, index = np.unique(np.floor(log_v * (PER_OCTAVE / math.log(2))), return_inverse=True)
    total = np.bincount(index, weights=share)
    return np.stack(
        [
            np.bincount(index, weights=log_v * share) / total,
            np.bincount(index, weights=size * share) / total,
            total,
        ]
    )


def _forward(parameters: list[Host], x: Host) -> tuple[Host, Host]:
    """The network's output and its hidden layer."""
    first, bias, second, last = parameters
    hidden = np.maximum(np.outer(x, first) + bias, 0.0)
    return hidden @ second + last[0], hidden


def _train(
    x: Host, size: Host, share: Host, moment: int, hidden: int, steps: int, rate: float, seed: int
) -> list[Host]:
    """Full-batch Adam on mean(log s + size / (moment s^moment)), s = exp(output / 2); the best step is kept."""
    random = np.random.default_rng(seed)
    bound = 1 / math.sqrt(hidden)  # the usual start of a linear layer: uniform in +- 1 / sqrt(inputs)
    parameters = [
        random.uniform(-1, 1, hidden),
        random.uniform(-1, 1, hidden),
        random.uniform(-bound, bound, hidden),
    ]
    parameters.append(random.uniform(-bound, bound, 1))
    first, second = [np.zeros_like(p) for p in parameters], [np.zeros_like(p) for p in parameters]
    best, kept, waiting = math.inf, parameters, 0
    for step in range(1, steps + 1):
        out, layer = _forward(parameters, x)
        log_s = np.clip(out / 2, -300, 300)
        ratio = size * np.exp(-moment * log_s)
        loss = float(share @ (log_s + ratio / moment))
        if loss < best - 1e-12 * abs(best if best < math.inf else 1):
            best, kept, waiting = loss, [p.copy() for p in parameters], 0
        else:
            waiting += 1
            if waiting > 100:
                rate, waiting = rate * 0.1, 0
        slope = share * (1 - ratio) / 2
        back = np.outer(slope, parameters[2]) * (layer > 0)
        gradients = [x @ back, back.sum(axis=0), layer.T @ slope, np.array([slope.sum()])]
        for p, g, m1, m2 in zip(parameters, gradients, first, second):
            m1 += 0.1 * (g - m1)
            m2 += 0.001 * (g * g - m2)
            p -= rate * (m1 / (1 - 0.9**step)) / (np.sqrt(m2 / (1 - 0.999**step)) + 1e-8)
    return kept
