r"""Covariate shift: weights of the calibration cases for a new site, from its unlabelled cases.

$$w(x) = \frac{p_\mathrm{new}(x)}{p_\mathrm{old}(x)} = \frac{n_\mathrm{old}}{n_\mathrm{new}} e^{g(x)}$$

with g the log-odds that a case with these features is a new one, by logistic regression on the features and their
squares, cross-fitted: no case is weighted by a model that has seen it. The features are the prediction and the
logarithm of its scale, unless others are given. With these weights the calibration cases look like the new ones. That
cases which look alike err alike, here and there, is assumed: without labels it cannot be checked.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.checks import check_group
from ..core.errors import Refusal
from ..core.ranking import auroc
from ..core.values import Prediction

FOLDS = 5
LEAST = (
    30.0  # cases of each site, and effective calibration cases, below which nothing is said about the new one
)
APART = 0.98  # of telling the two sites apart, above which no weights make one look like the other
MOST = 20  # features; more would tell any two sets apart
PENALTY = 1.0  # on the square of each coefficient of a standardised feature: one case's worth
ASSUMED = (
    "assumed, and not to be checked without labels: cases that look alike err alike, here and there. Estimated weights "
    "make no promise"
)


@dataclass(frozen=True)
class CovariateShift:
    """Weights of cases by their features: the mean of the models that each left out one part of both sets."""

    centre: tuple[float, ...]
    spread: tuple[float, ...]
    models: tuple[tuple[float, ...], ...]  # (fold, 1 + 2 features): intercept, features, their squares
    effective: float  # calibration cases of equal weight that say as much
    auroc: float  # of telling new cases from old: 0.5 where they are alike
    beyond: float  # the share of new cases whose weight is above that of 99 % of the old
    cases: tuple[int, int]  # old and new

    def weights(self, features: Any) -> Host:
        """The weight of each case, (case,): 1 on average over the calibration cases.

        >>> rng = np.random.default_rng(0)
        >>> old, new = rng.normal(size=(500, 1)), rng.normal(size=(500, 1)) + 1
        >>> (fit(old, new)[0].weights([[0.5], [2.5]]) / np.exp([0.0, 2.0])).round(1)   # exp(x - 1/2) is the truth
        array([1.1, 0.9])
        """
        basis = _basis(np.asarray(features, dtype=np.float64), np.array(self.centre), np.array(self.spread))
        return np.exp(np.clip(basis @ np.array(self.models).T, -30, 30)).mean(axis=1)

    @property
    def words(self) -> str:
        """Say how far the sets overlap, and what cannot be known."""
        return (
            f"weighted to be like the {self.cases[1]:,} new cases: {self.cases[0]:,} cases say as much as "
            f"{self.effective:.0f}; new and old are told apart with an AUROC of {self.auroc:.2f}, and "
            f"{100 * self.beyond:.2g} % of the new are where 1 % of the old are; {ASSUMED}"
        )


def features_of(prediction: Prediction) -> Host:
    """The features of a shift unless others are given: location and log scale of each output, (case, feature)."""
    columns = [
        to_host(a).astype(np.float64).reshape(len(prediction), -1)
        for a in (prediction.location, prediction.total)
    ]
    if 2 * columns[0].shape[1] > MOST:
        raise Refusal(
            f"there are {columns[0].shape[1]} outputs; expected at most {MOST // 2} for weights by prediction and "
            "scale. Give a few features of each case instead."
        )
    if prediction.mask is not None and not to_host(prediction.mask).all():
        raise Refusal(
            "some outputs are masked, and a case needs them all to be weighted; leave those cases out."
        )
    return np.concatenate([columns[0], 0.5 * np.log(columns[1])], axis=1)


def fit(old: Any, new: Any, *, patient: Any = None, seed: int = 0) -> tuple[CovariateShift, Host]:
    """Fit weights that make old cases look like new ones.

    Args:
        old: (case, feature) of the calibration cases.
        new: (case, feature) of the new ones.
        patient: one name per calibration case: those of a patient are in one part.
        seed: of the parts.

    Returns:
        The shift, and the weight of each calibration case by the models that have not seen it.

    Reference: Shimodaira, "Improving Predictive Inference under Covariate Shift", 2000; Bickel, Brueckner and Scheffer,
    JMLR 2009 (weights by logistic regression); Tibshirani et al., "Conformal Prediction under Covariate Shift", 2019,
    section 2.3.
    """
    old, new = (_checked(name, values) for name, values in (("calibration", old), ("new", new)))
    if old.shape[1] != new.shape[1]:
        raise Refusal(
            f"the calibration cases have {old.shape[1]} features, the new ones {new.shape[1]}; expected as many."
        )
    names = check_group(patient, len(old), "patient")
    code = np.arange(len(old)) if names is None else np.unique(names, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    part = (rng.permutation(int(code.max()) + 1) % FOLDS)[code]
    apart = rng.permutation(len(new)) % FOLDS
    if min(len(old), len(new)) < LEAST:
        raise Refusal(
            f"there are {len(old)} calibration and {len(new)} new cases; expected {LEAST:g} of each at least."
        )
    if np.unique(part).size < FOLDS:
        raise Refusal(
            f"the {len(old)} calibration cases are of {int(code.max()) + 1} patients; expected {FOLDS} at least, since "
            "no case is weighted by a model that has seen its patient."
        )
    both = np.concatenate([old, new])
    centre, spread = both.mean(axis=0), both.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    wide, wide_new = _basis(old, centre, spread), _basis(new, centre, spread)
    logit, logit_new, models = np.zeros(len(old)), np.zeros(len(new)), []
    for k in range(FOLDS):
        model = logistic(wide[part != k], wide_new[apart != k])
        models.append(model)
        logit[part == k], logit_new[apart == k] = wide[part == k] @ model, wide_new[apart == k] @ model
    weight, weight_new = (np.exp(np.clip(g, -30, 30)) for g in (logit, logit_new))
    effective, told = float(weight.sum() ** 2 / (weight**2).sum()), auroc(logit, logit_new)
    if effective < LEAST or told > APART:
        raise Refusal(
            f"weighted to be like the new cases, the {len(old)} calibration cases say as much as {effective:.1f}, and "
            f"the two are told apart with an AUROC of {told:.2f}; expected {LEAST:g} at least, and {APART:g} at most. "
            "They have too little in common: label some of the new cases (sigma_by_group makes use of twenty)."
        )
    for model in models:  # so that the calibration cases weigh 1 on average
        model[0] -= math.log(weight.mean())
    weight, weight_new = weight / weight.mean(), weight_new / weight.mean()
    above = float(np.quantile(weight, 0.99))
    found = CovariateShift(
        tuple(centre.tolist()),
        tuple(spread.tolist()),
        tuple(tuple(one.tolist()) for one in models),
        effective,
        told,
        beyond=float((weight_new > above).mean()),
        cases=(len(old), len(new)),
    )
    return found, weight


def _checked(name: str, values: Any) -> Host:
    found = np.asarray(values, dtype=np.float64)
    found = found.reshape(len(found), -1)
    if not np.isfinite(found).all():
        raise Refusal(f"some features of the {name} cases are not finite; expected numbers. Fill them in.")
    if found.shape[1] > MOST:
        raise Refusal(f"the {name} cases have {found.shape[1]} features; expected at most {MOST}.")
    return found


def _basis(features: Host, centre: Host, spread: Host) -> Host:
    z = (features - centre) / spread
    return np.concatenate([np.ones((len(z), 1)), z, z * z], axis=1)


def logistic(old: Host, new: Host) -> Host:
    """Coefficients of the log density ratio of new to old, by Newton's method; both sets weigh alike."""
    both = np.concatenate([old, new])
    is_new = np.repeat([0.0, 1.0], [len(old), len(new)])
    # Of equal weight, so that the intercept is that of the densities and not of how many there are.
    share = np.repeat([0.5 / len(old), 0.5 / len(new)], [len(old), len(new)]) * len(both)
    penalty = np.full(both.shape[1], PENALTY)
    penalty[0] = 1e-9
    found = np.zeros(both.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(both @ found, -30, 30)))
        slope = both.T @ (share * (p - is_new)) + penalty * found
        curve = (both * (share * p * (1 - p))[:, None]).T @ both + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        found = found - step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) < 1e-10:
            break
    return found
