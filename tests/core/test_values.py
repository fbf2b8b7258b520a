"""The frozen values: what they accept, what they refuse and how they say it, how they are cut."""

import dataclasses

import numpy as np
import pytest
import torch
from samples import KINDS, arrays_of, draw

from truesigma import Cases, Draws, Laplace, Normal, Prediction, Student, decompose, metrics, recalibrate
from truesigma.core.arrays import to_host
from truesigma.core.varying import ByCase
from truesigma.evaluation.card import calibrate

GOOD = {"location": [1.0, 2.0], "aleatoric": [0.1, 0.2], "epistemic": [0.0, 0.1]}


def test_prediction_scale_variance_interval():
    p = Prediction([1.0, 2.0], aleatoric=[0.04, 0.09], epistemic=[0.0, 0.07])
    np.testing.assert_allclose(p.scale, [0.2, 0.4])
    np.testing.assert_allclose(p.variance, [0.04, 0.16])
    half = 1.959963984540054 * p.scale
    np.testing.assert_allclose(p.interval(0.95).upper, p.location + half)
    np.testing.assert_allclose(p.interval(0.95).lower, p.location - half)
    lower, upper = p.interval(0.95)
    np.testing.assert_allclose(upper - lower, 2 * half)


def test_laplace_scale_is_b():
    p = Prediction([0.0], aleatoric=[8.0], law=Laplace())
    assert p.scale[0] == 2.0
    assert p.variance[0] == 8.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"location": []}, r"location has shape \(0,\); expected \(case, output...\) with at least one"),
        ({"location": 1.0}, r"location has shape \(\)"),
        ({"location": np.zeros((2, 0))}, "location has shape"),
        ({"location": [1.0, np.nan]}, "location is not finite in 1 place.* give a mask"),
        ({"location": [np.inf, np.nan]}, "location is not finite in 2 places, the first at index .0,"),
        ({"aleatoric": [0.1, -0.2]}, "aleatoric is negative or not finite in 1 place.* mask"),
        ({"aleatoric": [0.1, np.nan]}, "aleatoric is negative or not finite"),
        ({"epistemic": [0.1, -1e-9]}, "epistemic is negative or not finite"),
        ({"spread": [-1.0, 0.0]}, "spread is negative or not finite"),
        ({"aleatoric": [0.0, 0.1], "epistemic": [0.0, 0.1]}, "aleatoric . epistemic is 0 .*in 1 place"),
        ({"aleatoric": [0.0, 0.1], "epistemic": None}, "aleatoric . epistemic is 0"),
        ({"aleatoric": [0.1]}, r"aleatoric has shape \(1,\); expected \(2,\)"),
        ({"aleatoric": 0.1}, r"aleatoric has shape \(\)"),
        ({"aleatoric": [[0.1, 0.1], [0.1, 0.1]]}, "aleatoric has shape"),
        ({"location": ["a", "b"]}, "location has dtype"),
        ({"aleatoric": torch.ones(2)}, "different libraries"),
        ({"aleatoric": None}, "uncertainty is given as epistemic"),
        ({"law": "laplace"}, r"law is 'laplace'; expected a law such as Normal\(\) or Laplace\(\)"),
        ({"mask": [1, 0]}, "mask has dtype int64; expected booleans"),
        ({"mask": [True]}, "mask has shape"),
    ],
)
def test_prediction_refuses(change, words):
    with pytest.raises(ValueError, match=words):
        Prediction(**{**GOOD, **change})


def test_what_is_not_the_location_has_a_name():
    with pytest.raises(TypeError, match=r"scale= .* variance= .* aleatoric="):
        Prediction([0.0], [1.0])


