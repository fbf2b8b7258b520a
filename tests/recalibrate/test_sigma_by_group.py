"""A factor for each group: the slow loop, what twenty cases close, what is said of groups that were not seen."""

import math
import warnings

import numpy as np
import pytest
from samples import draw

from truesigma import Laplace, Prediction, Student, load_recalibration
from truesigma.recalibrate import sigma, sigma_by_group


def made(seed, sizes, off, images=1, tails=None):
    """Cases of groups of those sizes whose errors are larger than sigma by those factors."""
    rng = np.random.default_rng(seed)
    group = np.repeat([f"site {k}" for k in range(len(sizes))], [n * images for n in sizes])
    scale = np.exp(0.4 * rng.normal(size=len(group)))
    z = (
        rng.normal(size=len(group))
        if tails is None
        else rng.standard_t(tails, len(group)) * (1 - 2 / tails) ** 0.5
    )
    if images > 1:
        z = np.repeat(rng.normal(size=sum(sizes)), images) * 0.9**0.5 + z * 0.1**0.5
    y = np.repeat(off, [n * images for n in sizes]) * scale * z
    return Prediction(0 * y, aleatoric=scale**2), y, group


def slow(prediction, y, group, patient, name):
    """s_g and the clusters, from the definition, one case after the other."""

    def one(keep):
        s, w, n = {}, {}, 0.0
        for i in range(len(y)):
            if keep(group[i]):
                e = y[i] ** 2 / prediction.aleatoric[i]
                s[patient[i]] = s.get(patient[i], 0.0) + e
                w[patient[i]] = w.get(patient[i], 0.0) + 1.0
                n += 1.0
        square = sum(s.values()) / n
        u = [s[p] - square * w[p] for p in s]
        c = len(u)
        se = math.sqrt(c / (c - 1) * sum(x * x for x in u)) / n
        return math.sqrt(square), se / (2 * math.sqrt(square)), n * n / sum(x * x for x in w.values())

    own, se, clusters = one(lambda g: g == name)
    rest, se_rest, _ = one(lambda g: g != name)
    d = math.log(own) - math.log(rest)
    b = max(0.0, 1 - ((se / own) ** 2 + (se_rest / rest) ** 2) / d**2)
    return rest * (own / rest) ** b, clusters


@pytest.mark.parametrize("images", [1, 3])
def test_the_slow_loop(images):
    prediction, y, group = made(0, (40, 12, 30), (1.0, 1.8, 1.1), images=images)
    patient = np.arange(len(y)) // images
    given = {"patient": patient} if images > 1 else {}
    fitted = sigma_by_group.fit(prediction, y, group=group, **given)
    for name, found in fitted.groups.items():
        factor, clusters = slow(prediction, y, group, patient, name)
        assert found.factor == pytest.approx(factor, rel=1e-12)
        assert found.clusters == pytest.approx(clusters, rel=1e-12)
    assert fitted.factor == pytest.approx(sigma.fit(prediction, y).factor, rel=1e-12)


def test_a_patient_of_several_groups_is_one_cluster_of_them():
    prediction, y, group = made(1, (60, 40, 50), (1.0, 1.5, 1.1))
    patient = np.random.default_rng(0).integers(0, 30, size=len(y))
    fitted = sigma_by_group.fit(prediction, y, group=group, patient=patient)
    assert any(0 < found.share < 1 for found in fitted.groups.values())
    for name, found in fitted.groups.items():
        factor, clusters = slow(prediction, y, group, patient, name)
        assert found.factor == pytest.approx(factor, rel=1e-12)
        assert found.clusters == pytest.approx(clusters, rel=1e-12)
    sizes = np.bincount(patient)
    assert fitted.common.clusters == pytest.approx(len(y) ** 2 / (sizes**2).sum(), rel=1e-12)
    whole = sigma.fit(prediction, y, patient=patient)
    assert fitted.standard_error == pytest.approx(whole.standard_error, rel=1e-12)


def test_what_is_applied_is_the_factor_and_its_law():
    prediction, y, group = made(1, (60, 20), (1.0, 2.0))
    fitted = sigma_by_group.fit(prediction, y, group=group)
    new = fitted(prediction, group=group)
    for name, found in fitted.groups.items():
        some = group == name
        np.testing.assert_allclose(new.scale[some], prediction.scale[some] * found.factor)
        reach = Student(some.sum() - 1.0).quantile(0.95)
        np.testing.assert_allclose(new.interval(0.9).upper[some], reach * new.scale[some])
    np.testing.assert_array_equal(new.location, prediction.location)


def test_groups_that_were_not_seen_get_the_common_factor_and_are_named():
    prediction, y, group = made(2, (60, 40), (1.0, 2.0))
    fitted = sigma_by_group.fit(prediction, y, group=group)
    with pytest.warns(UserWarning, match="group elsewhere had no calibration cases: the common factor"):
        new = fitted(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), group=["elsewhere", "site 1"])
    assert new.scale == pytest.approx([fitted.factor, fitted.groups["site 1"].factor])
    with pytest.warns(UserWarning, match="no group was given"):
        assert fitted(Prediction([0.0], aleatoric=[1.0])).scale == pytest.approx(fitted.factor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(prediction, group=group)


def test_few_cases_of_a_group_get_the_common_factor():
    prediction, y, group = made(3, (60, 4), (1.0, 3.0))
    found = sigma_by_group.fit(prediction, y, group=group).groups
    assert found["site 1"].factor == pytest.approx(sigma.fit(prediction, y).factor)
    assert found["site 1"].clusters == 64
    assert found["site 0"].share == 1.0  # four others cannot pull it anywhere


def test_one_group_alone_is_sigma_scaling_with_students_law():
    prediction, y, _ = made(4, (30,), (1.7,))
    fitted, one = sigma_by_group.fit(prediction, y, group=["here"] * 30), sigma.fit(prediction, y)
    assert fitted.groups["here"].factor == pytest.approx(one.factor)
    assert fitted(prediction, group=["here"] * 30).law == Student(29.0)


def test_other_laws_stay():
    sample = draw(5, cases=60, law="laplace")
    prediction, group = sample.prediction(), np.arange(60) % 2
    new = sigma_by_group.fit(prediction, sample.target, group=group)(prediction, group=group)
    assert new.law == Laplace()


def test_refusals():
    prediction, y, group = made(8, (20, 20), (1.0, 1.0))
    with pytest.raises(ValueError, match=r"given no group.*use sigma"):
        sigma_by_group.fit(prediction, y)
    with pytest.raises(ValueError, match="group site 1: every calibration error is exactly 0"):
        sigma_by_group.fit(prediction, np.where(group == "site 1", 0.0, y), group=group)
    stored = sigma_by_group.fit(prediction, y, group=group).to_dict()
    stored["groups"]["site 0"] = {**stored["groups"]["site 0"], "factor": "1"}
    with pytest.raises(ValueError, match="Fit it again"):
        load_recalibration(stored)
