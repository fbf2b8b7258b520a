"""Groups and outputs on their own: the one that is off is found, those that are right seldom called off."""

import numpy as np
import pytest
from report_samples import make, subject_of

import truesigma as ts
from truesigma.evaluation.replicates import Resampling, replicate
from truesigma.report.sections import breakdown
from truesigma.report.subject import make_subject


def test_the_group_that_is_off_is_found():
    test = make(cases=900, groups=("Basel", "Lund", "Oslo", "Porto"))
    subject = subject_of(test)
    parts = breakdown.groups(subject)
    assert {part.name: part.verdict for part in parts} == {
        "Porto": "too sure", "Basel": "as promised", "Lund": "as promised", "Oslo": "as promised",
    }  # fmt: skip
    first = parts[0]
    inside = test.group == "Porto"
    cases = subject.after[inside]
    assert first.name == "Porto"
    assert first.after.value == pytest.approx(ts.metrics.coverage.score(cases.prediction, cases.target))
    assert first.rmse.value == pytest.approx(ts.metrics.rmse.score(cases.prediction, cases.target))
    assert first.factor.value == pytest.approx(
        ts.recalibrate.sigma.fit(cases.prediction, cases.target).factor
    )
    assert first.factor.low < 1.6 < first.factor.high
    assert "too sure" in breakdown.section(subject, parts, []).body


def test_groups_that_are_right_are_seldom_called_off():
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=600)
        cases = ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y, group=rng.choice(list("abcdefgh"), 600))
        subject = make_subject(cases, cases, recalibrations=(), replicates=100)
        alarms += any(part.verdict != "as promised" for part in breakdown.groups(subject))
    assert alarms <= 5  # 5 % of 50, with room for chance


@pytest.mark.parametrize("misses", [0, 1, 6, 20])
def test_the_chance_is_that_of_the_binomial_law(misses):
    from scipy.stats import binom

    y = np.where(np.arange(60) < misses, 9.0, 0.0)
    cases = ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y)
    plan = Resampling.of(cases, replicates=20000)
    found = replicate(cases, ["coverage:level=0.9"], plan)[0]
    # The number of cases comes from the bootstrap, 60 but for the noise of its replicates.
    tails = binom.cdf(60 - misses, 60, 0.9), binom.sf(59 - misses, 60, 0.9)
    expected = min(1.0, 2 * min(tails))
    assert np.log(breakdown._chance(found, 0.9, 60, 60.0)) == pytest.approx(
        np.log(expected), rel=0.05, abs=0.02
    )


def test_small_groups_that_are_right_are_called_off_in_one_of_twenty_sets_at_most():
    rng = np.random.default_rng(0)
    plan = Resampling.of(ts.Cases(ts.Prediction(np.zeros(20), np.ones(20)), np.zeros(20)), replicates=1000)
    chance = {}
    for held in range(21):  # every result that 20 cases can have
        y = np.where(np.arange(20) < held, 0.0, 9.0)
        cases = ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y)
        chance[held] = breakdown._chance(replicate(cases, ["coverage:level=0.9"], plan)[0], 0.9, 20, 20.0)
    sets = rng.binomial(20, 0.9, size=(20000, 10))  # ten groups each
    smallest = np.vectorize(chance.get)(sets).min(axis=1)
    assert (10 * smallest < breakdown.RISK).mean() < 0.05


def test_a_single_miss_of_small_weight_proves_nothing():
    y = np.where(np.arange(60) % 30 == 0, 9.0, 0.0)
    weight = np.where(y > 0, 1e-3, 1.0)
    weight[1::2] *= 0.5
    cases = ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y, weight=weight, group=np.repeat(["a", "b"], 30))
    parts = breakdown.groups(make_subject(cases, cases, recalibrations=(), replicates=200))
    one = weight[:30]
    for part in parts:
        assert part.verdict == "as promised"
        assert part.chance == pytest.approx(2 * 0.9 ** (one.sum() ** 2 / (one**2).sum()), rel=0.1)


def test_masked_cases_do_not_speak_for_an_output():
    y = np.zeros((50, 2))
    mask = np.ones((50, 2), bool)
    mask[10:, 1] = False
    cases = ts.Cases(ts.Prediction(y, y + 1, mask=mask), y)
    found = breakdown.outputs(make_subject(cases, cases, recalibrations=(), replicates=50))
    assert [part.chance for part in found] == pytest.approx([2 * 0.9**50, 2 * 0.9**10])
    assert [part.verdict for part in found] == ["not sure enough", "as promised"]


