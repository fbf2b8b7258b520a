"""New cases beyond those that a card was fitted on: how many there may be by chance, and what is said of more."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import betabinom

import truesigma as ts
from truesigma.evaluation.apply import apply_file
from truesigma.evaluation.card import calibrate, read_card
from truesigma.evaluation.leaks import chance_beyond, extent
from truesigma.files.disk import BadFile
from truesigma.files.store import write


def cases(count, seed=0, outputs=(), shift=0.0, wider=1.0):
    rng = np.random.default_rng(seed)
    location, scale = rng.normal(shift, 1, (count, *outputs)), wider * rng.gamma(9.0, 1.0, (count, *outputs))
    return ts.Cases(
        ts.Prediction(location, aleatoric=scale**2), location + scale * rng.normal(size=scale.shape)
    )


def said(card, prediction):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        card.doubt(prediction)
    return [str(one.message) for one in found]


@pytest.mark.parametrize(("new", "known"), [(1, 99), (3, 2), (5, 7), (108, 107), (1000, 50)])
def test_the_chance_is_that_of_a_beta_binomial(new, known):
    """The range of n cases leaves out a share with a Beta(2, n - 1) law."""
    for beyond in {0, 1, 2, 3, new // 2, new} & set(range(new + 1)):
        assert chance_beyond(beyond, new, known) == pytest.approx(
            betabinom.sf(beyond - 1, new, 2, known - 1), abs=1e-12
        )


@pytest.mark.parametrize("new", [1, 40])
def test_cases_of_the_same_kind_are_warned_of_as_seldom_as_said(new):
    warned = 0
    for seed in range(600):
        some = cases(120 + new, seed=seed)
        card = calibrate(some[:120], "none")
        warned += bool(said(card, some[120:].prediction))
    assert warned <= 0.05 * 600 + 3 * (600 * 0.05 * 0.95) ** 0.5


def of_patients(known, new, seed, shift=0.0, images=10):
    """Cases of patients whose images are much alike."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(known + new), images)
    location = rng.normal(size=known + new)[patient] + rng.normal(0, 0.3, len(patient))
    location += shift * (patient >= known)
    scale = rng.gamma(9.0, 1.0, known + new)[patient] * rng.gamma(50.0, 0.02, len(patient))
    both = ts.Cases(ts.Prediction(location, aleatoric=scale**2), location, patient=patient)
    return both[: known * images], both[known * images :]


@pytest.mark.parametrize("named", ["patient", "group"])
def test_patients_of_the_same_kind_are_warned_of_as_seldom(named):
    """Counted case by case, 10 images of one patient beyond the others would be ten signs."""
    warned = 0
    for seed in range(200):
        pair = of_patients(25, 25, seed)
        if named == "group":
            pair = [replace(one, patient=None, group=one.patient) for one in pair]
        warned += bool(said(calibrate(pair[0], "none"), pair[1]))
    assert warned <= 0.05 * 200 + 3 * (200 * 0.05 * 0.95) ** 0.5


def test_other_patients_are_counted_as_patients(tmp_path):
    known, new = of_patients(12, 5, 0, shift=9.0)
    card = calibrate(known, "none")
    assert card.data["cases"] == 120
    assert card.data["patients"] == 12
    (words,) = said(card, new)
    assert words.startswith("5 of 5 new patients have a location beyond the ")
    assert " of the 12 patients that it was" in words
    (words,) = said(card, new.prediction)
    assert words.startswith("50 of 50 new cases have a location beyond the ")
    assert "of another kind, if each is of another patient, for" in words
    write(replace(new, patient=[f"p{k}" for k in new.patient]), tmp_path / "new.csv")
    with pytest.warns(UserWarning, match="5 of 5 new patients have a location"):
        apply_file(card, tmp_path / "new.csv", tmp_path / "out.csv")
    assert not said(card, new[:10])  # one patient beyond 12 others is no rarity


def test_other_cases_are_named_by_what_is_beyond():
    card = calibrate(replace(cases(100), unit="mm"))
    low, high = card.data["range"]["scale"][0]
    (words,) = said(card, cases(50, 1, wider=9.0).prediction)
    beyond = (cases(50, 1, wider=9.0).prediction.scale > high).sum()
    assert words.startswith(
        f"{beyond} of 50 new cases have a scale beyond the {low:.3g} to {high:.3g} mm of the 100"
    )
    (words,) = said(card, cases(50, 1, shift=-9.0).prediction)
    assert words.startswith("50 of 50 new cases have a location beyond the ")
    several = calibrate(cases(100, outputs=(3,)))
    new = cases(50, 1, outputs=(3,)).prediction
    location = new.location + np.array([0, 99, 0])
    (words,) = said(several, ts.Prediction(location, aleatoric=new.total))
    assert "a location of output 1 beyond" in words
    assert not said(several, new)


def test_what_a_mask_leaves_out_is_not_looked_at():
    some = cases(100, outputs=(2,)).prediction
    wild = np.where(np.arange(200).reshape(100, 2) == 7, 1e9, some.location)
    masked = ts.Prediction(wild, aleatoric=some.total, mask=wild < 1e9)
    assert extent(ts.Cases(masked, some.location))["range"]["location"] == [
        [col.min(), col[col < 1e9].max()] for col in wild.T
    ]
    card = calibrate(cases(100, outputs=(2,)))
    assert not said(card, masked)
    few = (np.arange(100) < 4)[:, None] | [True, False]  # output 1 of four cases alone
    (words,) = said(card, ts.Prediction(some.location + np.array([0, 99.0]), aleatoric=some.total, mask=few))
    assert words.startswith("4 of 4 new cases have a location of output 1 beyond")


def test_of_maps_and_sums_nothing_is_kept():
    maps = cases(20, outputs=(2, 3))
    assert "range" not in calibrate(maps).data
    tally = ts.Tally.empty().add(maps.prediction, maps.target)
    assert not said(calibrate(tally), cases(9, shift=99.0).prediction)


def test_apply_warns_and_still_writes(tmp_path):
    card = calibrate(cases(100))
    write(card, tmp_path / "card.json")
    write(cases(30, 1, shift=50.0).prediction, tmp_path / "new.csv")
    with pytest.warns(UserWarning, match="30 of 30 new cases have a location beyond"):
        made = apply_file(read_card(tmp_path / "card.json"), tmp_path / "new.csv", tmp_path / "out.csv")
    assert len(made) == 30
    write(cases(30, 2).prediction, tmp_path / "like.csv")
    with warnings.catch_warnings(action="error"):
        apply_file(card, tmp_path / "like.csv", tmp_path / "out.csv")


@pytest.mark.parametrize("cases_said", [1e308, "60"])
def test_a_card_with_another_number_of_cases_is_refused(tmp_path, cases_said):
    write(calibrate(cases(100)), tmp_path / "card.json")
    stored = json.loads((tmp_path / "card.json").read_text())
    stored["data"]["cases"] = cases_said
    stored.pop("content_sha256", None)
    (tmp_path / "card.json").write_text(json.dumps(stored))
    with pytest.raises(BadFile, match=r"data\.cases is .* expected int"):
        read_card(tmp_path / "card.json")
