"""What every file in recalibrate/ must hold, found by name: a new recalibration is tested without a new test."""

import contextlib
import json
import math
import typing

import numpy as np
import pytest
from samples import KINDS, Sample, arrays_of, draw, missing_words

from truesigma import Cases, Prediction, Undefined, load_recalibration
from truesigma.core import degrees_of_freedom, factors_of, plugins
from truesigma.core.arrays import namespace, to_host

NAMES = plugins.usual("recalibrate")  # others need bounds, or folds, and have tests of their own
QUICK = {"aux": {"steps": 150}}  # enough steps to leave the start, few enough for a test
GROUPED = {"sigma_by_group"}  # which have a factor for each group
SPLIT = {"two_factor"}  # which have nothing to do where the split is unknown
each = pytest.mark.parametrize("name", NAMES)
PARTS = [
    (name, part)
    for name in NAMES
    for part in ("total", "aleatoric")
    if part == "total" or "part" in plugins.options("recalibrate", plugins.load("recalibrate", name))
]
each_part = pytest.mark.parametrize(("name", "part"), PARTS)


def takes_weights(name: str) -> bool:
    try:
        fit(name, draw(weight=True))
    except ValueError:
        return False
    return True


def fit(name, sample, make=lambda a: a, prediction=None, **options):
    weight = None if sample.weight is None else make(sample.weight)
    prediction = sample.prediction(make) if prediction is None else prediction
    if name in GROUPED:
        # A case that is repeated tells no more than one of more weight: it is the same patient.
        patient = np.unique(place_of(prediction), return_inverse=True)[1]
        options = {"group": group_of(prediction), "patient": patient, **options}
    return plugins.load("recalibrate", name).fit(
        prediction, make(sample.target), weight=weight, **{**QUICK.get(name, {}), **options}
    )


def place_of(prediction) -> np.ndarray:
    return to_host(prediction.location).astype(float).reshape(len(prediction), -1)[:, 0]


def group_of(prediction) -> np.ndarray:
    """Two groups, which a case is in by its location: in any order, unit and repetition, and with any variance."""
    place = place_of(prediction)
    return np.where(place > np.median(np.unique(place[np.isfinite(place)])), "high", "low")


def apply(recalibration, prediction) -> Prediction:
    return recalibration(prediction, group=group_of(prediction))


def bounds(prediction, levels=(0.05, 0.5, 0.8)) -> np.ndarray:
    """Ends of the intervals from the location, in units of the scale."""
    ends = [to_host(end - prediction.location) for level in levels for end in prediction.interval(level)]
    return np.stack(ends) / to_host(prediction.scale)


def effect(recalibration, prediction) -> np.ndarray:
    """Everything a recalibration changes: the scale of every element, and the law of it."""
    new = apply(recalibration, prediction)
    return np.concatenate([to_host(new.scale).astype(float).ravel(), bounds(new).ravel()])


@pytest.mark.parametrize("name", plugins.names("recalibrate"))
def test_says_what_it_is(name):
    module = plugins.load("recalibrate", name)
    assert module.TITLE
    assert missing_words(module, module.fit) == []
    hints = typing.get_type_hints(module.fit)
    for option, parameter in plugins.options("recalibrate", module).items():
        assert isinstance(parameter.default, str | int | float | bool), f"{option} is no plain option"
        assert option in hints, f"{option} has no type"


@pytest.mark.parametrize("name", plugins.names("recalibrate"))
def test_says_what_it_needs(name):
    module = plugins.load("recalibrate", name)
    known = {"groups", "outputs", "split", "bounds", "folds", "draws"}
    assert {need.partition(":")[0] for need in plugins.said(module, "NEEDS")} <= known
    for option in (need.partition(":")[2].partition("=")[0] for need in plugins.said(module, "NEEDS")):
        assert option == "" or option in plugins.options("recalibrate", module)


@each
def test_says_how_many_numbers_were_fitted_and_its_factors(name):
    fitted = fit(name, draw(2))
    assert (degrees_of_freedom(fitted) == 0) == (name == "none")
    stored = fitted.to_dict()
    for factor in factors_of(fitted).values():
        assert factor.value >= 0
        assert factor.value in np.atleast_1d(stored.get("factor", stored.get("factors", factor.value)))


