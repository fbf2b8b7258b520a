"""Cards: a fitted recalibration comes back from its file, and a card that cannot be trusted is refused."""

import json

import numpy as np
import pytest

import truesigma as ts
from truesigma.evaluation.card import calibrate, read_card
from truesigma.evaluation.text import factor_text
from truesigma.files.disk import BadFile
from truesigma.files.store import write


def simulated(cases=200, outputs=(), seed=0, **options):
    """Cases whose scale is half of what it should be."""
    rng = np.random.default_rng(seed)
    a, e = rng.lognormal(-4, 0.5, size=(2, cases, *outputs))
    target = rng.normal(size=(cases, *outputs))
    location = target + 2 * np.sqrt(a + e) * rng.normal(size=target.shape)
    return ts.Cases(ts.Prediction(location, aleatoric=a, epistemic=e, **options), target, unit="mm")


@pytest.mark.parametrize("name", ["none", "sigma", "sigma:part=aleatoric", "aux:hidden=3,steps=50"])
@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
def test_a_card_does_after_reading_what_it_did_before(tmp_path, name, law):
    cases = simulated(law=law)
    card = calibrate(cases, name, data={"file": "cal.csv"})
    write(card, tmp_path / "card.json")
    again = read_card(tmp_path / "card.json")
    assert again.to_dict() == card.to_dict()
    assert again.recalibration == card.recalibration
    fresh = simulated(seed=1, law=law).prediction
    for level in (0.5, 0.99):
        assert np.array_equal(again(fresh).interval(level).lower, card(fresh).interval(level).lower)
    seen = {
        name: [[values.min(), values.max()]]
        for name, values in (("location", cases.prediction.location), ("scale", cases.prediction.scale))
    }
    assert again.data == {"file": "cal.csv", "cases": 200, "outputs": 1, "range": seen}
    assert again.unit == "mm"
    assert again.date.endswith("Z")
    assert set(again.versions) >= {"python", "truesigma", "numpy", "scipy"}


@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
def test_a_card_from_a_tally_is_that_of_the_cases(law):
    cases = simulated(outputs=(3,), law=law)
    tally = ts.Tally.empty()
    for part in (cases[:150], cases[150:]):
        tally = tally.add(part.prediction, part.target)
    for name in ("sigma", "sigma:part=aleatoric"):
        card, expected = calibrate(tally, name, unit="mm", data={"draws": 25}), calibrate(cases, name)
        assert np.allclose(card(cases).variance, expected(cases).variance, rtol=1e-12)
        assert (card.law, card.unit, card.recipe.name) == (expected.law, "mm", "exact")
        assert card.data == {"draws": 25, "cases": 200}


def test_what_a_card_cannot_be_fitted_from_is_said():
    cases = simulated()
    tally = ts.Tally.empty().add(cases.prediction, cases.target)
    for name in ("none", "aux", "isotonic", "conformal"):
        with pytest.raises(ValueError, match=f"{name} cannot be fitted from the sums of a tally"):
            calibrate(tally, name)
    with pytest.raises(ValueError, match="no element is left"):
        calibrate(ts.Tally.empty())
    with pytest.raises(ValueError, match="cases holds a Prediction"):
        calibrate(cases.prediction)


def test_what_a_card_cannot_be_applied_to_is_said():
    card = calibrate(simulated())
    with pytest.raises(ValueError, match="given a tuple; expected Prediction"):
        card((np.zeros(3), np.ones(3)))
    with pytest.raises(ValueError, match="refer is 10; expected a mapping"):
        calibrate(simulated(), refer=10)


def test_a_card_gives_what_evaluate_gives():
    cases, fresh = simulated(outputs=(3,)), simulated(outputs=(3,), seed=1)
    for recipe in ("exact", "paper", "code"):
        result = ts.evaluate(cases, fresh, recalibrations=["sigma"], metrics=["nll", "width"], recipe=recipe)
        card = calibrate(cases, "sigma", recipe=recipe)
        assert card.recalibration == result.recalibrations["sigma"]
        width = ts.metrics.width.score(card(fresh), fresh.target, level=0.9)
        assert width == result.value("sigma", "width", level=0.9)


OWN = """
from truesigma import Prediction
class Double:
    factor = 2.0
    def __call__(self, prediction, *, group=None):
        return Prediction(prediction.location, aleatoric=4 * prediction.aleatoric)
    def to_dict(self):
        return {"name": "double", "factor": 2.0}
def fit(prediction, target, *, weight=None, group=None):
    return Double()
def from_dict(stored):
    return Double()
"""


def test_a_card_of_ones_own_plugin_needs_its_file(tmp_path):
    (tmp_path / "double.py").write_text(OWN)
    made = calibrate(simulated(), str(tmp_path / "double.py"))
    assert factor_text(made.recalibration) == "factor 2"  # nothing is said of an error it does not have
    write(made, tmp_path / "card.json")
    with pytest.raises(BadFile, match="no recalibration is called 'double'"):
        read_card(tmp_path / "card.json")
    card = read_card(tmp_path / "card.json", plugin=str(tmp_path / "double.py"))
    assert card(ts.Prediction([0.0], aleatoric=[1.0])).scale.tolist() == [2.0]


