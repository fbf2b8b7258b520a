"""Regressors of scikit-learn with a sigma that is recalibrated on rows they had not seen."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

import truesigma as ts
from truesigma.sklearn import CalibratedRegressor


def data(cases: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise between .3 and 1.5 that the first column says, about a curve of the second."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(cases, 3))
    return X, np.sin(6 * X[:, 1]) + (0.3 + 1.2 * X[:, 0]) * rng.normal(size=cases)


def share(model: CalibratedRegressor, X: np.ndarray, y: np.ndarray, level: float = 0.9) -> float:
    lower, upper = model.predict_interval(X, level)
    return float(np.mean((lower <= y) & (y <= upper)))


@pytest.mark.parametrize(
    "estimator", [BayesianRidge(), pytest.param(LinearRegression(), marks=pytest.mark.slow)]
)
def test_it_is_an_estimator_as_scikit_learn_checks_them(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of estimators and their checks
        found = check_estimator(CalibratedRegressor(estimator, cv=3), on_fail=None)
    assert len(found) > 40
    assert [(one["check_name"], one["exception"]) for one in found if one["status"] == "failed"] == []


@pytest.mark.parametrize(
    ("estimator", "sigma"),
    [
        (BayesianRidge(), "return_std"),
        (make_pipeline(StandardScaler(), GaussianProcessRegressor(alpha=1.0)), "return_std"),
        (RandomForestRegressor(20, random_state=0), "members"),
        (BaggingRegressor(max_features=0.7, random_state=0), "members"),
        (make_pipeline(StandardScaler(), RandomForestRegressor(20, random_state=0)), "members"),
        (GradientBoostingRegressor(n_estimators=20), "residuals"),  # whose members add up
        (GradientBoostingRegressor(n_estimators=20, loss="quantile", alpha=0.5), "quantiles"),
        (QuantileRegressor(quantile=0.5, alpha=0.0), "quantiles"),
    ],
)
@pytest.mark.parametrize("cv", [3, 0.4])
def test_intervals_hold_wherever_sigma_comes_from(estimator, sigma, cv):
    (X, y), (new, truth) = data(600), data(1000, 1)
    model = CalibratedRegressor(estimator, cv=cv, random_state=0).fit(X, y)
    assert model.sigma_ == sigma
    assert 0.85 < share(model, new, truth) < 0.96
    location, deviation = model.predict(new, return_std=True)
    made = model.predict_law(new)
    np.testing.assert_array_equal(location, made.location)
    np.testing.assert_allclose(deviation, made.scale)
    np.testing.assert_allclose(model.predict_quantiles(new, [0.05, 0.95]).T, model.predict_interval(new, 0.9))
    assert ts.fit("sigma", model.recalibration_(model.calibration_)).factor == pytest.approx(1, abs=1e-9)


def test_a_forest_that_overfits_is_calibrated_on_rows_it_had_not_seen():
    """On its own rows the errors of such a forest are a third of what they are on others."""
    shares = []
    for seed in range(8):
        (X, y), (new, truth) = data(300, seed), data(500, 100 + seed)
        model = CalibratedRegressor(RandomForestRegressor(30, random_state=seed), random_state=seed).fit(X, y)
        shares.append(share(model, new, truth))
        seen, own = model.predict(X), model.calibration_
        assert np.std(y - seen) < 0.6 * np.std(own.target - own.prediction.location)
    assert 0.88 < np.mean(shares) < 0.93


def test_the_size_of_errors_is_learned_where_nothing_says_sigma():
    (X, y), (new, _) = data(1500), data(500, 1)
    scale = CalibratedRegressor(LinearRegression(), random_state=0).fit(X, y).predict_law(new).scale
    assert np.corrcoef(scale, 0.3 + 1.2 * new[:, 0])[0, 1] > 0.8


@pytest.mark.parametrize("recalibrate", ["conformal", ("aux", {"hidden": 1}), "isotonic"])
def test_any_recalibration(recalibrate):
    (X, y), (new, truth) = data(600), data(1000, 1)
    model = CalibratedRegressor(BayesianRidge(), recalibrate).fit(X, y)
    assert 0.87 < share(model, new, truth) < 0.95
    assert clone(model).get_params()["recalibrate"] == recalibrate


def test_rows_of_a_group_stay_together_and_are_counted_once():
    (X, y), groups = data(300), np.arange(300) // 10
    model = CalibratedRegressor(BayesianRidge()).fit(X, y, groups=groups)
    alone = CalibratedRegressor(BayesianRidge(), cv=30).fit(X, y, groups=groups)
    assert np.array_equal(np.sort(model.calibration_.patient), groups)
    expected = BayesianRidge().fit(X[groups != 3], y[groups != 3]).predict(X[groups == 3])
    found = alone.calibration_
    np.testing.assert_allclose(np.sort(found.prediction.location[found.patient == 3]), np.sort(expected))
    assert model.recalibration_.standard_error == ts.fit("sigma", model.calibration_).standard_error


def test_within_a_search_and_a_pipeline_with_groups():
    (X, y), groups = data(120), np.arange(120) // 4
    with sklearn.config_context(enable_metadata_routing=True):
        model = CalibratedRegressor(DecisionTreeRegressor(random_state=0), cv=3).set_fit_request(groups=True)
        search = GridSearchCV(model, {"estimator__max_depth": [2, 20]}, cv=3).fit(X, y, groups=groups)
        assert search.best_params_ == {"estimator__max_depth": 2}
        assert search.best_estimator_.calibration_.patient is not None
        scores = cross_validate(make_pipeline(StandardScaler(), model), X, y, params={"groups": groups}, cv=3)
    assert np.isfinite(scores["test_score"]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": 1}, "cv is 1; expected a number of folds"),
        ({"cv": 40}, "40 folds; expected 80"),
        ({"sigma": "bounds"}, "sigma is 'bounds'"),
        ({"sigma": "quantiles"}, "BayesianRidge has no quantiles"),
        ({"recalibrate": "sigmaa"}, "sigmaa"),
    ],
)
def test_what_cannot_be_done_is_said(options, words):
    with pytest.raises(ValueError, match=words):
        CalibratedRegressor(BayesianRidge(), **options).fit(*data(60))
