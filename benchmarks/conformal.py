"""Conformal bounds of ours beside those of MAPIE and crepes on the same arrays: all kinds that they have, in one run.

python benchmarks/conformal.py --json benchmarks/results/conformal.json
"""

import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
from command import command, write

from truesigma import Draws, Prediction, recalibrate
from truesigma.core.laws import Stated

LEVELS = (0.5, 0.8, 0.9, 0.95)
SIZES = (20, 50, 99, 100, 1000)
ALIKE = 1e-9
Bounds = tuple[Any, Any]


def agreement(sizes: tuple[int, ...] = SIZES, seeds: int = 5) -> list[dict[str, Any]]:
    """The largest distance between our bounds and a peer's, in units of sigma, for each kind of interval and size.

    `others` counts the bounds of the peer at another rank than ceil((n + 1) level), which are left out: rounded,
    (n + 1)(1 - level) can fall below a whole number, and crepes then takes one rank more than the promise needs.
    """
    found: dict[tuple[str, str, int], list[tuple[float, int]]] = {}
    for size in sizes:
        for seed in range(seeds):
            for kind, peer, *rest in _one(np.random.default_rng(seed), size):
                found.setdefault((kind, peer, size), []).append((rest[0], rest[1]))
    rows = []
    for (kind, peer, size), each in found.items():
        distance, others = max(d for d, _ in each), sum(n for _, n in each)
        known = {"kind": kind, "peer": peer, "cases": size, "distance": distance, "others": others}
        rows.append({**known, "equal": distance <= ALIKE})
    return rows


def _one(rng: np.random.Generator, size: int) -> list[tuple[str, str, float, int]]:
    """Distances of every kind and level on one set: errors with heavy tails and a bias, three sites."""
    both = size + 200
    location, scale = rng.normal(size=both), np.exp(0.5 * rng.normal(size=both))
    target = location + scale * (0.3 + rng.standard_t(4, size=both))
    site = rng.integers(0, 3, size=both)
    old, new = slice(0, size), slice(size, both)
    prediction = Prediction(location, aleatoric=scale**2)
    count = np.bincount(site[old], minlength=3)
    rows = []
    for level in LEVELS:
        for kind, options, peers in (
            ("symmetric", {}, (_mapie, _crepes)),
            ("by site", {"by": "group"}, (_crepes_by_site,)),
        ):
            fitted = recalibrate.conformal.fit(prediction[old], target[old], group=site[old], **options)
            ours = fitted(prediction[new], group=site[new]).interval(level)
            for peer in peers:
                theirs = peer((location, scale, target, site), old, new, level)
                if (
                    theirs is None
                ):  # MAPIE refuses where the level needs more cases; ours and crepes' are infinite
                    continue
                cases = count[site[new]] if kind == "by site" else np.full(200, size)
                taken = cases + 1 - np.floor((1 - level) * (cases + 1))
                other = (taken != np.ceil((cases + 1) * level - 1e-9)) & (peer is not _mapie)
                ends = zip((ours.lower, ours.upper), theirs)
                distance = max(_distance(a, b, scale[new], ~other) for a, b in ends)
                rows.append((kind, peer.__doc__ or "", distance, int(other.sum())))
        for tails in ("both", "apart"):
            ends = location - 0.8 * scale, location + 1.1 * scale * np.exp(0.1 * location)
            found = _mapie_quantiles((location, target, *ends), old, new, level, tails)
            if found is not None:
                stated = Stated((level,), *(((end - location) / scale)[:, None] for end in ends))
                known = Prediction(location, aleatoric=scale**2, law=stated)
                fitted = recalibrate.cqr.fit(known[old], target[old], tails=tails)
                pairs = zip(fitted(known[new]).interval(level), found)
                distance = max(_distance(a, b, scale[new], np.full(200, True)) for a, b in pairs)
                rows.append((f"quantiles, tails {tails}", "MAPIE", distance, 0))
        for kind, distance in _across_folds(rng, size, level).items():
            rows.append((kind, "MAPIE", distance, 0))
    return rows


