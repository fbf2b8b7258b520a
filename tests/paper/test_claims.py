"""Claims, deviations and the proposition on data whose answer is known."""

import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from made_up_paper import fake_paper

from paper import open_paper
from paper.claims import calibration, intervals, judge, read_claims, rule, shift
from paper.pages.deviations import effect, read_deviations
from paper.pages.markdown import results_text
from paper.studies.calibration_size import learning_curve
from paper.studies.proposition import simulate
from paper.studies.rare import far_draws
from truesigma.core.values import Draws


def test_claims_on_data_whose_answer_is_known(paper):
    verdicts = {
        claim.check: judge(paper, claim)
        for claim in read_claims(paper)
        if claim.check != "calibration.aux_overfits"
    }
    words = {check: verdict.word for check, verdict in verdicts.items()}
    for check in (
        "calibration.underestimated", "calibration.recalibration_helps", "calibration.location_unchanged",
        "calibration.solvers_agree", "training.early_stopping", "training.gap_closed", "intervals.too_narrow",
        "shift.rejection_falls",
    ):  # fmt: skip
        assert words[check] == "holds", verdicts[check]
    assert words["calibration.epistemic_helps_small"] == "not yet run"
    assert "BreastPathQ" in verdicts["calibration.sigma_beats_aux_small"].evidence
    assert words["calibration.oct_error"] == "does not hold"
    assert words["calibration.oct_uce"] == "does not hold"
    assert (
        "One draw" not in verdicts["calibration.oct_uce"].evidence
    )  # no draw of these lies far from the others
    assert all(v.evidence for v in verdicts.values())


def test_short_runs_of_a_network_are_judged_by_its_variant(tmp_path):
    """The claims that name one network take, in the regime of short runs, that network's short run."""
    names = ["boneage_densenet201", "boneage_densenet201_short"]
    root = fake_paper(tmp_path / "paper", names, cases=60)
    path = root / "results" / names[1] / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "best_epoch": 45}))  # too near its end
    full = open_paper(root)
    short = replace(full, regime="short")
    assert [paper.in_regime(names[0]) for paper in (full, short)] == names
    for check in (intervals.bone_age_90, shift.rejection_falls):
        assert "not yet run" not in {check(full).word, check(short).word}
    assert short.in_regime("boneage_efficientnet_b4") == "boneage_efficientnet_b4"  # nothing was run


def test_no_claim_fails_without_results(tmp_path):
    paper = open_paper(fake_paper(tmp_path / "paper", []))
    for claim in read_claims(paper):
        assert judge(paper, claim).word in ("holds", "not yet run", "holds in part")
    text = results_text(paper)
    assert "No run yet." in text
    # What opens the file counts what its table of claims says, less those of our own.
    said = re.search(r"We looked at (\d+) claims of its text: (.*?)\. In part", text)
    words = Counter(judge(paper, claim).word for claim in read_claims(paper) if "Ours: " not in claim.says)
    assert said is not None
    assert int(said[1]) == words.total()
    assert {*said[2].split(", ")} == {f"{word} {count}" for word, count in words.items()}


def test_an_ensemble_is_worse_only_beyond_chance(tmp_path):
    """It is compared with the network that was trained as its members were; what the first rule said is kept."""
    members = [f"boneage_densenet201_member{n}" for n in range(1, 6)]
    paper = open_paper(fake_paper(tmp_path / "paper", [*members, "boneage_densenet201_short"], cases=60))
    for check, words in (
        (calibration.ensemble_worse, "the ensemble as it is less that: "),
        (shift.ensemble_rejects_worse, "the ensemble's less that of σ scaling "),
    ):
        verdict = check(paper)
        assert "By the rule as it was first: " in verdict.evidence
        low, high = map(float, re.search(rf"{words}(\S+) to (\S+\d)", verdict.evidence).groups())
        assert low < high
        if check is calibration.ensemble_worse:
            assert verdict.word == ("holds" if low > 0 else "does not hold")
    both = [verdict(paper) for verdict in (shift.moderate, shift.severe)]
    assert all("not yet run" in one.word or "Both were trained alike" in one.evidence for one in both)


def test_learning_curve_of_aux_falls(paper):
    curve = learning_curve(paper, "boneage_densenet201", sizes=(20, 100), seeds=3)
    assert [p.cases for p in curve] == [20, 100, 200]
    assert curve[0].aux - curve[0].sigma > curve[-1].aux - curve[-1].sigma
    assert curve[0].aux_ends[0] < curve[0].aux < curve[0].aux_ends[1]
    assert curve[-1].aux_ends == (curve[-1].aux, curve[-1].aux)  # all cases are one subset


def test_deviations_measure_what_they_change(paper):
    by_choice = {one.choice: one for one in read_deviations(paper)}
    text = effect(paper, by_choice["Divisor of the epistemic variance"])
    assert "OCT, ResNet-101" in text
    assert "→" in text
    aux = effect(paper, by_choice["Input of aux scaling"])
    assert "| network " in aux
    assert "UCE x 100 aux" in aux
    assert "Not measured: oct_resnet101_stage05" in effect(
        paper, by_choice["Dropout after the stages of ResNet-101"]
    )


@pytest.mark.parametrize(
    ("truth", "mean", "draws"), [("draw", 1 + 1 + 1 / 25, 3.0), ("mean", 1 + 1 / 25, 2.0)]
)
def test_appendix_c(truth, mean, draws):
    found = simulate(1.0, truth=truth, cases=40_000)
    assert found.predicted == pytest.approx(1 + 24 / 25, abs=0.01)
    assert found.error_mean == pytest.approx(mean, abs=0.05)
    assert found.error_draws == pytest.approx(draws, abs=0.05)


def test_far_draws_are_those_far_above_the_median_of_their_case():
    variance = np.ones((25, 4, 1))
    variance[3, 1], variance[7, 2] = 30.0, 19.0
    found = far_draws([Draws(np.zeros((25, 4, 6)), variance)])
    assert np.argwhere(found).tolist() == [[0, 3, 1, 0]]


def test_every_verdict_says_its_rule(paper):
    for claim in read_claims(paper):
        assert len(rule(claim)) > 20, claim.check
        assert rule(claim).endswith("."), claim.check
    assert rule(read_claims(paper)[0]) == " ".join(calibration.underestimated.__doc__.split())


@pytest.mark.parametrize(
    ("held", "word"), [(0.975, "does not hold"), (0.985, "holds"), (1.0, "does not hold")]
)
def test_99_is_no_more_than_twice_the_misses(paper, monkeypatch, held, word):
    monkeypatch.setattr(intervals, "held", lambda *_: held)
    assert intervals.holds_99(paper).word == word