@each
def test_cases_are_fitted_on_as_their_arrays(name):
    sample = draw(2, mask=True)
    prediction = sample.prediction()
    cases = Cases(prediction, sample.target, group=group_of(prediction))
    module, quick = plugins.load("recalibrate", name), QUICK.get(name, {})
    expected = module.fit(prediction, sample.target, group=cases.group, **quick)
    assert module.fit(cases, **quick).to_dict() == expected.to_dict()
    with pytest.raises(ValueError, match=r"beside a Cases"):
        module.fit(cases, group=cases.group)
    with pytest.raises(ValueError, match="without its target"):
        module.fit(prediction)


@each_part
def test_inputs_and_location_untouched(name, part):
    sample = draw(mask=True)
    arrays = [sample.location, sample.target, sample.aleatoric, sample.epistemic, sample.spread, sample.mask]
    before = [a.copy() for a in arrays]
    for a in arrays:
        a.flags.writeable = False
    options = {} if part == "total" else {"part": part}
    prediction = sample.prediction()
    new = apply(fit(name, sample, **options), prediction)
    for a, b in zip(arrays, before):
        np.testing.assert_array_equal(a, b)
    assert new is not prediction or name in ("none", "region")
    np.testing.assert_array_equal(new.location, sample.location)
    np.testing.assert_array_equal(new.mask, sample.mask)
    np.testing.assert_array_equal(new.spread, sample.spread)


@each
def test_order_of_cases_is_irrelevant(name):
    sample = draw(1, mask=True)
    order = np.random.default_rng(2).permutation(len(sample.location))
    there, here = (effect(fit(name, s), sample.prediction()) for s in (sample.take(order), sample))
    np.testing.assert_allclose(there, here, rtol=1e-9)


@each
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_translation_invariant_and_scale_equivariant(name, law):
    sample, k = draw(2, law=law), 3.7
    before = apply(fit(name, sample), sample.prediction())
    for moved, factor in ((sample.moved(shift=64.0), 1.0), (sample.moved(k=k), k)):
        after = apply(fit(name, moved), moved.prediction())
        np.testing.assert_allclose(after.scale, factor * before.scale, rtol=1e-7)
        np.testing.assert_allclose(bounds(after), bounds(before), rtol=1e-7)


@each
@pytest.mark.parametrize("kind", KINDS)
def test_equal_in_every_library_and_the_same_kind_comes_back(name, kind):
    sample = draw(3, mask=True)
    with arrays_of(kind) as make:
        prediction = sample.prediction(make)
        recalibration = fit(name, sample, make)
        new = apply(recalibration, prediction)
        for array in (new.location, new.aleatoric, new.epistemic):
            assert namespace(array) is namespace(prediction.location)
            assert array.dtype == prediction.location.dtype
        found = effect(recalibration, prediction)
    np.testing.assert_allclose(found, effect(fit(name, sample), sample.prediction()), rtol=1e-10)


@each
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_stays(name, kind):
    sample = draw(4).astype("float32")
    with arrays_of(kind, x64=False) as make:
        prediction = sample.prediction(make)
        new = apply(fit(name, sample, make), prediction)
        assert new.aleatoric.dtype == prediction.aleatoric.dtype
        found = to_host(new.scale)
    wide = sample.astype("float64")
    np.testing.assert_allclose(found, apply(fit(name, wide), wide.prediction()).scale, rtol=1e-6)


@each_part
def test_saves_and_reloads_identical(name, part):
    sample = draw(5)
    fitted = fit(name, sample, **({} if part == "total" else {"part": part}))
    text = json.dumps(fitted.to_dict(), allow_nan=False)
    loaded = load_recalibration(json.loads(text))
    np.testing.assert_array_equal(effect(fitted, sample.prediction()), effect(loaded, sample.prediction()))
    assert json.dumps(loaded.to_dict(), allow_nan=False) == text


@each
def test_stored_form_is_checked(name):
    stored = fit(name, draw(5)).to_dict()
    with pytest.raises(ValueError, match="does not fit"):
        load_recalibration({**stored, "surprise": 1})
    if len(stored) > 2:
        with pytest.raises(ValueError, match="does not fit"):
            load_recalibration({"name": name, "surprise": 1})


@each
def test_one_case_or_none_is_an_error_or_harmless(name):
    one = draw(6, cases=1, outputs=(1,))
    left = draw(6, cases=3, outputs=(1,))
    left = Sample(**{**vars(left), "mask": np.array([True, False, False])})
    for sample in (one, left):
        if name == "none":
            fit(name, sample)
        else:
            with pytest.raises(ValueError, match="calibration case"):
                fit(name, sample)
    if name != "none":
        gone = draw(6)
        with pytest.raises(ValueError, match="remove everything"):
            fit(name, Sample(**{**vars(gone), "mask": np.zeros(gone.target.shape, dtype=bool)}))


