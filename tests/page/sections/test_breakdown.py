"""Groups and outputs on their own: the one that is off is found, those that are right seldom called off."""

import numpy as np
import pytest
from report_samples import make, subject_of

import truesigma as ts
from truesigma.core.cases import pool
from truesigma.evaluation.replicates import Resampling
from truesigma.page.sections import agreement, breakdown, scatter, worst


def test_the_group_that_is_off_is_found():
    test = make(cases=900, groups=("Basel", "Lund", "Oslo", "Porto"))
    subject = subject_of(test)
    parts = breakdown.groups(subject)
    assert {part.name: part.verdict in breakdown.FINE for part in parts} == {
        "Porto": False, "Basel": True, "Lund": True, "Oslo": True,
    }  # fmt: skip
    assert parts[0].verdict.startswith("too sure")
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
    assert "too sure" in breakdown.section(subject).html


def test_groups_that_are_right_are_seldom_called_off():
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        y, mu = rng.normal(size=600), 3 * rng.normal(size=600)
        cases = ts.Cases(
            ts.Prediction(mu, aleatoric=0 * y + 1), mu + y, group=rng.choice(list("abcdefgh"), 600)
        )
        subject = subject_of(cases, fitted_on=cases, recalibrations=(), replicates=20)
        alarms += any(part.verdict not in breakdown.FINE for part in breakdown.groups(subject))
    assert alarms <= 7  # 5 % of 50, with room for chance


def test_small_groups_are_not_judged():
    subject = subject_of(make(groups=tuple(f"p{k}" for k in range(60))))
    assert breakdown.groups(subject) == []
    found = breakdown.section(subject)
    assert found.title == "For whom"
    assert "None of the 60 groups has 20 test cases" in found.html
    assert breakdown.section(subject_of(make())) is None  # no groups, nothing to say


def test_each_output_on_its_own():
    test = make(outputs=3, names=("age", "height", "weight"))
    subject = subject_of(test)
    parts = breakdown.outputs(subject)
    assert [part.name for part in parts] == ["age", "height", "weight"]
    assert all("height" in one.section(subject).html for one in (agreement, worst))
    assert scatter.section(subject).settings["names"] == test.names
    p = subject.after.prediction
    for k, part in enumerate(parts):
        one = ts.Prediction(p.location[:, k], aleatoric=p.aleatoric[:, k], epistemic=p.epistemic[:, k])
        assert part.after.value == pytest.approx(ts.metrics.coverage.score(one, test.target[:, k]))


def test_patients_are_drawn_together():
    subject = subject_of(make(groups=tuple(f"p{k}" for k in range(40))))
    assert isinstance(subject.plan, Resampling)
    assert (subject.plan.by, subject.plan.clusters) == ("group", 40)
    assert subject_of(make(groups=("a", "b"))).plan.by == "case"


def test_a_group_of_which_nothing_counts_is_none():
    whole = make(groups=("a", "b", "c"))
    p, inside = whole.prediction, whole.group != "c"
    masked = ts.Prediction(p.location, aleatoric=p.aleatoric, epistemic=p.epistemic, mask=inside)
    subject = subject_of(ts.Cases(masked, whole.target, group=whole.group))
    assert {part.name: part.cases for part in breakdown.groups(subject)} == {
        name: int((whole.group == name).sum()) for name in ("a", "b")
    }


def test_patients_are_not_judged_one_by_one():
    rng = np.random.default_rng(0)
    patient = np.repeat([f"p{k}" for k in range(25)], 30)
    y = np.repeat(rng.normal(size=25), 30)  # sigma is true, and all images of a patient have the same error
    cases = ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1), y, group=patient)
    subject = subject_of(cases, fitted_on=cases, recalibrations=(), replicates=50)
    parts = breakdown.groups(subject)
    assert {part.verdict for part in parts} == {""}
    found = breakdown.section(subject)
    assert "none of the 25 groups is judged on its own" in found.html
    as_sites = subject_of(cases, fitted_on=cases, recalibrations=(), replicates=50, by="case")
    assert any("too sure" in part.verdict for part in breakdown.groups(as_sites))


def test_no_remedy_is_named_whose_effect_was_not_computed():
    y = np.random.default_rng(4).normal(size=(400, 2)) * [0.3, 2.0]
    cases = ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1), y)
    for name, off in (("sigma", True), ("sigma_by_output", False)):
        subject = subject_of(cases, fitted_on=cases, recalibrations=(name,), replicates=50)
        parts = breakdown.outputs(subject)
        assert [("sure" in part.verdict) for part in parts] == [off, off]
        assert "remedy" not in breakdown.section(subject).html


def test_what_cannot_be_told_of_a_group_is_not_called_right():
    """One patient of a third site; and an interval without 1 is no "no sign"."""
    patient = [f"p{k % 40}" for k in range(320)]
    one = make(cases=320, seed=2, factor=1.0, patient=patient, groups=("Basel", "Lund"))
    lone = make(cases=24, seed=3, factor=1.0, patient=["alone"] * 24, prefix="u")
    lone = ts.Cases(
        lone.prediction, lone.target, patient=["alone"] * 24, group=["Oslo"] * 24, unit="mm", id=lone.id
    )
    both = pool([one, lone])
    subject = subject_of(both, fitted_on=one, recalibrations=("sigma",))
    found = {part.name: part for part in breakdown.groups(subject)}
    assert found["Oslo"].verdict == "too few patients to tell"
    for part in found.values():
        outside = part.factor.value is not None and not part.factor.low <= 1 <= part.factor.high
        assert outside == ("sure" in part.verdict)
    assert "by patient inside a group" in breakdown.section(subject).html
