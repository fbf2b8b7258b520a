"""Covariate shift: weights beside those of another library and the truth, weighted ranks from their equation."""

import math

import numpy as np
import pytest

import truesigma as ts
from truesigma.core.recalibration import load_recalibration
from truesigma.evaluation.apply import apply_file
from truesigma.evaluation.card import calibrate
from truesigma.evaluation.sets import weighted_like
from truesigma.recalibrate import _shift, conformal, sigma


def sites(cases=400, new=300, moved=0.7, seed=0):
    """Larger predictions at the new site, and errors that grow with the prediction."""
    rng = np.random.default_rng(seed)
    location = np.concatenate([rng.normal(size=cases), rng.normal(size=new) + moved])
    scale = np.exp(0.3 * rng.normal(size=location.size))
    y = location + scale * (1 + 0.5 * np.maximum(location, 0)) * rng.standard_t(4, size=location.size)
    prediction = ts.Prediction(location, aleatoric=scale**2)
    return (prediction[:cases], y[:cases]), (prediction[cases:], y[cases:])


def test_the_regression_is_that_of_another_library():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(300, 3)), rng.normal(size=(200, 3)) + np.array([0.5, 0, -0.3])
    wide = [np.concatenate([np.ones((len(a), 1)), a], axis=1) for a in (old, new)]
    share = np.repeat([0.5 / 300, 0.5 / 200], [300, 200]) * 500
    model = linear.LogisticRegression(C=1.0, tol=1e-12, max_iter=1000)
    model.fit(np.concatenate([old, new]), np.repeat([0, 1], [300, 200]), sample_weight=share)
    found = _shift.logistic(*wide)
    assert found == pytest.approx([*model.intercept_, *model.coef_[0]], abs=1e-5)


def weighted_quantile(scores, weight, mine, level):
    """The smallest score up to which the weights of the others hold the level, beside that of the new case itself."""
    for k in np.argsort(scores):
        if weight[scores <= scores[k]].sum() >= level * (weight.sum() + mine) - 1e-9:
            return scores[k]
    return math.inf


@pytest.mark.parametrize("tails", ["both", "apart", "upper"])
def test_weighted_bounds_are_those_of_the_equation(tails):
    (old, y), (new, _) = sites(120, 60, moved=0.4)
    shift, weight = _shift.fit(_shift.features_of(old), _shift.features_of(new))
    made = conformal.fit(old, y, weight=weight, shift=shift, tails=tails)(new[:9])
    z = (y - old.location) / old.scale
    mine = shift.weights(_shift.features_of(new[:9]))
    for level in (0.5, 0.9, 0.98):
        asked = (1 + level) / 2 if tails == "apart" else level
        lower, upper = made.interval(level)
        for k in range(9):
            high = weighted_quantile(abs(z) if tails == "both" else z, weight, mine[k], asked)
            low = weighted_quantile(abs(z) if tails == "both" else -z, weight, mine[k], asked)
            assert upper[k] == pytest.approx(new.location[k] + new.scale[k] * high, rel=1e-9)
            assert lower[k] == pytest.approx(
                -math.inf if tails == "upper" else new.location[k] - new.scale[k] * low, rel=1e-9
            )


def test_with_equal_weights_it_is_conformal():
    (old, y), (new, _) = sites()
    shift, _ = _shift.fit(_shift.features_of(old), _shift.features_of(new))

    class Alike:
        def weights(self, features):
            return np.ones(len(features))

    made = conformal.fit(old, y, weight=np.ones(400), shift=Alike())(new)
    plain = conformal.fit(old, y)(new)
    for level in (0.5, 0.9, 0.99):
        assert np.array_equal(made.interval(level).upper, plain.interval(level).upper)
    assert shift.cases == (400, 300)


def test_stored_and_scored():
    (old, y), (new, truth) = sites()
    shift, weight = _shift.fit(_shift.features_of(old), _shift.features_of(new))
    fitted = conformal.fit(old, y, weight=weight, shift=shift)
    again = load_recalibration(fitted.to_dict())
    assert again == fitted
    made = again(new)
    lower, upper = made.interval(0.9)
    for name, expected in (
        ("coverage", ((lower <= truth) & (truth <= upper)).mean()),
        ("width", (upper - lower).mean()),
    ):
        assert getattr(ts.metrics, name).score(made, truth) == pytest.approx(expected, rel=1e-12)
    assert math.isfinite(ts.metrics.crps.score(made, truth))
    assert made.law.too_few_for(0.9) is None
    assert "interval of" in made.law.too_few_for(0.999)
    assert sigma.fit(old, y, weight=weight).factor > sigma.fit(old, y).factor


@pytest.mark.filterwarnings("ignore:.*is infinite")
@pytest.mark.parametrize("kind", ["csv", "npz", "parquet"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_what_apply_writes_is_read_back_as_it_is(tmp_path, kind, outputs):
    """Bounds that differ by case come back, not those of the law that all cases have together."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(300, outputs)) + np.repeat([0.0, 0.7], [200, 100])[:, None]
    y = y[:, 0] if outputs == 1 else y
    cases = ts.Cases(
        ts.Prediction(y + rng.normal(size=y.shape), aleatoric=np.exp(0.3 * rng.normal(size=y.shape))), y
    )
    card = calibrate(weighted_like(cases[:200], cases[200:].prediction), "conformal")
    ts.write(cases[200:], tmp_path / f"new.{kind}")
    apply_file(card, tmp_path / f"new.{kind}", tmp_path / f"out.{kind}", levels=[0.9, 0.5, 0.999])
    again, made = ts.read(tmp_path / f"out.{kind}").prediction, card(cases[200:])
    for level in (0.5, 0.9, 0.999):
        for one, other in zip(again.interval(level), made.interval(level)):
            np.testing.assert_allclose(one, other, rtol=1e-9)
    assert np.isinf(made.interval(0.999).upper).any()
    with pytest.raises(ts.Undefined, match=r"known at the level 0\.5, 0\.9, 0\.999 only"):
        again.interval(0.8)


def test_what_is_refused():
    (old, y), (new, _) = sites(60, 60, moved=4.0)
    features = _shift.features_of(old), _shift.features_of(new)
    with pytest.raises(ValueError, match=r"an AUROC of [\d.]+; expected 30 at least, and 0.98 at most"):
        _shift.fit(*features)
    with pytest.raises(ValueError, match="expected 30 of each at least"):
        _shift.fit(features[0][:3], features[1])
    with pytest.raises(ValueError, match="2 features, the new ones 1; expected as many"):
        _shift.fit(features[0], features[1][:, :1])
    wide = ts.Prediction(np.zeros((5, 40)), aleatoric=np.ones((5, 40)))
    with pytest.raises(ValueError, match="there are 40 outputs; expected at most 10"):
        _shift.features_of(wide)
    with pytest.raises(ValueError, match="leave by=group and promise=all out"):
        conformal.fit(old, y, weight=np.ones(60), shift=object(), promise="all")
    with pytest.raises(ValueError, match="its guarantee needs exchangeable cases"):
        conformal.fit(old, y, weight=np.ones(60))
