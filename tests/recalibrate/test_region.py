"""Joint regions: scores from the slow loop, coverage by simulation, volumes, and their smaller size on real poses."""

import json
import math

import numpy as np
import pytest

from truesigma import Cases, Laplace, Prediction, Undefined, evaluate, load_recalibration, metrics, write
from truesigma.recalibrate import region

MIX = np.array([[1.0, 0.8, 0.3], [0.0, 0.6, 0.2], [0.0, 0.0, 2.0]])


def made(seed, cases, tails=None):
    """Three outputs that err together, one of them twice as much, with one sigma for all."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(cases, 3)) if tails is None else rng.standard_t(tails, size=(cases, 3))
    scale = np.exp(0.5 * rng.normal(size=(cases, 1)))
    return Prediction(np.zeros((cases, 3)), aleatoric=np.broadcast_to(scale**2, (cases, 3)) + 0.0), scale * (
        z @ MIX
    )


def slow_scores(z, patient, scored, shape):
    """From the definition: M of the patients that are not scored, drawn to one size, and the distance of the others."""
    d = z.shape[1]
    others = [z[k] for k in range(len(z)) if patient[k] not in scored]
    n = len(others)
    m = np.zeros((d, d))
    size = [sum(o[j] ** 2 for o in others) / n for j in range(d)]
    for j in range(d):
        for k in range(d):
            together = sum(o[j] * o[k] for o in others) / (n + d)
            m[j, k] = (n * size[j] + sum(size) / d) / (n + 1) if j == k else together
    found = []
    for i in range(len(z)):
        if patient[i] in scored:
            box = max(abs(z[i, j]) / math.sqrt(m[j, j]) for j in range(d))
            found.append(box if shape == "box" else float(z[i] @ np.linalg.inv(m) @ z[i]))
    return np.array(found)


@pytest.mark.parametrize("shape", ["ellipsoid", "box"])
@pytest.mark.parametrize("images", [1, 3])
def test_scores_are_those_of_the_slow_loop(shape, images):
    prediction, y = made(0, 60)
    patient = np.random.default_rng(1).permutation(60) // images
    count = 60 // images
    scored = set(np.random.default_rng(7).permutation(count)[: max(9, count // 2)].tolist())
    expected = np.sort(slow_scores(y / np.sqrt(prediction.aleatoric), patient, scored, shape))
    fitted = region.fit(prediction, y, shape=shape, patient=patient, seed=7)
    np.testing.assert_allclose(fitted.ranks.scores, expected, rtol=1e-10)
    names = np.random.default_rng(2).permutation(60)  # where patients are named, their order is of no account
    again = region.fit(prediction[names], y[names], shape=shape, patient=patient[names], seed=7)
    np.testing.assert_allclose(again.ranks.scores, expected, rtol=1e-10)


def test_errors_of_one_length_are_held_and_nine_cases_are_enough():
    """Where the scores nearly tie, moments that leave one case out at a time held three in ten."""
    held = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(59, 20 if seed % 2 else 2))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        p = Prediction(0 * z, aleatoric=0 * z + 1)
        fitted = region.fit(p[:9], z[:9])
        assert fitted.bound() < math.inf
        held.append(fitted.contains(p[9:], z[9:]).mean())
    assert np.mean(held) > 0.9 - 3 * np.std(held) / math.sqrt(200)


@pytest.mark.parametrize("shape", ["ellipsoid", "box"])
@pytest.mark.parametrize("cases", [20, 50, 200])
@pytest.mark.parametrize("tails", [None, 4])
def test_new_cases_are_inside_as_often_as_promised(shape, cases, tails):
    held, draws = 0.0, 400
    for seed in range(draws):
        prediction, y = made(seed, cases + 50, tails)
        fitted = region.fit(prediction[:cases], y[:cases], shape=shape)
        held += fitted.contains(prediction[cases:], y[cases:]).mean()
    ranked = max(9, cases // 2)
    promised = math.ceil((ranked + 1) * 0.9) / (ranked + 1)
    assert abs(held / draws - promised) < 4 * math.sqrt(0.09 * (1 / (ranked + 2) + 1 / 50) / draws)


def test_volumes_are_those_of_the_sphere_and_the_cube():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(500, 3))
    prediction = Prediction(0 * z, aleatoric=0 * z + 1)
    new = Prediction(np.zeros((2, 3)), aleatoric=[[1.0, 1.0, 1.0], [1.0, 4.0, 9.0]])
    for shape in ("ellipsoid", "box"):
        fitted = region.fit(prediction, z, shape=shape)
        m, q = np.array(fitted.moments), fitted.bound()
        if shape == "box":
            expected = 8 * q**3 * math.sqrt(np.prod(np.diag(m)))
        else:
            expected = 4 / 3 * math.pi * q**1.5 * math.sqrt(np.linalg.det(m))
        np.testing.assert_allclose(fitted.volume(new), [expected, 6 * expected], rtol=1e-12)
        # The share of a surrounding cube that lies inside is the volume, too.
        side = 12.0
        points = rng.uniform(-side / 2, side / 2, size=(200_000, 3))
        inside = fitted.contains(Prediction(0 * points, aleatoric=0 * points + 1), points).mean()
        assert inside * side**3 == pytest.approx(expected, rel=0.03)


def test_levels_nest_and_too_few_cases_are_infinite():
    prediction, y = made(3, 8)
    fitted = region.fit(prediction, y)
    assert fitted.contains(prediction, y, level=0.95).all()
    assert fitted.volume(prediction, level=0.95)[0] == math.inf
    assert (
        fitted.too_few_for(0.95)
        == "the 0.95 region is infinite: it needs 19 calibration cases (patients, where named), and there are 8."
    )
    assert fitted.too_few_for(0.8) is None
    volumes = [fitted.volume(prediction, level=level)[0] for level in (0.1, 0.5, 0.8)]
    assert volumes == sorted(volumes)
    with pytest.raises(Undefined, match="needs 19"):
        metrics.volume.score(prediction, y, region=fitted, level=0.95)


def test_all_images_of_a_new_patient():
    held, draws = 0.0, 300
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 6, size=31)
        patient = np.repeat(np.arange(31), sizes)
        z = 0.9 * rng.normal(size=(31, 3))[patient] + 0.4 * rng.normal(size=(len(patient), 3))
        old, prediction = patient < 30, Prediction(0 * z, aleatoric=0 * z + 1)
        fitted = region.fit(prediction[old], z[old], patient=patient[old], promise="all", level=0.8)
        held += fitted.contains(prediction[~old], z[~old]).all()
    assert held / draws > 0.8 - 3 * math.sqrt(0.16 / draws)


def test_evaluate_scores_regions_beside_boxes_of_intervals():
    prediction, y = made(4, 2000)
    cases = Cases(prediction, y)
    choices = ["sigma", "conformal:promise=all", "region", "region:shape=box"]
    found = evaluate(cases[:1000], cases[1000:], recalibrations=choices, metrics=["joint_coverage", "volume"])
    rows = {label: found.by_label()[label] for label in choices}
    value = {(label, r["metric"], r["level"]): r["value"] for label in choices for r in rows[label]}
    for label in choices[1:]:
        for level in (0.5, 0.9, 0.95):
            assert value[label, "joint_coverage", level] == pytest.approx(level, abs=0.035)
    assert value["sigma", "joint_coverage", 0.9] < 0.85
    sizes = [value[label, "volume", 0.9] for label in ("region", "region:shape=box", "conformal:promise=all")]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.7 * sizes[1]
    fitted = found.recalibrations["region"]
    assert value["region", "volume", 0.9] == pytest.approx(fitted.volume(prediction[1000:]).mean())
    assert {"joint_coverage", "volume"}.isdisjoint({r["metric"] for r in evaluate(cases, cases).rows})


def test_masked_outputs():
    """A case of which an output is hidden is left out of the fit and of the scores, and not inside of anything."""
    prediction, y = made(6, 100)
    mask = np.ones((100, 3), bool)
    mask[:20, 1] = False
    hidden = Prediction(prediction.location, aleatoric=prediction.aleatoric, mask=mask)
    fitted = region.fit(hidden, np.where(mask, y, np.nan))
    assert fitted.moments == region.fit(prediction[20:], y[20:]).moments
    inside = fitted.contains(hidden, y)
    assert not inside[:20].any()
    share = metrics.joint_coverage.score(hidden, y, region=fitted)
    assert share == pytest.approx(inside[20:].mean())


def test_it_is_stored_called_and_outlined():
    rng = np.random.default_rng(8)
    y = rng.normal(size=(100, 2))
    prediction = Prediction(y + 5, aleatoric=0 * y + 4.0)
    for shape in ("ellipsoid", "box"):
        fitted = region.fit(prediction, prediction.location + y, shape=shape)
        assert fitted(prediction) is prediction
        again = load_recalibration(json.loads(json.dumps(fitted.to_dict(), allow_nan=False)))
        assert again == fitted
        outline = fitted.outline(prediction[:3])
        assert outline.shape[0::2] == (3, 2)
        np.testing.assert_allclose(outline[:, 0], outline[:, -1], atol=1e-9)
        for point in range(outline.shape[1]):  # the border is where the score is the bound
            scores = fitted.score(prediction[:3], outline[:, point])
            np.testing.assert_allclose(scores, fitted.bound(), rtol=1e-9)


def test_a_card_is_applied_with_the_bounds_and_the_volume_of_the_region(tmp_path):
    from truesigma import calibrate, read
    from truesigma.evaluation.apply import apply_file

    prediction, y = made(10, 60)
    write(Cases(prediction, y), tmp_path / "cases.csv")
    for shape in ("ellipsoid", "box"):
        card = calibrate(read(tmp_path / "cases.csv"), f"region:shape={shape}")
        apply_file(card, tmp_path / "cases.csv", tmp_path / f"{shape}.npz", levels=(0.8,))
        written, fitted = np.load(tmp_path / f"{shape}.npz"), card.recalibration
        np.testing.assert_allclose(written["volume_80"], fitted.volume(prediction, level=0.8), rtol=1e-6)
        bounds = fitted.extent(prediction, level=0.8)
        np.testing.assert_allclose(written["upper_80"], bounds.upper, rtol=1e-6)
        inside = ((bounds.lower <= y) & (y <= bounds.upper)).all(axis=1)
        held = fitted.contains(prediction, y, level=0.8)
        assert inside[held].all()  # what is in the region is within its bounds
        if shape == "box":
            np.testing.assert_array_equal(inside, held)


def test_refusals():
    prediction, y = made(9, 20)
    fitted = region.fit(prediction, y)
    with pytest.raises(ValueError, match=r"weight.*exchangeable"):
        region.fit(prediction, y, weight=np.ones(20))
    with pytest.raises(ValueError, match="shape is 'ball'; expected one of ellipsoid, box"):
        region.fit(prediction, y, shape="ball")
    with pytest.raises(ValueError, match="output 2: every calibration error is exactly 0"):
        region.fit(prediction, y * [1, 1, 0])
    with pytest.raises(ValueError, match="has 1 outputs"):
        fitted.volume(Prediction([0.0], aleatoric=[1.0]))
    with pytest.raises(ValueError, match="another likelihood"):
        fitted.volume(Prediction(prediction.location, aleatoric=prediction.aleatoric, law=Laplace()))
    with pytest.raises(ValueError, match="at most 64"):
        region.fit(Prediction(np.zeros((5, 65)), aleatoric=np.ones((5, 65))), np.ones((5, 65)))
    with pytest.raises(ValueError, match="an outline is that of two"):
        fitted.outline(prediction)
