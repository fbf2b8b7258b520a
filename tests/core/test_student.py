"""Student's t against SciPy and its own integral, and laws that differ by case against each law alone."""

import math

import numpy as np
import pytest
import scipy.stats
from samples import KINDS, arrays_of

from truesigma import Cases, Empirical, Laplace, Law, Normal, Prediction, Student, Tally, Undefined, metrics
from truesigma.core import plugins
from truesigma.core.arrays import to_host
from truesigma.core.law import law_from_dict
from truesigma.core.varying import ByCase, laws_of, usual_law
from truesigma.evaluation.replicates import metric_rows

Z = np.array([-9.0, -2.5, -1e-9, 0.0, 0.3, 1.0, 40.0])


@pytest.mark.parametrize("degrees", [0.7, 1.5, 3.0, 19.0, 250.0])
def test_student_is_that_of_scipy(degrees):
    law, theirs = Student(degrees), scipy.stats.t(degrees)
    np.testing.assert_allclose(law.cdf(Z), theirs.cdf(Z), rtol=1e-12)
    np.testing.assert_allclose(law.log_density(Z), theirs.logpdf(Z), rtol=1e-11)
    for p in (1e-6, 0.05, 0.3, 0.5, 0.9, 1 - 1e-6):
        assert law.quantile(p) == pytest.approx(theirs.ppf(p), rel=1e-8, abs=1e-12)
    if degrees > 2:
        assert isinstance(law, Law)
        assert law.variance == pytest.approx(theirs.var())
    else:
        with pytest.raises(Undefined, match="too few cases"):
            _ = law.variance


@pytest.mark.parametrize("degrees", [1.5, 3.0, 19.0])
def test_the_closed_form_of_the_crps_is_its_integral(degrees):
    law, theirs = Student(degrees), scipy.stats.t(degrees)
    for z in (-2.0, 0.0, 0.4, 5.0):
        below = scipy.integrate.quad(lambda t: theirs.cdf(t) ** 2, -np.inf, z, limit=400)[0]
        above = scipy.integrate.quad(lambda t: theirs.sf(t) ** 2, z, np.inf, limit=400)[0]
        here = np.array([z])
        assert law.crps(here, law.cdf(here))[0] == pytest.approx(below + above, rel=1e-6)


