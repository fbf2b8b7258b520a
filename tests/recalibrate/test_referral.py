"""Referral with a promise: the tests from their equation, the promise by simulation, and the words."""

import csv
import json
import math

import numpy as np
import pytest

import truesigma as ts
from truesigma.evaluation.card import calibrate, read_card
from truesigma.files.store import write
from truesigma.recalibrate import _referral as referral


def simulated(cases, seed=0):
    rng = np.random.default_rng(seed)
    scale = np.exp(0.5 * rng.normal(size=cases))
    return ts.Prediction(np.zeros(cases), aleatoric=scale**2), scale * rng.standard_t(4, size=cases) * 0.7


def binomial(wrong, count, risk):
    """P(at most so many of them are wrong), term by term."""
    return sum(math.comb(count, k) * risk**k * (1 - risk) ** (count - k) for k in range(wrong + 1))


def by_hand(scale, wrong, risk, delta):
    """From each of four starts one case after the other, until a test fails; a quarter of delta each."""
    order, kept = np.argsort(scale), []
    for first in (1 / 8, 1 / 4, 1 / 2, 1):
        for count in range(math.ceil(first * len(order)), len(order) + 1):
            if binomial(int(wrong[order[:count]].sum()), count, risk) > delta / 4:
                break
            kept.append(scale[order[count - 1]])
    return max(kept, default=None)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cases", [150, 400, 600])
def test_the_threshold_is_that_of_the_equation(seed, cases):
    prediction, y = simulated(cases, seed)
    found = referral.fit(prediction, y, tolerance=2.0, risk=0.05)
    expected = by_hand(prediction.scale, abs(y) > 2, 0.05, 0.05)
    assert found.threshold == (None if expected is None else pytest.approx(expected, rel=1e-12))
    assert np.array_equal(
        found(prediction), prediction.scale > (-1 if expected is None else expected * (1 + 1e-12))
    )


def of_unequal(rng, patients=80):
    """Patients with many cases are worse: a share of 12 % of the cases is off, 3 % on average over patients."""
    size = np.where(rng.uniform(size=patients) < 0.1, 12, 1)
    patient = np.repeat(np.arange(patients), size)
    wrong = rng.uniform(size=patient.size) < np.where(size[patient] > 1, 0.2, 0.01)
    return patient, np.where(wrong, 9.0, 0.0)


def test_words_say_the_unit_and_a_promise_of_cases_needs_a_bound():
    rng = np.random.default_rng(0)
    patient, y = of_unequal(rng, 2000)
    prediction = ts.Prediction(0 * y, scale=np.exp(0.1 * rng.normal(size=y.size)))
    given = {"tolerance": 5.0, "risk": 0.08, "patient": patient}
    found = referral.fit(prediction, y, **given)
    assert found.threshold is not None
    kept = prediction.scale <= found.threshold
    assert found.off == pytest.approx((y[kept] > 5).mean())
    shares = [(y[kept & (patient == k)] > 5).mean() for k in np.unique(patient[kept])]
    assert found.wrong == pytest.approx(np.mean(shares))
    assert found.off > 0.08 > found.wrong  # the promise of patients does not hold for cases
    assert "on average over patients, off by more" in found.words
    assert f"{100 * found.off:.3g} % of them off" in found.words
    assert referral.fit(prediction, y, **given, most=12).threshold is None
    of_cases = referral.fit(prediction, y, **{**given, "risk": 0.3}, most=12)
    assert of_cases.wrong == of_cases.off
    assert "at most 30 % of the kept cases off" in of_cases.words
    with pytest.raises(ValueError, match="a patient has 12 cases, and most is 3"):
        referral.fit(prediction, y, **given, most=3)


def test_a_promise_of_cases_holds_where_patients_differ_in_size():
    broken = 0
    for seed in range(300):
        patient, y = of_unequal(np.random.default_rng(seed))
        prediction = ts.Prediction(0 * y, scale=0 * y + 1)
        found = referral.fit(prediction, y, tolerance=5.0, risk=0.11, patient=patient, most=12)
        broken += found.threshold is not None
    truth = (0.9 * 0.01 + 0.1 * 12 * 0.2) / (0.9 + 1.2)
    assert truth > 0.11
    assert broken / 300 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 300)


