"""What the first screen says: the answers to the five questions, and nothing that they do not bear out."""

import html
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from report_samples import make, subject_of

import truesigma as ts
from truesigma.page import report
from truesigma.page.sections import headline


def test_infinite_intervals_are_said():
    for cases, said in ((5, True), (50, False)):
        page = report(make(seed=1)[:cases], make(), recalibrations=["conformal"], replicates=20).page
        assert ("intervals are infinite after conformal recalibration" in page) == said


def words_of(*sets, **more):
    """All that the page's first screen says, and its first sentence."""
    made = report(*sets, replicates=30, **more)
    shown = re.search(r'<section id="summary">(.*?)</section>', made.page, re.DOTALL)[1]
    return html.unescape(re.sub(r"<[^>]+>", " ", shown)).replace("\xa0", " "), made


def test_the_first_screen_holds_the_rows_of_the_questions():
    words, made = words_of(make(seed=1), make())
    for row in made.questions:
        if row["recalibration"] == "sigma":
            assert row["words"] in words
    found = ts.evaluate(make(seed=1), make(), recalibrations=["none", "sigma"], metrics=["rmse"])
    assert list(found.questions) == list(made.questions)
    assert made.headline.startswith("Sigma is 1.73 times too small; after sigma scaling")
    assert made.headline.split(". ")[0] in words


def test_referral_is_counted_and_may_gain_nothing():
    rng = np.random.default_rng(0)
    sets = []
    for n in (300, 800):
        sigma = np.round(np.exp(0.5 * rng.normal(size=n)), 1)
        sets.append(
            ts.Cases(ts.Prediction(0 * sigma, aleatoric=sigma**2), rng.normal(size=n) / sigma, unit="mm")
        )
    made = words_of(*sets)[1]
    table, words = made.tables["rejection"], made.page.replace("\xa0", " ")
    referred = table["cases"][10]
    assert f"Refer {referred} cases ({100 * table['referred'][10]:.1f} %)" in words
    assert table["rmse"][10] > table["rmse"][0]
    assert "so nothing is gained" in words


@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
@pytest.mark.parametrize("name", ["sigma", "isotonic", "conformal"])
def test_the_threshold_is_for_the_scale_that_apply_writes(name, law, tmp_path):
    test = make(cases=800, law=law)
    made = report(make(seed=1, law=law), test, recalibrations=[name], replicates=20)
    card = ts.calibrate(make(seed=1, law=law), name)
    ts.write(card, tmp_path / "card.json")
    scale = ts.read_card(tmp_path / "card.json")(test).scale
    table = made.tables["rejection"]
    assert (scale > table["sigma_threshold"][10]).sum() == table["cases"][10] == 80


def interval_of(cases, clusters):
    fitted = ts.recalibrate.sigma.fit(cases)
    found = headline.factor_of(subject_of(make(), fitted_on=cases), headline.clusters_of(cases))
    assert found.value == fitted.factor
    from scipy.stats import t

    error = fitted.standard_error / fitted.factor  # of log s
    return found, np.exp(t.interval(0.95, clusters - 1, loc=math.log(fitted.factor), scale=error))


def test_the_factor_has_the_interval_of_its_standard_error():
    found, expected = interval_of(make(seed=1), 300)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    words, made = words_of(make(seed=1), make())
    assert f"after ×{found.value:.2f}:" in words
    assert f"of the calibration cases [{found.low:.2f}, {found.high:.2f}]" in made.page
    assert "groups of the calibration cases" not in words


def patients_of(cases):
    return replace(cases, patient=cases.group, group=None)


def test_few_patients_give_a_wide_interval_and_a_note():
    cases = patients_of(make(seed=1, groups=("a", "b", "c")))
    found, expected = interval_of(cases, 3)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.low > 0
    assert "counts the 3 patients of the calibration cases" in words_of(cases, make())[0]


@pytest.mark.parametrize(
    ("groups", "by", "said"),
    [(5, "auto", True), (5, "group", False), (40, "auto", False), (40, "case", True)],
)
def test_groups_that_intervals_do_not_count_are_said(groups, by, said):
    test = make(groups=tuple(f"p{k}" for k in range(groups)))
    words, _ = words_of(make(seed=1), test, by=by)
    assert (f"count the test cases, not their {groups} groups" in words) == said
    assert (f"of {groups} groups, whose cases are taken to err together" in words) != said


def test_one_patient_has_no_interval_and_that_is_said():
    words, _ = words_of(patients_of(make(seed=1, groups=("a",))), make())
    assert "All calibration cases are of one patient" in words
    assert "how sure that is cannot be told" in words


def test_outputs_that_are_off_are_named_with_a_link():
    rng = np.random.default_rng(0)
    sets = []
    for n in (300, 400):
        mu = rng.normal(size=(n, 6)) * 4
        sets.append(
            ts.Cases(
                ts.Prediction(mu, aleatoric=0 * mu + 1), mu + rng.normal(size=(n, 6)) * [1, 1, 1.3, 1, 1, 1]
            )
        )
    words, made = words_of(*sets)
    assert "<h2>By output</h2>" in made.page
    assert "output 2 (too sure)" in words
    assert '<a href="#breakdown">' in made.page


def test_the_title_names_target_unit_network_and_file():
    test = make()
    test = ts.Cases(test.prediction, test.target, unit="mm", checkpoint="0123456789abcdef")
    files = {"test": {"file": "test.npz", "columns": {"target": ["length"]}}}
    page = report(make(seed=1), test, replicates=20, files=files).page
    assert "<title>truesigma: length in mm · network 0123456789ab · test.npz</title>" in page
    page = report(make(seed=1), test, replicates=20, title="femur length, ResNet-101").page
    assert "<title>truesigma: femur length, ResNet-101</title>" in page
    bare = ts.Cases(test.prediction, test.target)
    assert (
        "<title>truesigma: target, no unit given</title>"
        in report(bare[:100], bare[100:], replicates=20).page
    )


def test_a_factor_of_few_cases_that_made_it_worse_is_not_called_right():
    few = ts.Cases(ts.Prediction([1.0, 2.0], aleatoric=[16.0, 16.0]), [1.1, 10.0])
    rng = np.random.default_rng(2)
    many = ts.Cases(ts.Prediction(np.zeros(40), aleatoric=np.full(40, 16.0)), rng.normal(size=40))
    found = ts.evaluate(few, many, recalibrations=["none", "sigma"], metrics=["rmse"])
    size = [row for row in found.questions if row["question"] == "size"]
    assert [row["verdict"] for row in size] == ["off", "unclear"]
    assert size[1]["estimate"] < size[0]["estimate"] < 1
    assert (
        "after sigma scaling whether it is the right size cannot be told from 2 calibration cases."
        in report(few, many, replicates=20).headline
    )


def test_a_group_that_stays_off_is_told_what_to_do():
    """As a sentence with the option to type; a group without calibration cases has no factor that can be fitted."""
    sites = ("Basel", "Lund", "Oslo", "Porto")
    known, test = make(cases=1200, seed=1, groups=sites), make(cases=1200, groups=sites)
    advice = report(known, test, replicates=20).advice
    assert advice.endswith("add --recalibrate sigma_by_group.")
    others = known[known.group != "Porto"]
    advice = report(others, test, replicates=20).advice
    assert advice.startswith("No calibration case is of Porto")
    assert "sigma_by_group" not in advice
    assert report(make(seed=1), make(), replicates=20).advice == ""
    years = ts.Cases(test.prediction, test.target / 12, group=test.group)
    assert (
        report(known, years, replicates=20).advice == ""
    )  # a mistake in the units is nothing to recalibrate
