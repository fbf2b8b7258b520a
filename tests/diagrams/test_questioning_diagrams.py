"""PIT, CRPS in parts, slabs: their numbers by loops, their promises by simulation."""

import numpy as np
import pytest

from truesigma import Cases, Laplace, Prediction, metrics
from truesigma.diagrams import crps_parts, pit, slabs


def normal(seed, cases=200, patients=0, size=1.0):
    """True Normal laws, or of the wrong size; with patients, half of the variance is theirs."""
    rng = np.random.default_rng(seed)
    location, scale, error = rng.normal(size=cases), rng.gamma(4, 0.2, cases), rng.normal(size=cases)
    names = None
    if patients:
        names = np.arange(cases) % patients
        error = np.sqrt(0.5) * (error + rng.normal(size=patients)[names])
    return Cases(Prediction(location, scale=scale / size), location + scale * error, patient=names)


def test_pit_counts_what_the_law_says():
    rng = np.random.default_rng(0)
    p = Prediction(rng.normal(size=(60, 2)), scale=rng.gamma(4, 0.2, (60, 2)), law=Laplace())
    y, weight = rng.normal(size=(60, 2)), rng.uniform(0, 2, 60)
    expected = np.zeros(5)
    for i, j in np.ndindex(60, 2):
        z = (y[i, j] - p.location[i, j]) / p.scale[i, j]
        u = 0.5 * np.exp(z) if z < 0 else 1 - 0.5 * np.exp(-z)
        expected[int(5 * u)] += weight[i]
    found = pit.table(p, y, weight=weight, bins=5)
    np.testing.assert_allclose(found.share, expected / expected.sum(), rtol=1e-12)


@pytest.mark.parametrize("patients", [0, 40])
def test_all_bars_are_in_the_band_together(patients):
    alarms = np.mean([pit.table(normal(k, patients=patients)).outside.any() for k in range(300)])
    assert 0.01 < alarms < 0.09
    assert pit.table(normal(0, cases=1000, size=1.5)).outside.sum() >= 2


def test_parts_are_those_of_loops_and_sum_up_to_the_crps():
    from sklearn.isotonic import IsotonicRegression

    cases = normal(1, cases=40, size=1.3)
    p, y = cases.prediction, cases.target
    ts = np.linspace(-12, 12, 3001)
    sums = np.zeros(3)
    for t in ts:
        u = np.asarray(p.cdf(np.full(40, t))).round(12)
        o = (y <= t).astype(float)
        r = IsotonicRegression().fit_transform(u, o)
        brier, best, blind = ((u - o) ** 2).mean(), ((r - o) ** 2).mean(), ((o.mean() - o) ** 2).mean()
        sums += np.array([brier - best, blind - best, blind]) * (ts[1] - ts[0])
    found = crps_parts.table(cases)
    held = found.miscalibration, found.discrimination, found.uncertainty
    np.testing.assert_allclose(held, sums, rtol=0.01)
    assert found.crps == pytest.approx(metrics.crps.score(cases), rel=0.01)


def test_miscalibration_is_beside_what_chance_makes_of_it():
    right, wrong = (crps_parts.table(normal(2, cases=800, size=size)) for size in (1.0, 2.0))
    assert right.miscalibration < 1.5 * right.chance
    assert wrong.miscalibration > 3 * wrong.chance
    assert wrong.discrimination == pytest.approx(right.discrimination, rel=0.05)


def test_of_a_thousand_cases_a_tenth_that_is_held_at_60_percent_is_found():
    found = 0
    for seed in range(20):
        age, error = np.random.default_rng(seed).normal(size=(2, 1000))
        p = Prediction(np.zeros(1000), scale=np.ones(1000))
        one = slabs.table(
            p, error * np.where(age > 1.2816, 1.96, 1.0), covariates={"age": age}, directions=100
        )
        found += one.worst + 1.96 * one.worst_error < 0.9
    assert found >= 18


def test_slabs_hold_what_counting_says_and_find_where_it_is_missing():
    rng = np.random.default_rng(3)
    age, error = rng.normal(size=(2, 2000))
    error *= np.where(age > 1.2816, 1.96, 1.0)  # a tenth is held at 60 %
    p = Prediction(np.zeros(2000), scale=np.ones(2000))
    found = slabs.table(p, error, covariates={"age": age})
    assert found.names == ("age",)  # prediction and sigma are the same for all
    low, high = np.quantile(age, [0.8, 1.0])
    inside = np.abs(error[(age > low) & (age <= high)]) <= 1.6448536
    assert found.held[0, 4] == pytest.approx(inside.mean(), abs=0.003)
    assert found.worst + 1.96 * found.worst_error < 0.8
    calm = [slabs.table(normal(k, cases=1000), directions=100) for k in range(30)]
    assert sum(abs(one.worst - 0.9) > 1.96 * one.worst_error for one in calm) <= 5
    with pytest.raises(ValueError, match="age"):
        slabs.table(p, error, covariates={"age": age[:5]})


@pytest.mark.parametrize("module", [pit, crps_parts, slabs])
def test_each_is_drawn_with_its_labels(module):
    pytest.importorskip("matplotlib")
    ax = module.draw({"none": normal(0, size=2.0), "sigma": normal(0)}, title="both")
    assert ax.get_title() == "both"
    assert {"none", "sigma"} <= {text.get_text().split()[0] for text in ax.get_legend().get_texts()}
