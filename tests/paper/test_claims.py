"""Claims, deviations and the proposition on data whose answer is known."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_paper import fake_paper
from scipy.stats import ttest_1samp

from paper import open_paper
from paper.claims import calibration, intervals, judge_all, read_claims, rule, shift
from paper.claims.verdict import over_networks, settled
from paper.pages.deviations import effect, read_deviations
from paper.pages.markdown import results_text
from paper.studies.calibration_size import learning_curve
from paper.studies.proposition import simulate
from paper.studies.rare import far_draws
from truesigma.core.values import Draws

ROOT = Path(__file__).parents[2] / "paper"
SURE, DOUBTFUL = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0], [1.0, 0.2, 0.8, 0.1, 0.5, 0.05]


def test_claims_on_data_whose_answer_is_known(paper):
    verdicts = {claim.check: verdict for claim, verdict in judge_all(paper)}
    words = {check: verdict.word for check, verdict in verdicts.items()}
    for check in ("calibrated_stays", "location_unchanged", "solvers_agree"):
        assert words[f"calibration.{check}"] == "holds"
    # Two networks say nothing of others, the UCE of equal-width bins nothing at all.
    for check in ("calibration.underestimated", "training.gap_closed", "intervals.too_narrow"):
        assert words[check] == "cannot be told"
        assert verdicts[check].evidence.startswith("2 of 2 networks, too few to judge others by.")
    for check in (
        "calibration.recalibration_helps",
        "calibration.sigma_beats_aux_small",
        "calibration.oct_uce",
    ):
        assert (words[check], "UCE x 100: " in verdicts[check].evidence) == ("cannot be told", True)
    assert words["calibration.epistemic_helps_small"] == "not yet run"
    # No draw of these lies far from the others.
    assert "One draw" not in verdicts["calibration.oct_uce"].evidence
    assert all(v.evidence for v in verdicts.values())


def test_claims_are_judged_over_networks_and_as_one_family():
    sure, doubtful = ({str(k): value for k, value in enumerate(values)} for values in (SURE, DOUBTFUL))
    found = [over_networks(one, "") for one in (sure, doubtful, {k: -v for k, v in sure.items()})]
    expected = [ttest_1samp(values, 0).pvalue for values in (SURE, DOUBTFUL)]
    assert [one.chance for one in found[:2]] == pytest.approx(expected)
    words = [one.word for one in settled([*found, found[1]])]
    assert words == ["holds", "cannot be told", "does not hold", "cannot be told"]
    assert [one.word for one in settled(found[1:2])] == ["holds"]  # alone it has the whole risk
    assert settled([over_networks({"a": 1.0, "b": 1.1}, "")])[0].word == "cannot be told"


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
    judged = judge_all(paper)
    assert {verdict.word for _, verdict in judged} == {"holds", "not yet run", "holds in part"}
    text = results_text(paper)
    assert "No run yet." in text
    # What opens the file counts what its table of claims says, less those of our own.
    said = re.search(r"We looked at (\d+) claims of its text: (.*?)\. Few networks", text)
    words = Counter(verdict.word for claim, verdict in judged if "Ours: " not in claim.says)
    assert said is not None
    assert int(said[1]) == words.total()
    assert {*said[2].split(", ")} == {f"{word} {count}" for word, count in words.items()}


def test_one_ensemble_beside_one_network_tells_nothing_of_others(tmp_path):
    """It is compared with the network that was trained as its members were."""
    members = [f"boneage_densenet201_member{n}" for n in range(1, 6)]
    paper = open_paper(fake_paper(tmp_path / "paper", [*members, "boneage_densenet201_short"], cases=60))
    for check, words in (
        (calibration.ensemble_worse, "the ensemble as it is less that: "),
        (shift.ensemble_rejects_worse, "the ensemble's less that of σ scaling "),
    ):
        verdict = check(paper)
        low, high = map(float, re.search(rf"{words}(\S+) to (\S+\d)", verdict.evidence).groups())
        assert low < high
        assert verdict.word == "cannot be told"
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
def test_99_is_no_more_than_twice_the_misses(monkeypatch, held, word):
    monkeypatch.setattr(intervals, "held", lambda _, name, *more: held + 1e-5 * len(name))
    assert intervals.holds_99(open_paper(ROOT)).word == word
