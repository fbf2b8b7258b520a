"""Cases weighted to resemble those of a new site, for which only predictions are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays import like, to_host
from ..core.values import Cases, Draws, Prediction, changed
from ..recalibrate._shift import features_of
from ..recalibrate._shift import fit as fit_shift
from .card import as_cases
from .recipe import Recipe, load_recipe


def weighted_like(
    cases: Cases,
    new: Prediction | Draws | Cases,
    *,
    recipe: str | Recipe = "exact",
    features: tuple[Any, Any] | None = None,
) -> Cases:
    """Weight cases so that they look like new ones, by what is predicted for both; new targets are not used.

    Whatever is fitted on the result, or scored with it, is valid for the new site if cases that look alike err alike
    here and there. Without labels that cannot be checked.

    Args:
        cases: with targets; weights that they have are multiplied.
        new: predictions of the new site.
        recipe: "exact", "paper", "code", or the path of a TOML file.
        features: (case, feature) of both, to measure the shift by instead of prediction and log scale. Recalibrations
            that need the weight of a future case, such as conformal, cannot be fitted then.

    Returns:
        The cases with their weights; `.shift` says how many of them count, and how far apart the two sets are.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.concatenate([rng.normal(size=500), rng.normal(size=500) + 1])
        >>> p = Prediction(y, aleatoric=0 * y + 1)
        >>> found = weighted_like(Cases(p[:500], y[:500]), p[500:])
        >>> round(float(np.average(found.target, weights=found.weight)), 1), round(found.shift.effective, -1)
        (1.0, 200.0)

    Reference: Shimodaira, 2000; Tibshirani et al., "Conformal Prediction under Covariate Shift", 2019.
    """
    chosen = load_recipe(recipe)
    old, there = features or (features_of(chosen.prediction(one)) for one in (cases, as_cases(new)))
    shift, weight = fit_shift(old, there, patient=cases.cluster)
    given = cases.weight
    beside = np.ones(1) if given is None else to_host(given)
    product = weight.reshape(len(cases), *[1] * (beside.ndim - 1)) * beside
    return changed(cases, weight=like(product, cases.prediction.location), shift=None if features else shift)


def all_like(sets: Sequence[Cases], new: Prediction | Draws | Cases, recipe: str | Recipe) -> list[Cases]:
    """Weight each set of cases to resemble the new ones, unless it is the new ones."""
    return [one if same_cases(one, new) else weighted_like(one, new, recipe=recipe) for one in sets]


def same_cases(cases: Cases, new: Prediction | Draws | Cases) -> bool:
    """Whether the new predictions are those of the cases, which then are already from the new site."""
    one, other = (to_host(as_cases(p).prediction.location) for p in (cases, new))
    return one.shape == other.shape and bool(np.array_equal(one, other))