def test_a_scoring_library_agrees():
    theirs = pytest.importorskip("scoringrules")
    found = Student(7.0).crps(Z, Student(7.0).cdf(Z))
    np.testing.assert_allclose(found, theirs.crps_t(Z, 7.0), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_every_library_has_it(kind):
    law = Student(5.0)
    with arrays_of(kind) as make:
        z = make(Z)
        for found, expected in (
            (law.cdf(z), law.cdf(Z)),
            (law.log_density(z), law.log_density(Z)),
            (law.crps(z, law.cdf(z)), law.crps(Z, law.cdf(Z))),
        ):
            assert type(found) is type(z)
            np.testing.assert_allclose(to_host(found), expected, rtol=1e-12)


def test_refusals_and_the_stored_form():
    assert law_from_dict(Student(4.0).to_dict()) == Student(4.0)
    for wrong in (0.0, -1.0, math.inf, math.nan, "3"):
        with pytest.raises(ValueError, match="degrees"):
            Student(wrong)
    with pytest.raises(Undefined, match="CRPS"):
        Student(1.0).crps(Z, Z)
    with pytest.raises(ValueError, match="cannot be made of its name alone"):
        law_from_dict("student")


def two_laws(outputs=(3,)):
    """60 cases, of which every third has another law."""
    rng = np.random.default_rng(0)
    shape = (60, *outputs)
    index = (np.arange(60) % 3 == 0).astype(int)
    law = ByCase((Student(6.0), Empirical(rng.normal(size=30))), index)
    prediction = Prediction(
        rng.normal(size=shape),
        aleatoric=rng.gamma(2.0, 1.0, shape),
        epistemic=rng.gamma(1.0, 1.0, shape),
        law=law,
    )
    return prediction, rng.normal(size=shape), law


def alone(prediction, law, some):
    part = prediction[some]
    return Prediction(part.location, aleatoric=part.aleatoric, epistemic=part.epistemic, law=law)


def test_intervals_and_variances_are_those_of_each_law():
    prediction, _, law = two_laws()
    for one, some in laws_of(law, 60):
        mine = alone(prediction, one, some)
        for level in (0.5, 0.9):
            for found, expected in zip(prediction.interval(level), mine.interval(level)):
                np.testing.assert_allclose(found[some], expected)
        np.testing.assert_allclose(prediction.variance[some], mine.variance)
    for index in (slice(3, 40), np.arange(60) % 2 == 0, np.array([5, 3, 3])):
        np.testing.assert_array_equal(
            prediction[index].interval(0.9).upper, prediction.interval(0.9).upper[index]
        )


@pytest.mark.parametrize(
    "metric", ["crps", "coverage", "width", "winkler", "sharpness", "miscalibration_area", "mae"]
)
def test_a_score_is_the_mean_over_the_laws(metric):
    prediction, target, law = two_laws()
    module = plugins.load("metrics", metric)
    weight = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    found = module.score(prediction, target, weight=weight)
    parts = [
        (module.score(alone(prediction, one, some), target[some], weight=weight[some]), weight[some].sum())
        for one, some in laws_of(law, 60)
    ]
    if metric == "miscalibration_area":
        return  # the area of a mean of curves: only that it is defined
    power = 2 if metric == "sharpness" else 1
    mean = (sum(w * value**power for value, w in parts) / weight.sum()) ** (1 / power)
    assert found == pytest.approx(mean, rel=1e-12)
    rows, finish = metric_rows(Cases(prediction, target, weight=weight), module, {})
    assert finish(rows.sum(axis=0)) == pytest.approx(found, rel=1e-12)
    one = metric_rows(Cases(prediction[5:6], target[5:6], weight=weight[5:6]), module, {})[0]
    np.testing.assert_allclose(rows.toarray()[5], one.toarray()[0])  # each case keeps its row


def test_bins_and_tallies_take_them():
    prediction, target, _ = two_laws()
    whole = Tally.empty().add(prediction, target)
    parts = Tally.empty().add(prediction[:20], target[:20]).add(prediction[20:], target[20:])
    assert parts.summary()["crps"] == pytest.approx(whole.summary()["crps"], rel=1e-12)
    assert metrics.uce.score(prediction, target) > 0
    expected = np.sqrt(np.mean(prediction.variance))
    assert metrics.sharpness.score(prediction, target) == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_by_case_in_every_library(kind):
    prediction, target, law = two_laws()
    expected = metrics.crps.score(prediction, target), prediction.interval(0.8)
    with arrays_of(kind) as make:
        arrays = [make(a) for a in (prediction.location, prediction.aleatoric, prediction.epistemic)]
        there = Prediction(arrays[0], aleatoric=arrays[1], epistemic=arrays[2], law=law)
        assert metrics.crps.score(there, make(target)) == pytest.approx(expected[0], rel=1e-9)
        for found, bound in zip(there.interval(0.8), expected[1]):
            assert type(found) is type(arrays[0])
            np.testing.assert_allclose(to_host(found), bound, rtol=1e-9)
        z = make(target)
        for found, bound in (
            (law.cdf(z), law.cdf(target)),
            (law.crps(z, law.cdf(z)), law.crps(target, law.cdf(target))),
        ):
            np.testing.assert_allclose(to_host(found), bound, rtol=1e-9)


def test_numbers_of_several_laws_are_those_of_each_case():
    law = ByCase((Normal(), Student(3.0)), [0, 1, 1])
    assert law.variance.tolist() == [1.0, 3.0, 3.0]
    assert law.quantile(0.9).tolist() == [one.quantile(0.9) for one in (Normal(), Student(3.0), Student(3.0))]
    assert usual_law(law) == Student(3.0)
    assert usual_law(Normal()) == Normal()
    again = law_from_dict(law.to_dict())
    assert again.to_dict() == law.to_dict()
    for wrong in ([0, 2], [0.5], [], [[0]], [-1]):
        with pytest.raises(ValueError, match="number of one of the 2 laws"):
            ByCase((Normal(), Student(3.0)), wrong)
    with pytest.raises(ValueError, match="one likelihood"):
        ByCase((Normal(), Laplace()), [0])