def test_small_groups_are_not_judged():
    subject = subject_of(make(groups=tuple(f"p{k}" for k in range(60))))
    assert breakdown.groups(subject) == []
    found = breakdown.section(subject, [], [])
    assert found.title == "For whom"
    assert "None of the 60 groups has 20 test cases" in found.body
    assert breakdown.section(subject_of(make()), [], []) is None  # no groups, nothing to say


def test_how_many_groups_are_judged_is_said():
    group = np.array(["large"] * 200 + ["second"] * 90 + ["small"] * 10)
    plain = make()
    subject = subject_of(ts.Cases(plain.prediction, plain.target, group=group))
    body = breakdown.section(subject, breakdown.groups(subject), []).body
    assert "2 of 3 groups are judged: those of at least 20 test cases." in body


def test_each_output_on_its_own():
    test = make(outputs=3)
    subject = subject_of(test)
    parts = breakdown.outputs(subject)
    assert [part.name for part in parts] == ["output 0", "output 1", "output 2"]
    p = subject.after.prediction
    for k, part in enumerate(parts):
        one = ts.Prediction(p.location[:, k], p.aleatoric[:, k], p.epistemic[:, k])
        assert part.after.value == pytest.approx(ts.metrics.coverage.score(one, test.target[:, k]))


def test_outputs_that_one_factor_cannot_serve_get_their_remedy():
    y = np.random.default_rng(4).normal(size=(400, 2)) * [0.3, 2.0]
    cases = ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y)
    for name, off in (("sigma", True), ("sigma_by_output", False)):
        subject = make_subject(cases, cases, recalibrations=(name,), replicates=100)
        parts = breakdown.outputs(subject)
        assert any(part.verdict != "as promised" for part in parts) == off
        assert ("sigma_by_output, is the remedy" in str(breakdown.section(subject, [], parts).body)) == off


def test_a_group_without_a_miss_is_judged_by_the_binomial_law():
    y = np.zeros(200)
    group = np.repeat(["never", "mixed"], 100)
    location = np.where(np.arange(200) < 100, 0.0, np.tile([0.0] * 9 + [9.0], 20))
    cases = ts.Cases(ts.Prediction(location, y + 1), y, group=group)
    found = {
        part.name: part
        for part in breakdown.groups(make_subject(cases, cases, recalibrations=(), replicates=50))
    }
    assert found["never"].chance == pytest.approx(2 * 0.9**100)
    assert found["never"].verdict == "not sure enough"
    assert found["mixed"].verdict == "as promised"


def test_patients_are_drawn_together():
    subject = subject_of(make(groups=tuple(f"p{k}" for k in range(40))))
    assert isinstance(subject.plan, Resampling)
    assert (subject.plan.by, subject.plan.clusters) == ("group", 40)
    assert subject_of(make(groups=("a", "b"))).plan.by == "case"


def test_a_group_of_which_nothing_counts_is_none():
    whole = make(groups=("a", "b", "c"))
    p, inside = whole.prediction, whole.group != "c"
    masked = ts.Prediction(p.location, p.aleatoric, p.epistemic, mask=inside)
    subject = subject_of(ts.Cases(masked, whole.target, group=whole.group))
    assert {part.name: part.cases for part in breakdown.groups(subject)} == {
        name: int((whole.group == name).sum()) for name in ("a", "b")
    }


def test_patients_are_not_judged_one_by_one():
    rng = np.random.default_rng(0)
    patient = np.repeat([f"p{k}" for k in range(25)], 30)
    y = np.repeat(rng.normal(size=25), 30)  # sigma is true, and all images of a patient have the same error
    cases = ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y, group=patient)
    subject = make_subject(cases, cases, recalibrations=(), replicates=50)
    parts = breakdown.groups(subject)
    assert {part.verdict for part in parts} == {""}
    found = breakdown.section(subject, parts, [])
    assert "none of the 25 groups is judged on its own" in found.body
    assert set(found.table["p"]) == {None}
    as_sites = make_subject(cases, cases, recalibrations=(), replicates=50, by="case")
    assert {part.verdict for part in breakdown.groups(as_sites)} > {"too sure"}


def test_one_weight_for_all_outputs_of_a_case():
    y = np.random.default_rng(0).normal(size=(60, 2))
    weight = np.linspace(1, 2, 60)
    parts = [
        breakdown.outputs(subject_of(ts.Cases(ts.Prediction(0 * y, 0 * y + 1), y, weight=given)))
        for given in (weight, weight[:, None])
    ]
    assert [part.rmse for part in parts[0]] == [part.rmse for part in parts[1]]