@each
def test_constant_sigma(name):
    sample = draw(7)
    constant = Sample(
        sample.location, sample.target, *[np.full_like(sample.location, v) for v in (2.0, 0.5, 0.4)]
    )
    assert np.isfinite(effect(fit(name, constant), constant.prediction())).all()


@each
def test_integer_weights_are_repeated_cases_or_refused(name):
    sample = draw(8, weight=True)
    if not takes_weights(name):
        with pytest.raises(ValueError, match="weight"):
            fit(name, sample)
        return
    repeated = sample.take(np.repeat(np.arange(len(sample.weight)), sample.weight.astype(int)))
    repeated = Sample(**{**vars(repeated), "weight": None})
    scaled = Sample(**{**vars(sample), "weight": 0.3 * sample.weight})
    expected = effect(fit(name, sample), sample.prediction())
    np.testing.assert_allclose(effect(fit(name, scaled), sample.prediction()), expected, rtol=1e-7)
    # The network of aux sees other roundings, which 150 steps make larger.
    np.testing.assert_allclose(effect(fit(name, repeated), sample.prediction()), expected, rtol=1e-7)


@each
def test_masked_cases_equal_compacted_ones(name):
    sample = draw(9)
    keep = np.random.default_rng(0).uniform(size=len(sample.location)) < 0.6
    spoiled = {
        n: np.where(keep[:, None], getattr(sample, n), np.nan) for n in ("location", "target", "aleatoric")
    }
    masked = Sample(**{**vars(sample), **spoiled, "mask": keep})
    there, here = fit(name, masked), fit(name, sample.take(keep))
    np.testing.assert_allclose(
        effect(there, sample.prediction()), effect(here, sample.prediction()), rtol=1e-8
    )
    applied = apply(there, masked.prediction())
    assert np.isfinite(applied.scale[keep]).all()


@each_part
def test_split_unknown(name, part):
    sample = draw(10)
    total = Prediction(sample.location, aleatoric=sample.aleatoric + sample.epistemic)
    if part == "aleatoric" or name in SPLIT:
        with pytest.raises(Undefined, match="split"):
            fit(name, sample, prediction=total, **({} if part == "total" else {"part": part}))
        return
    new = apply(fit(name, sample, prediction=total), total)
    assert new.epistemic is None
    same = apply(fit(name, sample), sample.prediction())
    np.testing.assert_allclose(new.scale, same.scale, rtol=1e-9)


@each_part
def test_the_aleatoric_part_alone(name, part):
    if part == "total":
        pytest.skip("the other part")
    sample = draw(11)
    new = apply(fit(name, sample, part="aleatoric"), sample.prediction())
    assert (new.epistemic == 0).all()
    np.testing.assert_array_equal(new.spread, sample.spread)  # what the error of the draws needs is kept
    alone = Sample(**{**vars(sample), "epistemic": 0 * sample.epistemic})
    np.testing.assert_allclose(new.scale, apply(fit(name, alone), alone.prediction()).scale, rtol=1e-9)
    without = Sample(**{**vars(sample), "aleatoric": 0 * sample.aleatoric})
    with pytest.raises(ValueError, match="aleatoric"):
        apply(fit(name, without, part="aleatoric"), without.prediction())


@each_part
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_is_what_is_done(name, part, kind):
    sample = draw(13)
    options = {} if part == "total" else {"part": part}
    for more in ({}, {"outputs": "mean"}):
        if not set(more) <= set(plugins.options("recalibrate", plugins.load("recalibrate", name))):
            continue
        fitted = fit(name, sample, **options, **more)
        if not hasattr(fitted, "variance_ratio"):
            pytest.skip(f"{name} cannot be exported")
        total = sample.aleatoric + (sample.epistemic if part == "total" else 0)
        with arrays_of(kind) as make:
            ratio = fitted.variance_ratio(make(total))
            ratio = ratio if isinstance(ratio, float) else to_host(ratio)
        np.testing.assert_allclose(total * ratio, apply(fitted, sample.prediction()).total, rtol=1e-9)


@each
def test_fitted_predictions_can_be_recalibrated_and_scored_again(name):
    sample = draw(12)
    new = apply(fit(name, sample), sample.prediction())
    again = apply(fit(name, sample, prediction=new), new)
    assert np.isfinite(again.scale).all()
    for metric in plugins.names("metrics"):
        with contextlib.suppress(Undefined):  # such as the density of an empirical law
            assert math.isfinite(plugins.load("metrics", metric).score(again, sample.target))