@pytest.mark.parametrize("law", [Normal(), Laplace(), Student(5.0), ByCase((Normal(), Student(3.0)), [0, 1])])
def test_three_ways_to_say_how_uncertain_it_is(law):
    scale = np.array([0.5, 3.0])
    by_scale = Prediction([1.0, 2.0], scale=scale, law=law)
    np.testing.assert_allclose(by_scale.scale, scale, rtol=1e-15)
    by_variance = Prediction([1.0, 2.0], variance=by_scale.variance, law=law)
    np.testing.assert_allclose(by_variance.scale, scale, rtol=1e-15)
    by_parts = Prediction([1.0, 2.0], aleatoric=by_scale.aleatoric - 0.1, epistemic=[0.1, 0.1], law=law)
    np.testing.assert_allclose(by_parts.scale, scale, rtol=1e-15)
    assert by_scale.epistemic is None


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "nothing"),
        ({"scale": [1.0], "variance": [1.0]}, "scale and variance"),
        ({"scale": [1.0], "epistemic": [1.0]}, "scale and epistemic"),
        ({"scale": [-1.0]}, "scale is negative"),
        ({"variance": [np.nan]}, "variance is negative or not finite"),
        ({"scale": [1.0, 1.0]}, "scale has shape"),
    ],
)
def test_the_uncertainty_is_given_once_and_sound(given, word):
    with pytest.raises(ValueError, match=word):
        Prediction([0.0], **given)


def test_one_part_may_be_zero():
    Prediction([0.0], aleatoric=[0.0], epistemic=[1.0])
    Prediction([0.0], aleatoric=[1.0], epistemic=[0.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "large"), [("float32", 3e38), ("float64", 1.5e308)])
def test_a_sum_beyond_its_dtype_is_refused(dtype, large):
    part = np.array([1.0, large], dtype=dtype)
    with pytest.raises(ValueError, match=r"overflows in 1 place.* index \(1,\)"):
        Prediction(
            np.zeros(2), aleatoric=part, epistemic=part
        )  # the location's own precision does not matter


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("left_over", [np.nan, np.inf, -np.inf, -9999.0, 0.0, 1e308])
def test_what_a_mask_hides_is_neither_used_nor_warned_of(left_over):
    """Scanners and pipelines write all sorts of values where there is nothing."""
    sample, mask = draw(3, 30, (2,)), np.arange(60).reshape(30, 2) % 4 > 0
    plain = Prediction(sample.location, aleatoric=sample.aleatoric, epistemic=sample.epistemic, mask=mask)
    hidden = [np.where(mask, a, left_over) for a in (sample.location, sample.aleatoric, sample.epistemic)]
    location, a, e = hidden
    p, target = (
        Prediction(location, aleatoric=a, epistemic=e, mask=mask),
        np.where(mask, sample.target, left_over),
    )
    for name in ("uce", "nll", "crps", "winkler"):
        metric = getattr(metrics, name)
        assert metric.score(p, target) == metric.score(plain, sample.target)
    for name in ("none", "sigma", "aux", "isotonic", "conformal"):
        made = getattr(recalibrate, name).fit(p, target)(p)
        assert np.isfinite(made.scale[mask]).all()
        assert np.isfinite(made.interval(0.5).upper[mask]).all()
    draws = Draws(np.stack([hidden[0], hidden[0] + 1]), hidden[1][None], mask=mask)
    np.testing.assert_allclose(decompose(draws).location[mask], plain.location[mask] + 0.5)


def test_a_level_may_be_of_any_kind_of_number():
    assert Prediction(**GOOD).interval(np.float32(0.5)).upper.shape == (2,)


@pytest.mark.parametrize("level", [0, 1, 90, -0.1, np.nan, "0.9", None])
def test_level_is_a_share(level):
    with pytest.raises(ValueError, match=r"level is .*such as 0.9 for 90 %"):
        Prediction(**GOOD).interval(level)


def test_one_variance_stands_for_all_outputs():
    p = Prediction(np.zeros((4, 3)), aleatoric=np.array([1.0, 2.0, 3.0, 4.0]), epistemic=np.zeros((4, 1)))
    assert p.aleatoric.shape == (4, 3)
    assert p.aleatoric[2].tolist() == [3.0] * 3