def test_how_few_cases_can_show_it():
    for wrong in range(4):
        count = referral.smallest(wrong, 0.05, 0.05)
        assert (
            binomial(wrong, count, 0.05) <= 0.05 < binomial(wrong, count - 1, 0.05)
        )  # the first that is enough


def truth(tolerance, of):
    """The share of large errors among cases up to a sigma, from many."""
    prediction, y = of(1_000_000, seed=10**6)
    order = np.argsort(prediction.scale)
    share = np.cumsum(abs(y[order]) > tolerance) / np.arange(1, y.size + 1)
    return lambda t: share[min(np.searchsorted(prediction.scale[order], t), y.size - 1)]


def senseless(cases, seed=0):
    """A sigma that says nothing, and as many large errors as there may be: the hardest case."""
    prediction, _ = simulated(cases, seed)
    return prediction, np.random.default_rng(seed + 1).normal(size=cases)


@pytest.mark.parametrize(("of", "tolerance"), [(simulated, 2.0), (senseless, 1.955)])
def test_the_promise_holds(of, tolerance):
    known, seeds = truth(tolerance, of), 300
    broken = 0
    for seed in range(seeds):
        found = referral.fit(*of(300, seed), tolerance=tolerance, risk=0.05)
        broken += found.threshold is not None and known(found.threshold) > 0.05
    assert broken / seeds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / seeds)


def test_patients_are_counted_once():
    """Nine like cases of a patient say as much as one: tests of their shares, by Hoeffding and Bentkus."""
    prediction, y = simulated(100, seed=3)
    nine = np.repeat(np.arange(100), 9)
    alone = referral.fit(prediction, y, tolerance=2.0, risk=0.1)
    often = referral.fit(prediction[nine], y[nine], tolerance=2.0, risk=0.1, patient=nine)
    assert often.clusters == alone.clusters == 100
    assert often.threshold <= alone.threshold  # the bound is not exact, and on the safe side
    assert referral.fit(prediction[nine], y[nine], tolerance=2.0, risk=0.1).threshold > alone.threshold
    share, risk, count = 0.02, 0.1, 100
    bound = math.exp(
        -count * (share * math.log(share / risk) + (1 - share) * math.log((1 - share) / (1 - risk)))
    )
    found = referral._p_values(np.array([2.0]), np.array([100]), risk, several=True)[0]
    assert found == pytest.approx(min(bound, math.e * binomial(2, 100, 0.1)), rel=1e-12)


def test_where_nothing_can_be_promised_the_words_say_what_it_takes():
    few = referral.fit(*simulated(40), tolerance=20.0, risk=0.05)
    assert few.threshold is None
    assert few(simulated(5)[0]).all()
    assert "It takes 86 calibration cases where none is off, and there are 40" in few.words
    hopeless = referral.fit(*simulated(400), tolerance=0.1, risk=0.05)
    assert hopeless.threshold is None
    assert "a larger tolerance or risk, or a better model would help" in hopeless.words


def test_several_outputs_count_by_the_largest_error_and_masks_hide():
    prediction, y = simulated(400)
    wide = ts.Prediction(
        np.zeros((400, 2)),
        aleatoric=np.stack([prediction.total, prediction.total], 1),
        mask=np.stack([y < 9, y > 99], 1),
    )
    both = np.stack([y, np.full(400, 50.0)], 1)
    assert referral.fit(wide, both, tolerance=2.0, risk=0.05).threshold == pytest.approx(
        referral.fit(prediction, y, tolerance=2.0, risk=0.05).threshold, rel=1e-12
    )
    seen = ts.Prediction(wide.location, aleatoric=wide.aleatoric)
    assert referral.fit(seen, both, tolerance=2.0, risk=0.05).threshold is None


