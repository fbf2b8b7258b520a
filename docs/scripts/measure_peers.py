"""The same predictions through every package's recalibration: python docs/scripts/measure_peers.py, for docs/peers.md.

Another group's published predictions (EfficientNet-B4, bone age; see `measure_cases.py`): fitted on 2000 cases, 90 %
intervals of 4000 others. Needs `pip install uncertainty-toolbox netcal mapie crepes puncc`. Writes `assets/peers.csv`.
"""

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
from measure_cases import ROOT, published
from measured import Row, read, write
from sklearn.base import BaseEstimator, RegressorMixin

from truesigma import Normal
from truesigma.core import plugins

Bounds = tuple[np.ndarray, np.ndarray]
HALF = float(Normal().quantile(0.95))


class Column(RegressorMixin, BaseEstimator):
    """A regressor that predicts a column of its input: how predictions get into packages that ask for a model."""

    def __init__(self, column: int = 0):
        self.column = column

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X):
        return X[:, self.column]


def main() -> None:
    pool = published(ROOT / "predictions" / "efficientnetb4_boneage.npz")
    fitted_on, test = pool[:2000], pool[2000:]
    rows: list[Row] = []
    for package, call, (lower, upper) in intervals(fitted_on, test):
        held = np.mean((lower <= test.target) & (test.target <= upper))
        row = {"package": package, "version": version(package), "call": call}
        rows.append({**row, "coverage": float(held), "width": float(np.mean(upper - lower))})
    write("peers.csv", rows)


def table() -> str:
    """The table of `docs/peers.md`, from the file of numbers."""
    lines = ["| package | call | hold | mean width |", "| --- | --- | ---: | ---: |"]
    for row in read("peers.csv", words=("version",)):
        held = f"{100 * row['coverage']:.1f} %"
        lines.append(f"| {row['package']} {row['version']} | `{row['call']}` | {held} | {row['width']:.1f} |")
    return "\n".join(lines)


def intervals(fitted_on, test) -> Iterator[tuple[str, str, Bounds]]:
    """Package, call, and the bounds of the 90 % intervals."""
    for name in ("none", "sigma", "aux", "isotonic", "conformal"):
        fitted = plugins.load("recalibrate", name).fit(fitted_on.prediction, fitted_on.target)
        bounds = fitted(test.prediction).interval(0.9)
        yield "truesigma", f"recalibrate.{name}", (bounds.lower, bounds.upper)
    mu, sd, y = fitted_on.prediction.location, fitted_on.prediction.scale, fitted_on.target
    location, scale = test.prediction.location, test.prediction.scale
    both, new = np.column_stack([mu, sd]), np.column_stack([location, scale])

    def normal(scaled: np.ndarray) -> Bounds:
        return location - HALF * scaled, location + HALF * scaled

    from netcal.regression import IsotonicRegression, VarianceScaling

    scaling, isotonic = VarianceScaling(), IsotonicRegression()
    scaling.fit((mu, sd), y)
    yield "netcal", "VarianceScaling", normal(np.squeeze(scaling.transform((location, scale))))
    isotonic.fit((mu, sd), y)
    grid, _, cdf = map(np.squeeze, isotonic.transform((location, scale)))
    low, high = (np.array([np.interp(q, c, t) for c, t in zip(cdf.T, grid.T)]) for q in (0.05, 0.95))
    yield "netcal", "IsotonicRegression", (low, high)

    from uncertainty_toolbox import recalibration as uct

    yield "uncertainty-toolbox", "get_std_recalibrator", normal(uct.get_std_recalibrator(mu, sd, y)(scale))
    bounds = uct.get_interval_recalibrator(mu, sd, y)(location, scale, 0.9)
    yield "uncertainty-toolbox", "get_interval_recalibrator", (bounds.lower, bounds.upper)

    from crepes import ConformalRegressor

    made = ConformalRegressor().fit(y - mu, sigmas=sd).predict_int(location, sigmas=scale, confidence=0.9)
    yield "crepes", "ConformalRegressor(sigmas)", (made[:, 0], made[:, 1])

    from deel.puncc.api.prediction import MeanVarPredictor
    from deel.puncc.regression import LocallyAdaptiveCP

    model = MeanVarPredictor([Column(0), Column(1)], is_trained=[True, True])
    adaptive = LocallyAdaptiveCP(model, train=False)
    adaptive.fit(X_calib=both, y_calib=y)
    yield "puncc", "LocallyAdaptiveCP", adaptive.predict(new, alpha=0.1)[1:]

    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    score = ResidualNormalisedScore(residual_estimator=Column(1), prefit=True)
    split = SplitConformalRegressor(Column(0), confidence_level=0.9, conformity_score=score, prefit=True)
    bounds = split.conformalize(both, y).predict_interval(new)[1]
    yield "mapie", "ResidualNormalisedScore", (bounds[:, 0, 0], bounds[:, 1, 0])


if __name__ == "__main__":
    main()