def test_values_are_frozen_and_short_to_read():
    p = Prediction(np.zeros((5, 2)), aleatoric=np.ones((5, 2)), law=Laplace())
    assert repr(p) == "Prediction(5 cases x 2, laplace)"
    assert repr(p.interval(0.9)) == "Interval(5 cases)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.location = 0
    assert repr(Cases(p, np.zeros((5, 2)), unit="mm")) == "Cases(5 cases, laplace, in mm)"


@pytest.mark.parametrize("kind", KINDS)
def test_cases_are_cut_by_slice_mask_and_index(kind):
    sample = draw(mask=True)
    keep = np.arange(40) % 3 == 0
    with arrays_of(kind) as make:
        group = [f"patient {i}" for i in range(40)]
        cases = Cases(
            sample.prediction(make),
            make(sample.target),
            group=group,
            weight=make(np.arange(40.0)),
            id=range(40),
        )
        for index in (slice(3, 9), keep, np.flatnonzero(keep), make(keep), make(np.flatnonzero(keep))):
            some = cases[index]
            host = to_host(index) if not isinstance(index, slice) else index
            for found, expected in (
                (some.prediction.location, sample.location),
                (some.prediction.spread, sample.spread),
                (some.prediction.mask, sample.mask),
                (some.target, sample.target),
                (some.weight, np.arange(40.0)),
            ):
                np.testing.assert_array_equal(to_host(found), expected[host])
            assert some.group.tolist() == np.array(group)[host].tolist()
            assert some.id.tolist() == np.arange(40)[host].tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prediction": Draws([[1.0, 2.0]], [[1.0, 1.0]])}, r"prediction is a Draws; .*decompose"),
        ({"target": [[1.0], [2.0]]}, r"target has shape \(2, 1\); expected the location's"),
        ({"target": [1.0]}, "target has shape"),
        ({"target": [1.0, np.nan]}, "target is not finite in 1 place.*mask"),
        ({"target": ["a", "b"]}, "target has dtype"),
        ({"weight": [1.0, -1.0]}, "weight is negative or not finite"),
        ({"weight": [1.0]}, "weight has shape"),
        ({"group": ["a"]}, r"group has shape \(1,\); expected one name for each of the 2 cases"),
        ({"group": ["a", None]}, "group is empty in 1 of 2 cases.*Fill them in"),
        ({"group": ["a", float("nan")]}, "group is empty in 1 of 2 cases"),
        ({"id": ["a"]}, "id has shape"),
        ({"draws": Draws([[1.0]], [[1.0]])}, r"draws has cases and outputs \(1,\)"),
        ({"draws": Draws([[1.0, 2.0]], [[1.0, 1.0]], mask=[True, False])}, "different masks"),
    ],
)
def test_cases_refuse(change, words):
    given = {"prediction": Prediction(**GOOD), "target": [1.0, 2.0], **change}
    with pytest.raises(ValueError, match=words):
        Cases(given.pop("prediction"), given.pop("target"), **given)


def test_the_mask_of_the_prediction_holds_for_its_draws():
    mean, mask = np.array([[1.0, 2.0, 5.0], [3.0, 2.0, 7.0]]), np.array([True, True, False])
    draws = Draws(mean, np.ones((2, 3)))
    whole = decompose(draws)
    masked = Prediction(whole.location, aleatoric=whole.aleatoric, epistemic=whole.epistemic, mask=mask)
    cases = Cases(masked, [2.5, 1.0, np.nan], draws=draws)
    assert cases.draws.mask.tolist() == mask.tolist()
    assert draws.mask is None
    expected = np.sqrt(np.mean(((2.0 - 2.5) ** 2 / 2.0, (2.0 - 1.0) ** 2 / 1.0)))
    assert calibrate(cases).recalibration.factor == pytest.approx(expected)


