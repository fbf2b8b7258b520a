r"""Referral with a promise: the cases that are kept are rarely off by more than a tolerance.

$$P\bigl(|y - \mu| > \mathrm{tolerance} \mid \sigma \le t\bigr) \le \mathrm{risk}
  \quad\text{with confidence } 1 - \delta$$

Cases are taken from the surest on. As each is added, a binomial test asks whether the share of large errors among those
that would be kept is below the risk; the first test that fails ends the sequence (Learn then Test). Four sequences,
which begin at an eighth, a quarter, a half and all of the cases, take a quarter of delta each: the early ones are for a
sigma that knows, the late ones for errors that are rare. Exact where the share of large errors rises with sigma.

With several cases of a patient, patients are what is independent. By patient, each counts by the share of large errors
among the cases of theirs that are kept, and the test is that of Hoeffding and Bentkus for means of such shares. By
case, with at most B cases of a patient, it is that of the means of sum (off - risk) / B + risk over the kept cases.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.checks import check_group, check_whole, per_cent
from ..core.elements import every_element
from ..core.errors import Refusal
from ..core.values import Prediction

SLACK = 1e-9  # of sums of shares, which are rounded
STARTS = (1 / 8, 1 / 4, 1 / 2, 1)  # of the cases, or patients, where sequences of tests begin


@dataclass(frozen=True)
class Referral:
    """A rule for referral: cases whose sigma, as the model gave it, is above a threshold go to a person."""

    tolerance: float
    risk: float
    delta: float
    threshold: float | None  # None where nothing can be promised: every case is referred
    kept: int  # calibration cases at or below the threshold
    wrong: float  # the share of large errors among them: of cases, or the mean of the patients' shares
    cases: int  # of the calibration
    clusters: int  # patients, or cases where each is a patient of its own
    off: float | None = None  # the share of the kept cases that are off, however the promise averages
    most: int = 0  # cases that a patient has at most, where the promise is of cases; 0: of patients

    def __call__(self, prediction: Prediction) -> Host:
        """Whether each case is to be referred, (case,): by the sigma of its prediction as it was before recalibration.

        >>> y = np.random.default_rng(0).normal(size=500)
        >>> scale = np.linspace(0.1, 2, 500)
        >>> refer = fit(Prediction(0 * y, aleatoric=scale**2), scale * y, tolerance=2.0, risk=0.05)
        >>> refer(Prediction([0.0, 0.0], aleatoric=[0.1, 9.0]))
        array([False,  True])
        """
        if self.threshold is None:
            return np.ones(len(prediction), dtype=bool)
        return sigma_of(prediction) > self.threshold

    @property
    def words(self) -> str:
        """Say what is promised, or why nothing is."""
        by_patient = self.clusters < self.cases and not self.most
        kept_cases = "a patient's kept cases, on average over patients," if by_patient else "the kept cases"
        many = f"at most {_percent(self.risk)} of {kept_cases} off by more than {self.tolerance:g}"
        sure = f"with {_percent(1 - self.delta)} confidence"
        if self.threshold is not None:
            share = self.wrong if self.off is None else self.off
            told = (
                f"{self.kept:,} of {self.cases:,} calibration cases are kept, {_percent(share)} of them off"
            )
            told += f", {_percent(self.wrong)} on average over patients" if by_patient else ""
            return f"refer where sigma is above {self.threshold:.4g}: {many}, {sure}; {told}"
        what = "cases" if self.clusters == self.cases else "patients"
        least = smallest(0, self.risk, self.delta / len(STARTS))
        return (
            f"no threshold can be promised ({many}, {sure}): every case is referred. Among the surest "
            f"{_percent(self.wrong)} are off by more. It takes {least:,} calibration {what} where none is off, and "
            f"there are {self.clusters:,}; more of them, a larger tolerance or risk, or a better model would help."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _percent(share: float) -> str:
    return f"{per_cent(share, 3, 'g')} %"


def sigma_of(prediction: Prediction) -> Host:
    """One sigma a case: the root of the mean variance over its outputs that count; 0 where none does."""
    total = to_host(prediction.total).astype(np.float64).reshape(len(prediction), -1)
    if prediction.mask is None:
        return np.sqrt(total.mean(axis=1))
    counts = to_host(prediction.mask).reshape(total.shape)
    return np.sqrt(np.where(counts, total, 0.0).sum(axis=1) / np.maximum(counts.sum(axis=1), 1))


def fit(
    prediction: Prediction,
    target: Any,
    *,
    tolerance: float,
    risk: float,
    delta: float = 0.05,
    patient: Any = None,
    most: int = 0,
) -> Referral:
    """Find the largest sigma up to which cases can be kept with a promise.

    Args:
        prediction: of the calibration cases, as the model gave it.
        target: of the calibration cases, with the location's shape.
        tolerance: an error that is too large, in the target's unit; of several outputs the largest error counts.
        risk: the share of kept cases that may be off by more.
        delta: the probability that the promise does not hold, over sets of calibration cases.
        patient: one name per case: cases that belong together.
        most: how many cases a patient has at most, declared beforehand: the promise is then about a share of cases. 0:
            about the mean of the patients' shares.

    Returns:
        The referral: `.threshold`, None where none can be promised, and `.words`.

    Reference: Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then Test", 2021, sections 2.2 and 3 (Hoeffding and
    Bentkus, fixed sequences); Geifman and El-Yaniv, "Selective Classification for Deep Neural Networks", 2017.
    """
    for name, value, end in (("tolerance", tolerance, math.inf), ("risk", risk, 1.0), ("delta", delta, 1.0)):
        if not (isinstance(value, float | int) and 0 < value < end):
            raise Refusal(
                f"{name} is {value!r}; expected a number above 0{' and below 1' if end == 1 else ''}."
            )
    names = check_group(patient, len(prediction), "patient")
    code = np.arange(len(prediction)) if names is None else np.unique(names, return_inverse=True)[1]
    e = every_element(prediction, target)
    wrong, counts = (e.size > tolerance).any(axis=1), e.weight.any(axis=1)
    sigma = sigma_of(prediction)
    order = np.argsort(np.where(counts, sigma, np.inf), kind="stable")[: int(counts.sum())]
    sigma, wrong, code = sigma[order], wrong[order], np.unique(code[order], return_inverse=True)[1]
    clusters, several = int(code.max()) + 1, int(code.max()) + 1 < code.size
    check_whole("most", most, 0)
    of_cases = int(most) if several else 0
    if of_cases and np.bincount(code).max() > of_cases:
        raise Refusal(
            f"a patient has {np.bincount(code).max()} cases, and most is {most}; no promise without a bound."
        )
    patients, shares = _running(wrong, code)
    last = np.flatnonzero(np.append(sigma[1:] != sigma[:-1], True))  # equal sigmas are kept together
    off = np.cumsum(wrong)[last] / (last + 1)
    patients, shares = patients[last], shares[last]
    if of_cases:
        beyond = np.cumsum(wrong - risk)[last] / of_cases
        chance = _p_values(clusters * risk + beyond, np.full(last.size, clusters), risk, True)
    else:
        chance = _p_values(shares, patients, risk, several)
    end, start = _sequences(chance <= delta / len(STARTS), patients, clusters)
    known: dict[str, Any] = {"tolerance": float(tolerance), "risk": float(risk), "delta": float(delta)}
    sizes = {"cases": code.size, "clusters": clusters, "most": of_cases}
    place = min(max(start, end - 1), last.size - 1)
    share = float(off[place] if of_cases else shares[place] / patients[place])
    if end > start:
        kept = int(last[place])
        known |= {"threshold": float(sigma[kept]), "kept": kept + 1, "wrong": share, "off": float(off[place])}
        return Referral(**known, **sizes)
    return Referral(**known, threshold=None, kept=0, wrong=share, **sizes)


def _sequences(passed: Host, patients: Host, clusters: int) -> tuple[int, int]:
    """Where the longest sequence of tests ends, and where it begins; the first one where none passes."""
    found = []
    for part in STARTS:
        start = int(np.searchsorted(patients, math.ceil(part * clusters)))
        end = start + int(np.argmin(np.append(passed[start:], False)))
        found.append((end if end > start else 0, start))
    end, start = max(found, key=lambda one: one[0])
    return (end, start) if end else (0, found[0][1])


def smallest(wrong: int, risk: float, delta: float) -> int:
    """The fewest cases that show a share of wrong ones of at most `risk`, when so many of them are wrong.

    >>> smallest(0, 0.05, 0.05), smallest(1, 0.05, 0.05)
    (59, 93)
    """
    from scipy.special import bdtr

    low, high = wrong, wrong + 1
    while bdtr(wrong, high, risk) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtr(wrong, middle, risk) <= delta else (middle, high)
    return high


def _running(wrong: Host, code: Host) -> tuple[Host, Host]:
    """As cases are added one by one: how many patients there are, and the sum of their shares of wrong cases."""
    held, bad = np.zeros((2, int(code.max()) + 1))
    first = np.zeros(code.size)
    change = np.zeros(code.size)
    for k, (one, off) in enumerate(zip(code, wrong)):
        before = bad[one] / held[one] if held[one] else 0.0
        first[k] = held[one] == 0
        held[one] += 1
        bad[one] += off
        change[k] = bad[one] / held[one] - before
    return np.cumsum(first).astype(np.int64), np.cumsum(change)


def _p_values(wrong: Host, count: Host, risk: float, several: bool) -> Host:
    """The probability of so few wrong ones, were their share the risk; a bound on it where patients have shares."""
    from scipy.special import bdtr, xlogy

    if not several:
        return np.where(wrong < count, bdtr(np.round(np.minimum(wrong, count - 1)), count, risk), 1.0)
    share = np.clip(wrong / count, 0.0, risk)
    hoeffding = np.exp(-count * (xlogy(share, share / risk) + xlogy(1 - share, (1 - share) / (1 - risk))))
    upper = np.ceil(wrong - SLACK)
    bentkus = np.where(upper < count, math.e * bdtr(np.minimum(upper, count - 1), count, risk), 1.0)
    return np.minimum(hoeffding, bentkus)