def test_a_card_keeps_it_and_apply_writes_it(tmp_path, run):
    prediction, y = simulated(400)
    write(ts.Cases(prediction, y), tmp_path / "old.csv")
    write(simulated(50, seed=9)[0], tmp_path / "new.csv")
    card = tmp_path / "card.json"
    asked = "tolerance=2,risk=0.05"
    code, out, _ = run("calibrate", "--calibration", tmp_path / "old.csv", "-o", card, "--refer", asked)
    assert code == 0
    loaded = read_card(card)
    assert loaded.refer == referral.fit(prediction, y, tolerance=2.0, risk=0.05)
    assert loaded.refer.words in out
    assert loaded.to_dict() == json.loads(json.dumps(loaded.to_dict()))
    code, out, _ = run("apply", card, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert code == 0
    with (tmp_path / "out.csv").open() as lines:
        written = [row["refer"] == "true" for row in csv.DictReader(lines)]
    assert written == list(loaded.refer(simulated(50, seed=9)[0]))
    assert 0 < sum(written) < 50
    run("apply", card, tmp_path / "new.csv", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as stored:
        assert stored["refer"].tolist() == written


def test_what_is_not_understood_is_said(tmp_path, run):
    prediction, y = simulated(100)
    cases = ts.Cases(prediction, y)
    for asked, words in (
        ({"tolerance": 1.0}, "a referral is given by tolerance; expected tolerance and risk"),
        ({"tolerance": 1.0, "risk": 0.1, "level": 0.9}, "given by tolerance, risk, level; expected"),
        ({"tolerance": -1.0, "risk": 0.1}, r"tolerance is -1.0; expected a number above 0\."),
        ({"tolerance": 1.0, "risk": 5.0}, r"risk is 5.0; expected a number above 0 and below 1"),
    ):
        with pytest.raises(ValueError, match=words):
            calibrate(cases, refer=asked)
    with pytest.raises(ValueError, match="sorts the cases, which a tally does not hold"):
        calibrate(ts.Tally.empty().add(prediction, y), refer={"tolerance": 1.0, "risk": 0.1})
    write(cases, tmp_path / "old.csv")
    given = ("calibrate", "--calibration", tmp_path / "old.csv", "-o", tmp_path / "card.json", "--refer")
    code, _, err = run(*given, "ten")
    assert (code, "--refer is 'ten'" in err) == (2, True)


@pytest.mark.parametrize("unit", ["mm", "scaled"])
def test_what_a_network_predicts_is_referred_in_the_cards_unit(tmp_path, unit):
    pytest.importorskip("torch")
    from truesigma.imaging.data.units import Units
    from truesigma.imaging.prediction.write import names_of, recalibrated, referred, write_predictions

    units = Units(("mm",), np.array([5.0]), np.array([20.0]))
    old, new = (
        ts.Prediction(p.location[:, None] / 20, aleatoric=p.total[:, None] / 400)
        for p, _ in (simulated(400), simulated(9, seed=1))
    )
    y = simulated(400)[1][:, None] / 20
    cases = (
        ts.Cases(old, y, unit=unit)
        if unit == "scaled"
        else ts.Cases(units.prediction(old), 5 + 20 * y, unit=unit)
    )
    tolerance = 2.0 / (20 if unit == "scaled" else 1)
    card = calibrate(cases, refer={"tolerance": tolerance, "risk": 0.05})
    expected = referral.fit(*simulated(400), tolerance=2.0, risk=0.05)(simulated(9, seed=1)[0])
    found = referred(card, new, units)
    assert np.array_equal(found["refer"], expected)
    names = [tmp_path / f"{k}.png" for k in range(9)]
    write_predictions(
        names_of(names), recalibrated(card, new, units), units, [0.9], tmp_path / "out.csv", found
    )
    with (tmp_path / "out.csv").open() as lines:
        assert [row["refer"] == "true" for row in csv.DictReader(lines)] == expected.tolist()