@pytest.mark.parametrize("choice", ["sigma", "sigma:part=aleatoric", "isotonic", "conformal"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_a_recalibrated_prediction_leaves_its_draws_behind(choice, ddof):
    rng = np.random.default_rng(0)
    mean = np.where(np.arange(40) > 0, rng.normal(size=(5, 40)), np.nan)
    draws = Draws(mean, np.ones((5, 40)), mask=np.arange(40) > 0)
    made = decompose(draws, ddof=ddof)
    Cases(made, np.zeros(40), draws=draws)
    card = calibrate(Cases(made, rng.normal(size=40)), choice)
    with pytest.raises(ValueError, match=r"recalibrated, the draws were not.*leave them out"):
        Cases(card(made), np.zeros(40), draws=draws)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mean": [1.0, 2.0]}, r"mean has shape \(2,\); expected \(draw, case, output...\)"),
        ({"mean": np.zeros((0, 2))}, "mean has shape"),
        ({"variance": np.ones((2, 2))}, r"variance has shape \(2, 2\); expected \(2, 3\)"),
        ({"variance": np.ones(3)}, "variance has shape"),
        ({"law": "normal"}, "law is 'normal'; expected a law"),
        ({"variance": -np.ones((2, 3))}, "variance is negative or not finite in 6 places"),
        ({"mean": np.full((2, 3), np.nan)}, "mean is not finite in 6 places.*mask"),
        ({"mask": np.ones(2, dtype=bool)}, "mask has shape"),
    ],
)
def test_draws_refuse(change, words):
    with pytest.raises(ValueError, match=words):
        Draws(**{"mean": np.zeros((2, 3)), "variance": np.ones((2, 3)), **change})


def test_draws_take_one_variance_for_all_draws_and_outputs():
    mean = np.random.default_rng(0).normal(size=(4, 3, 2))
    for variance in (
        np.ones((4, 3)),
        np.ones((1, 3)),
        np.ones((1, 3, 1)),
        np.ones((4, 3, 1)),
        np.ones((1, 3, 2)),
    ):
        assert decompose(Draws(mean, variance)).aleatoric.tolist() == [[1.0, 1.0]] * 3


def test_concat_joins_along_the_draws():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(5, 4, 2)), rng.uniform(size=(5, 4, 2))
    whole = Draws(mean, variance)
    parts = [Draws(mean[:2], variance[:2]), Draws(mean[2:], variance[2:])]
    for joined in (Draws.concat(parts), Draws.concat(*parts)):
        np.testing.assert_array_equal(joined.mean, whole.mean)
        np.testing.assert_array_equal(joined.variance, whole.variance)
    wide = Draws.concat(Draws(mean[:2], np.ones((1, 4, 1))), parts[1])
    np.testing.assert_array_equal(wide.variance[:2], np.ones((2, 4, 2)))
    with pytest.raises(ValueError, match="the same cases, outputs and law"):
        Draws.concat(whole, Draws(mean[:, :3], variance[:, :3]))
    with pytest.raises(ValueError, match="the same cases, outputs and law"):
        Draws.concat(whole, Draws(mean, variance, law=Laplace()))
    with pytest.raises(ValueError, match="the same mask"):
        Draws.concat(whole, Draws(mean, variance, mask=np.array([True, True, True, False])))
    with pytest.raises(ValueError, match="nothing to join"):
        Draws.concat([])


def test_draws_are_cut_by_case():
    draws = Draws(np.arange(12.0).reshape(2, 3, 2), np.ones((1, 3, 1)), mask=np.array([True, False, True]))
    some = draws[np.array([True, False, True])]
    assert (len(draws), len(some)) == (3, 2)
    assert some.mean.tolist() == [[[0.0, 1.0], [4.0, 5.0]], [[6.0, 7.0], [10.0, 11.0]]]
    assert some.mask.all()
    assert repr(some) == "Draws(2 draws, 2 cases x 2, normal)"