def _across_folds(rng: np.random.Generator, size: int, level: float) -> dict[str, float]:
    """CV+ of least squares in five folds, with errors that are not divided by a sigma, as MAPIE has them."""
    from mapie.regression import CrossConformalRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold

    x = rng.normal(size=(size + 50, 3))
    y = x @ [1.0, -1.0, 0.5] + rng.standard_t(4, size=size + 50)
    folds = KFold(5)
    model = CrossConformalRegressor(LinearRegression(), confidence_level=level, method="plus", cv=folds)
    try:
        model.fit_conformalize(x[:size], y[:size])
        bounds = model.predict_interval(x[size:], aggregate_predictions="mean")[1][:, :, 0]
    except ValueError:  # the level needs more cases
        return {}
    fold, location, members = np.zeros(size, int), np.zeros(size), []
    for k, (others, mine) in enumerate(folds.split(x[:size])):
        one = LinearRegression().fit(x[others], y[others])
        fold[mine], location[mine] = k, one.predict(x[mine])
        members.append(one.predict(x[size:]))
    fitted = recalibrate.cv_plus.fit(Prediction(location, aleatoric=0 * location + 1), y[:size], fold=fold)
    made = fitted.of_members(Draws(np.stack(members), np.ones((5, 50)))).interval(level)
    if not np.isfinite(made.upper).all():
        return {}
    return {
        "across folds": float(
            max(np.abs(made.lower - bounds[:, 0]).max(), np.abs(made.upper - bounds[:, 1]).max())
        )
    }


def _distance(ours: Any, theirs: Any, scale: Any, counts: Any) -> float:
    same = (ours == theirs) | ~counts  # so are infinities of one sign
    return float(
        np.max(np.where(same, 0.0, np.abs(np.where(same, 0, ours) - np.where(same, 0, theirs)) / scale))
    )


class _Known:
    """A model whose predictions are known: what it is asked about is the number of the case."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def fit(self, X: Any, y: Any) -> "_Known":
        return self

    def predict(self, X: Any) -> Any:
        return self.values[np.asarray(X)[:, 0].astype(int)]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _mapie(data: Any, old: slice, new: slice, level: float) -> Bounds | None:
    """MAPIE"""
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    location, scale, target, _ = data
    number = np.arange(len(location))[:, None]
    score = ResidualNormalisedScore(residual_estimator=_Known(scale), prefit=True, sym=True)
    model = SplitConformalRegressor(_Known(location), level, score, prefit=True)
    try:
        model.conformalize(number[old], target[old])
        _, bounds = model.predict_interval(number[new])
    except ValueError:  # the level needs more cases
        return None
    return bounds[:, 0, 0], bounds[:, 1, 0]


def _mapie_quantiles(data: Any, old: slice, new: slice, level: float, tails: str) -> Bounds | None:
    """MAPIE"""
    from mapie.regression import ConformalizedQuantileRegressor

    location, target, lower, upper = data
    number = np.arange(len(location))[:, None]
    models = [_Known(lower), _Known(upper), _Known(location)]
    model = ConformalizedQuantileRegressor(models, confidence_level=level, prefit=True)
    try:
        model.conformalize(number[old], target[old])
        _, bounds = model.predict_interval(number[new], symmetric_correction=tails == "both")
    except ValueError:  # the level needs more cases
        return None
    return bounds[:, 0, 0], bounds[:, 1, 0]


def _crepes(data: Any, old: slice, new: slice, level: float) -> Bounds:
    """crepes"""
    from crepes import ConformalRegressor

    location, scale, target, _ = data
    model = ConformalRegressor().fit(target[old] - location[old], sigmas=scale[old])
    found = model.predict_int(location[new], sigmas=scale[new], confidence=level)
    return found[:, 0], found[:, 1]


def _crepes_by_site(data: Any, old: slice, new: slice, level: float) -> Bounds:
    """crepes"""
    from crepes import ConformalRegressor

    location, scale, target, site = data
    model = ConformalRegressor().fit(target[old] - location[old], sigmas=scale[old], bins=site[old])
    found = model.predict_int(location[new], sigmas=scale[new], bins=site[new], confidence=level)
    return found[:, 0], found[:, 1]


def main() -> None:
    """Compare, and write it as json if a file is named."""
    args = command(__doc__).parse_args()
    warnings.simplefilter("ignore")
    rows = agreement()
    for row in rows:
        what = f"{row['kind']:12} {row['peer']:8} {row['cases']:6} cases"
        print(f"{what}: {row['distance']:.1e} sigma apart, {row['others']} at another rank")
    used = {name: version(name) for name in ("mapie", "crepes", "numpy")}
    write(args.json, {"versions": used, "rows": rows})


if __name__ == "__main__":
    main()