@pytest.fixture
def card(tmp_path):
    fitted = calibrate(
        ts.Cases(
            ts.Prediction([0.0, 1.0, 2.0], aleatoric=[1.0, 1.0, 2.0], epistemic=[0.1] * 3), [0.5, 0.5, 3.5]
        )
    )
    write(fitted, tmp_path / "card.json")
    found = json.loads((tmp_path / "card.json").read_text())
    del found["content_sha256"]  # as of an earlier version, or changed by hand on purpose
    return found


CARDS = {
    "version": (lambda c: c.update(version=2), "card of version 2; this truesigma reads version 1"),
    "format": (lambda c: c.pop("format"), "is not the card of a recalibration"),
    "missing": (lambda c: c.pop("law"), "lacks 'law'"),
    "unknown": (lambda c: c.update(temperature=1), "has the unknown 'temperature'"),
    "unknown inside": (lambda c: c["recalibration"].update(bias=1), "does not fit its plug-in.*bias"),
    "another part": (lambda c: c["recalibration"].update(part=-1), "part is -1; expected"),
    "other plug-in": (lambda c: c["recalibration"].update(name="magic"), "no recalib.* is called 'magic'"),
    "code": (lambda c: c["recalibration"].update(name="./evil.py"), "no recalib.* is called"),
    "law": (lambda c: c.update(law={"name": "cauchy"}), "law is 'cauchy'"),
    "choices": (lambda c: c.update(choices={}), "choices lacks decompose.aleatoric"),
    "kind": (lambda c: c.update(data=3), "data is 3; expected a table"),
    "kind of choices": (lambda c: c.update(choices={"decompose": 1, "uce": 2}), "cannot be used"),
}


@pytest.mark.parametrize("name", CARDS)
def test_bad_cards(tmp_path, card, name):
    change, message = CARDS[name]
    change(card)
    (tmp_path / "bad.json").write_text(json.dumps(card))
    with pytest.raises(BadFile, match=f"bad.json.*{message}"):
        read_card(tmp_path / "bad.json")


def test_a_card_never_runs_code(tmp_path, card):
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')\ndef fit(): ...\n")
    card["recalibration"]["name"] = str(tmp_path / "evil.py")
    (tmp_path / "bad.json").write_text(json.dumps(card))
    with pytest.raises(BadFile, match="no recalib"):
        read_card(tmp_path / "bad.json")


@pytest.mark.parametrize("factor", [None, "two", 0.0, float("inf")])
def test_bad_factors(tmp_path, card, factor):
    card["recalibration"]["factor"] = factor
    (tmp_path / "bad.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match=r"cannot be|is 0|not finite"):
        read_card(tmp_path / "bad.json")(ts.Prediction([0.0], aleatoric=[1.0], epistemic=[1.0]))


def test_a_digit_that_changed_is_noticed(tmp_path, card):
    text = (tmp_path / "card.json").read_text()
    factor = str(card["recalibration"]["factor"])
    (tmp_path / "card.json").write_text(text.replace(factor, factor[:-1]))
    with pytest.raises(BadFile, match=r"card\.json is damaged, or was changed by hand"):
        read_card(tmp_path / "card.json")


def test_cut_card(tmp_path):
    (tmp_path / "a.json").write_text('{"format": "truesigma')
    with pytest.raises(BadFile, match=r"not valid JSON.*cut short"):
        read_card(tmp_path / "a.json")


def test_the_five_answers_are_the_same_in_card_evaluation_and_files(tmp_path, run):
    """One place for all: Python, the card, `evaluate --json` and `report --json`."""
    rng = np.random.default_rng(0)
    for name in ("calibration", "test"):
        y = 5 * rng.normal(size=300)
        cases = ts.Cases(ts.Prediction(y + rng.normal(size=300), aleatoric=np.full(300, 0.25)), y, unit="mm")
        ts.write(cases, tmp_path / f"{name}.npz")
    calibration, test = (ts.read(tmp_path / f"{name}.npz") for name in ("calibration", "test"))
    expected = ts.evaluate(calibration, test, recalibrations=["none", "sigma"], metrics=["rmse"]).questions
    names = ["--calibration", str(tmp_path / "calibration.npz"), "--test", str(tmp_path / "test.npz")]
    for command in (
        ["evaluate", *names, "--recalibrate", "none,sigma", "--metrics", "rmse"],
        ["report", *names, "-o", str(tmp_path / "report.html"), "--replicates", "20"],
    ):
        out = tmp_path / f"{command[0]}.json"
        assert run(*command, "--json", out)[0] == 0
        assert json.loads(out.read_text())["questions"] == json.loads(json.dumps(expected))
    # A card answers about the cases that it was fitted on, as they are.
    card = ts.calibrate(calibration)
    own = ts.evaluate(calibration, calibration, recalibrations=["none"], metrics=["rmse"]).questions
    assert list(card.questions) == [row for row in own if row["output"] is None]
    ts.write(card, tmp_path / "card.json")
    assert list(ts.read_card(tmp_path / "card.json").questions) == json.loads(json.dumps(card.questions))
    assert run("calibrate", *names[:2], "-o", tmp_path / "again.json")[0] == 0
    assert json.loads((tmp_path / "again.json").read_text())["questions"] == json.loads(
        json.dumps(card.questions)
    )
