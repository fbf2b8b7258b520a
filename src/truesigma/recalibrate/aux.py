r"""Aux scaling: a small network from the predicted to the recalibrated log-variance.

$$\log v' = W_2 \, \mathrm{relu}(W_1 \log v + b_1) + b_2$$

fitted to the likelihood of the calibration cases. More flexible than one factor, and able to overfit. Beyond the
calibration cases it is a line, which on few of them may be steep: sigma changes at most WILD times more, or less, than
it does at the last of them.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array, Host, flat, like, namespace, to_host
from ..core.bins import segment_sums
from ..core.cases import Cases, case_means
from ..core.checks import check_whole
from ..core.elements import Elements, Outputs, Part
from ..core.errors import Refusal
from ..core.factors import factor_sums
from ..core.recalibration import CaseSums, on_predictions, on_sums, rescale, restored, select_part, stored
from ..core.scores import Statistic, Sum, accumulate
from ..core.sketches import Sketch
from ..core.values import Prediction, changed
from ._factor import both_sums, factor_of

TITLE = "aux scaling"
# More elements than these are gathered in cells of log2(v), and the network sees the mean of each. Their cells lie
# around their mean, so that the unit does not matter; up to KEPT of them are known one by one before.
MANY, KEPT, PER_OCTAVE = 1 << 11, 1 << 16, 64
AT_A_TIME = 1 << 16  # elements through the network at once
SOME = 0.05  # share of the cases beyond those it was fitted on, from which on it is doubted
ROUNDING = 1e-6  # of log v: single precision sums the parts of a variance less exactly than the fit did
FARTHEST = 300  # of the logarithm of sigma, up to which a network is trained
WILD = 10  # times that sigma may change by beyond the calibration cases, beside the last of them: there it is held


@dataclass(frozen=True)
class Aux:
    """Replaces each log-variance by the network's; the ratio multiplies both parts of the variance."""

    # W1, b1, W2 (hidden each), b2 (one); only b2 when nothing is hidden
    weights: tuple[tuple[float, ...], ...]
    shift: float = 0.0  # of log v before the network
    divisor: float = 1.0
    offset: float = 0.0  # added to the network's output
    part: Part = "total"
    outputs: Outputs = "separate"
    seen: tuple[float, float] | None = None  # lowest and highest log v of the calibration cases

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        chosen = select_part(prediction, self.part)
        xp, total = namespace(chosen.location), chosen.total
        total = total if chosen.mask is None else xp.where(chosen.mask, total, xp.ones_like(total))
        if self.outputs == "mean" and total.ndim > 1:
            total = case_means(total, chosen.mask)
        # Through the host: the network is a handful of numbers, and float64 there gives every library the same ratio.
        log_v = np.log(to_host(total).astype(np.float64))
        pieces = (log_v.ravel()[i : i + AT_A_TIME] for i in range(0, log_v.size, AT_A_TIME))
        log_ratio = np.concatenate([self.new_log_variance(piece) - piece for piece in pieces])
        self._hold(log_v.ravel(), log_ratio, masked=chosen.mask is not None)
        return rescale(chosen, like(np.exp(log_ratio / 2).reshape(log_v.shape), chosen.location))

    def _hold(self, log_v: Host, log_ratio: Host, masked: bool) -> None:
        """Limit the ratios beyond the cases it was fitted on, in place; warn if they are many, or wild."""
        if self.seen is None:
            return
        beyond = (log_v < self.seen[0] - ROUNDING) | (log_v > self.seen[1] + ROUNDING)
        held = self._held(log_v[beyond], log_ratio[beyond])
        counts = (log_v[beyond] != 0) | (not masked)  # what a mask leaves out is 1 here
        wild = ((held != log_ratio[beyond]) & counts).sum()
        log_ratio[beyond] = held
        if wild or counts.sum() > SOME * log_v.size:
            ends = " to ".join(f"{math.exp(end / 2):.3g}" for end in self.seen)
            warnings.warn(
                f"aux scaling was fitted on sigmas of {ends}; {counts.sum()} of {log_v.size} lie beyond, {wild} of "
                f"them so far that sigma would change over {WILD} times as much, and is held at that. "
                "Is the unit the same? Fit it on more cases, or take sigma scaling.",
                stacklevel=4,
            )

    def new_log_variance(self, log_v: Array) -> Array:
        """The network at log v, elementwise, in the kind and precision of the array."""
        if len(self.weights) == 1:
            return log_v + self.weights[0][0]
        x = (namespace(log_v).reshape(log_v, (-1,)) - self.shift) / self.divisor
        first, bias, second, last = (like(np.array(w), x) for w in self.weights)
        hidden = x[:, None] * first + bias
        out = (hidden * (hidden > 0)) @ second + last[0]  # ReLU, in whatever library x is of
        return namespace(out).reshape(out + self.offset, log_v.shape)

    def variance_ratio(self, total: Array) -> Array:
        """The factor of both variances."""
        xp = namespace(total)
        log_v = xp.log(case_means(total) if self.outputs == "mean" and total.ndim > 1 else total)
        return xp.exp(self._held(log_v, self.new_log_variance(log_v) - log_v))

    def _held(self, log_v: Array, log_ratio: Array) -> Array:
        """Keep the ratio within WILD times, in sigma, of the ratio at the nearest end of the range seen."""
        if self.seen is None:
            return log_ratio
        xp = namespace(log_v)
        end = xp.clip(log_v, *self.seen)
        last, most = self.new_log_variance(end) - end, 2 * math.log(WILD)
        return xp.clip(log_ratio, last - most, last + most)

    @property
    def degrees_of_freedom(self) -> int:
        return sum(map(len, self.weights))

    to_dict = stored("aux")

    def __repr__(self) -> str:
        hidden = len(self.weights[0]) if len(self.weights) > 1 else 0
        return f"Aux({hidden} hidden, part={self.part!r}, outputs={self.outputs!r})"


