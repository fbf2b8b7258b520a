"""The verdict claims no more than its intervals show, and what speaks against it is said."""

import math
import re

import numpy as np
import pytest
from report_samples import make, subject_of

import truesigma as ts
from truesigma.evaluation.bootstrap import Estimate
from truesigma.report import report
from truesigma.report.sections import scores, verdict


def page_words(*sets, **more):
    page = report(*sets, replicates=100, **more).page.replace("\xa0", " ")
    return re.search('class="verdict-word">(.*?)</p>', page)[1], page


def sample(rng, n, errors=None, factor=1.0, **more):
    sigma = rng.gamma(6, 0.25, n)
    z = rng.normal(size=n) if errors is None else errors(n)
    return ts.Cases(ts.Prediction(0 * sigma, (factor * sigma) ** 2), sigma * z, **more)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((0.5, 0.48, 0.52), "Too sure."),
        ((0.89, 0.87, 0.91), "True at 90 %, on average."),
        ((0.885, 0.88, 0.89), "Nearly true at 90 %, on average."),
        ((0.9, 0.82, 0.95), "No sign that it is off."),
        ((0.97, 0.96, 0.98), "Not sure enough."),
        ((0.88, 0.85, 0.895), "Too sure."),
        ((0.75, 0.0, 1.0), "Too few cases to tell."),
        ((0.9, None, None), "Not known."),
    ],
)
def test_verdicts(bounds, words):
    assert verdict.verdict(Estimate(*bounds), 0.9).replace("\xa0", " ") == words


def test_at_a_high_level_less_is_close():
    assert verdict.verdict(Estimate(0.975, 0.965, 0.99), 0.99) == "No sign that it is off."


@pytest.mark.parametrize(
    ("bounds", "factor", "words"),
    [
        ((1.0, 0.88, 1.0), (0.5, 0.46, 0.54), "Not sure enough."),
        ((0.8, 0.6, 0.95), (1.5, 1.2, 1.8), "Too sure."),
        ((0.9, 0.8, 0.96), (1.1, 0.9, 1.3), "No sign that it is off."),
        ((0.9, 0.88, 0.92), (1.02, 1.01, 1.03), "Nearly true at 90 %, on average."),
        ((0.8, 0.75, 0.85), (0.5, 0.46, 0.54), "Too sure."),  # the test cases themselves show it
    ],
)
def test_a_factor_that_is_not_1_overrides(bounds, factor, words):
    found = verdict.verdict(Estimate(*bounds), 0.9, Estimate(*factor))
    assert found.replace("\xa0", " ") == words


def test_few_test_cases_prove_nothing():
    rng = np.random.default_rng(0)
    words, page = page_words(sample(rng, 300, factor=2.0), sample(rng, 30, factor=2.0))
    assert words.startswith("Before: not sure enough. After: ")
    assert "rue at" not in words
    assert "times too large" in page


def test_what_holds_at_one_level_only_is_said():
    rng = np.random.default_rng(1)
    size = 1.645 / math.log(10)  # the 90 % interval of this Laplace law is that of the Normal law

    def errors(n):
        return size * rng.laplace(size=n)

    words, page = page_words(sample(rng, 500), sample(rng, 3000, errors), recalibrations=[])
    assert words == "True at 90 %, on average."
    box = re.search("A true sigma would seldom give this. (.*?)</p>", page)[1]
    for name in ("Coverage 50 %", "Coverage 99 %"):
        assert name in box
    assert "Coverage 90 %" not in box


def test_a_true_sigma_is_seldom_spoken_against():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        subject = subject_of(sample(rng, 400), fitted_on=sample(rng, 400), replicates=100)
        found += bool(verdict.against(subject, scores.table_of(subject)))
    assert found <= 3


def interval_of(cases, clusters):
    fitted = ts.recalibrate.sigma.fit(cases.prediction, cases.target, group=cases.group)
    found = verdict.factor_of(subject_of(make(), fitted_on=cases), verdict.clusters_of(cases))
    assert found.value == fitted.factor
    from scipy.stats import t

    error = fitted.standard_error / fitted.factor  # of log s
    return found, np.exp(t.interval(0.95, clusters - 1, loc=math.log(fitted.factor), scale=error))


def test_the_factor_has_the_interval_of_its_standard_error():
    found, expected = interval_of(make(seed=1), 300)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    page = report(make(seed=1), make(), replicates=20).page
    shown = f"[{found.low:.2f},\N{NO-BREAK SPACE}{found.high:.2f}]; sigma was"
    assert f"95\N{NO-BREAK SPACE}% confidence {shown}" in page
    assert "groups of the calibration cases" not in page


def test_few_groups_give_a_wide_interval_and_a_note():
    cases = make(seed=1, groups=("a", "b", "c"))
    found, expected = interval_of(cases, 3)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.low > 0
    assert "counts the 3 groups of the calibration cases" in report(cases, make(), replicates=20).page


@pytest.mark.parametrize(
    ("groups", "by", "said"),
    [(5, "auto", True), (5, "group", False), (40, "auto", False), (40, "case", True)],
)
def test_groups_that_intervals_do_not_count_are_said(groups, by, said):
    test = make(groups=tuple(f"p{k}" for k in range(groups)))
    page = report(make(seed=1), test, replicates=20, by=by).page
    assert (f"count the test cases, not their {groups} groups" in page) == said


def test_one_case_a_group_needs_no_word():
    plain = make()
    alone = ts.Cases(plain.prediction, plain.target, group=[f"p{k}" for k in range(len(plain))])
    assert (
        verdict.groups_not_counted(subject_of(alone)) == verdict.groups_not_counted(subject_of(plain)) == ""
    )


def test_groups_that_do_not_count_are_no_clusters():
    weight = np.ones(300)
    cases = make(seed=1, groups=("a", "b", "c"))
    weight[cases.group == "c"] = 0
    counted = ts.Cases(cases.prediction, cases.target, group=cases.group, weight=weight)
    assert (verdict.clusters_of(cases), verdict.clusters_of(counted)) == (3, 2)
    assert verdict.clusters_of(make(seed=1)) == 300


def test_one_group_has_no_interval_and_that_is_said():
    words, page = page_words(make(seed=1, groups=("a",)), make())
    assert "All calibration cases are of one group" in page
    assert "how sure that is cannot be told" in page
    assert words.startswith("Before: too sure.")


def test_a_factor_on_a_part_says_nothing_about_the_whole():
    subject = subject_of(make(), recalibrations=["sigma:part=aleatoric"])
    assert verdict.factor_before(subject, Estimate(2.0, 1.9, 2.1)) is None
    assert verdict.factor_before(subject_of(make()), Estimate(2.0, 1.9, 2.1)) is not None