def gather(cases: Cases, *, part: Part, outputs: Outputs, hidden: int) -> dict[str, Sum]:
    """Gather what the fit needs: sums over cases, which add up over batches and files."""

    def factor(block: Elements) -> Sum:
        # In float64, whatever the library: two thousand steps from here would make much of a rounding error.
        return factor_sums(block.wide, outputs=outputs, error="mean", part="total")

    plan: dict[str, Statistic] = {"factor": factor}
    if hidden:
        plan["means"] = lambda block: _points(block.wide.view(outputs))
    return accumulate(changed(cases, prediction=select_part(cases.prediction, part)), None, plan)


@on_sums(gather)
def fit(
    cases: CaseSums,
    *,
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
        cases: of the calibration, or their arrays, as `Fitting` says.
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
        >>> aux = fit(Prediction(0 * v, aleatoric=v), 2 * np.sqrt(v), hidden=0)
        >>> aux(Prediction([0.0], aleatoric=[4.0])).scale.round(4)
        array([4.])

    Reference: Laves et al., MELBA 2021, section 3 and Appendix F; after Kuleshov et al., 2018.
    """
    for name, count, least in (("hidden", hidden, 0), ("steps", steps, 1), ("seed", seed, 0)):
        check_whole(name, count, least)
    if not 0 < rate < math.inf:
        raise Refusal(f"rate is {rate!r}; expected a number above 0, such as 0.003.")
    # One bias in log space is sigma scaling: the network starts there, and adds what one factor cannot do.
    sums, law = cases
    known = {"case": sums["factor"]} if sums else {}
    bias = 2 * math.log(factor_of(*both_sums(known), law.moment).value)
    if hidden == 0:
        return Aux(((bias,),), part=part, outputs=outputs)
    points, log_v = sums["means"].points, np.log(sums["means"].variance)
    columns = np.stack([log_v, points[1] / points[0], points[0]])
    # By log v, and so that the order of the cases does not matter.
    columns = columns[:, np.lexsort(columns[::-1])]
    log_v, size, share = _in_cells(columns) if log_v.size > MANY else columns
    share = share / share.sum()
    shift, divisor, offset = 0.0, 1.0, 0.0
    if standardise:
        shift = float(share @ log_v)
        spread = math.sqrt(float(share @ (log_v - shift) ** 2))
        divisor = spread if spread > 1e-9 else 1.0
        offset = shift + bias
    scaled = size * math.exp(-law.moment * (offset - math.log(law.unit)) / 2)
    parameters = _train((log_v - shift) / divisor, scaled, share, law.moment, hidden, steps, rate, seed)
    seen = float(log_v.min()), float(log_v.max())
    weights = tuple(tuple(float(w) for w in p) for p in parameters)
    fitted = Aux(weights, shift, divisor, offset, part, outputs, seen)
    if np.abs(fitted.new_log_variance(log_v) - offset).max() > 2 * FARTHEST:
        raise Refusal(
            "aux scaling would make some sigmas 0, or without end, as happens where calibration errors are exactly 0; "
            "take sigma scaling."
        )
    return fitted


from_dict = restored(Aux)


def _points(elements: Elements) -> Sketch:
    """Variance, |y - mu|^moment and weight of every element."""
    power = elements.squared if elements.law.moment == 2 else elements.size
    return Sketch.of(*flat(elements.total, power, elements.weight), keep=KEPT)


def _in_cells(columns: Host) -> Host:
    """Weighted means of log v and size in cells of log2(v) around the mean, and the weight of each."""
    log_v, size, share = columns
    index = np.floor((log_v - share @ log_v / share.sum()) * (PER_OCTAVE / math.log(2))).astype(np.int64)
    cells = segment_sums(index - index.min(), int(np.ptp(index)) + 1, [log_v * share, size * share, share])
    cells = cells[:, cells[2] > 0]
    return np.stack([cells[0] / cells[2], cells[1] / cells[2], cells[2]])


def _train(
    x: Host, size: Host, share: Host, moment: int, hidden: int, steps: int, rate: float, seed: int
) -> list[Host]:
    """Full-batch Adam on mean(log s + size / (moment s^moment)), s = exp(output / 2); the best step is kept.

    x ascends, so a unit is on from its kink to one end: between kinks the output is a line, and running sums give every
    gradient. A step then costs cases + units in place of cases * units.
    """
    random = np.random.default_rng(seed)
    bound = 1 / math.sqrt(hidden)  # the usual start of a linear layer: uniform in +- 1 / sqrt(inputs)
    sizes = ((1.0, hidden), (1.0, hidden), (bound, hidden), (bound, 1))
    parameters = np.concatenate([random.uniform(-limit, limit, size) for limit, size in sizes])
    parts = [hidden, 2 * hidden, 3 * hidden]
    first, bias, second, last = np.split(parameters, parts)  # views
    inner = parameters[: 2 * hidden].reshape(2, hidden)  # slope and height of every unit's line, unweighted
    mean, square, gradient = np.zeros_like(parameters), np.zeros_like(parameters), np.empty_like(parameters)
    pull, running = np.empty((2, len(x))), np.zeros((2, len(x) + 1))
    lines, ends = np.empty((2, hidden + 1)), np.zeros(hidden + 2, dtype=np.intp)
    ends[-1] = len(x)
    best, kept, waiting = math.inf, parameters, 0
    for step in range(1, steps + 1):
        rising = first > 0
        kinks = x.searchsorted(-bias / first, side="right")
        units = second * inner
        lines[:, 0] = units[:, ~rising].sum(axis=1)
        lines[1, 0] += last[0]
        order = kinks.argsort()
        lines[:, 1:] = np.where(rising, units, -units)[:, order]
        ends[1:-1] = kinks[order]
        slope, height = lines.cumsum(axis=1).repeat(ends[1:] - ends[:-1], axis=1)
        log_s = np.minimum(np.maximum((slope * x + height) / 2, -FARTHEST), FARTHEST)
        ratio = size * np.exp(-moment * log_s)
        loss = float(share @ (log_s + ratio / moment))
        waiting += 1
        if loss < best - 1e-12 * abs(best if best < math.inf else 1):
            best, kept, waiting = loss, parameters.copy(), 0
        elif waiting > 100:
            rate, waiting = rate * 0.1, 0
        pull[1] = share * (1 - ratio) / 2
        np.multiply(x, pull[1], out=pull[0])
        pull.cumsum(axis=1, out=running[:, 1:])
        at_kinks = running[:, kinks]
        on = np.where(rising, running[:, -1:] - at_kinks, at_kinks)
        gradient[: 2 * hidden] = (second * on).ravel()
        gradient[2 * hidden : -1] = first * on[0] + bias * on[1]
        gradient[-1] = running[1, -1]
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        parameters -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return np.split(kept, parts)
