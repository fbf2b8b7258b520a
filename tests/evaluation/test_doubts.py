"""What looks like a mistake in the data is said, with what to do about it."""

import json
import warnings

import numpy as np
import pytest

import truesigma as ts
from truesigma.cli import main
from truesigma.evaluation.doubts import doubts
from truesigma.evaluation.leaks import warn_leaks
from truesigma.evaluation.sets import open_set


def made(seed, size=300, sigma=1.0, **names):
    rng = np.random.default_rng(seed)
    y = 50 + 10 * rng.normal(size=size)
    scale = sigma * rng.uniform(0.5, 2.0, size=size)
    return ts.Cases(ts.Prediction(y + scale * rng.normal(size=size), aleatoric=scale**2), y, **names)


def test_a_variance_given_as_scale_is_doubted():
    """Medians that differ by more than three times: one file holds variances, or another unit."""
    cases, others = made(0, sigma=4.0), made(1, sigma=4.0)
    assert doubts(cases, others) == []
    squared = ts.Cases(
        ts.Prediction(others.prediction.location, aleatoric=others.prediction.total**2), others.target
    )
    root, said = doubts(cases, squared)
    assert root == "the test errors are as large as the square root of the scale: is it a variance?"
    assert said.startswith("the median scale of the calibration cases is")
    assert "or is one a variance?" in said


def test_predictions_in_another_unit_are_doubted():
    """Twelve months a year; and no doubt about a network that has learnt nothing, or whose sigma is far off."""
    test = made(1)
    years = ts.Cases(test.prediction, test.target / 12)
    assert (
        doubts(made(0), years)[0]
        == "the test predictions are about 12 times the targets: are both in one unit?"
    )
    rng = np.random.default_rng(2)
    noise = 1 + 0.5 * rng.normal(size=300)
    unlearnt = ts.Cases(ts.Prediction(noise, aleatoric=0 * noise + 2500), test.target)
    blind = ts.Cases(ts.Prediction(test.target + rng.normal(size=300), scale=np.exp(2 + noise)), test.target)
    for cases in (unlearnt, blind, made(3, sigma=20.0), made(4, sigma=0.1)):
        assert not [text for text in doubts(cases) if "one unit" in text or "variance" in text]


def test_codes_are_left_out_when_asked(tmp_path, monkeypatch, capsys):
    """With --missing the numbers are those of the cases without the code; without, the code is named."""
    monkeypatch.chdir(tmp_path)
    cases, test = made(0), made(1)
    target = test.target.copy()
    target[:16] = -999
    ts.write(cases, "cal.csv")
    ts.write(ts.Cases(test.prediction, target), "coded.csv")
    ts.write(test[16:], "clean.csv")

    def run(*words):
        asked = ("--calibration", "cal.csv", "--recalibrate", "sigma", "--json", "out.json")
        with pytest.raises(SystemExit) as stopped:
            main(["evaluate", *asked, *words])
        assert not stopped.value.code
        return json.loads((tmp_path / "out.json").read_text()), capsys.readouterr().err

    coded, said = run("--test", "coded.csv")
    assert "16 of 300 test targets are -999, far outside the rest" in said
    assert "--missing -999" in said
    left_out, said = run("--test", "coded.csv", "--missing", "-999")
    assert "far outside" not in said
    assert "note: 284 of 300 cases in coded.csv have a target that counts." in said
    clean, _ = run("--test", "clean.csv")
    assert [row["value"] for row in left_out["rows"]] == pytest.approx(
        [row["value"] for row in clean["rows"]]
    )
    assert coded["rows"][0]["value"] != clean["rows"][0]["value"]


def test_a_card_says_for_how_many_cases_it_extrapolates(tmp_path):
    """Fitted in months, applied to years: sigmas a twelfth as large were never seen."""
    from truesigma.evaluation.apply import apply_file

    months = made(0, sigma=6.0)
    card = ts.calibrate(months, "aux")
    years = ts.Prediction(months.prediction.location / 12, aleatoric=months.prediction.total / 144)
    with pytest.warns(UserWarning, match=r"300 of 300 lie (so far )?beyond"):
        card(years)
    ts.write(years, tmp_path / "years.csv")
    with pytest.warns(UserWarning, match=r"aux scaling was fitted on sigmas of .* 300 of 300 lie"):
        apply_file(card, tmp_path / "years.csv", tmp_path / "out.csv")


def test_a_few_gross_errors_are_named_before_a_factor_is_fitted_to_them():
    cases, others = made(0), made(1)
    target = cases.target.copy()
    target[[7, 11]] += [2000, 1000]
    wrong = ts.Cases(cases.prediction, target)
    (said,) = doubts(wrong, others)
    z = np.abs(target - cases.prediction.location) / np.sqrt(cases.prediction.total)
    assert said.startswith("2 of 300 calibration cases make ")
    assert f" {100 * (z[[7, 11]] ** 2).sum() / (z**2).sum():.0f} %" in said or "almost all" in said
    assert all(f"case {k}, target {target[k]:.4g}, " in said for k in (7, 11))
    assert "sigma:robust=true" in said
    named = ts.Cases(cases.prediction, target, id=[f"scan{k}" for k in range(300)])
    assert "scan7, target" in doubts(named)[0]


@pytest.mark.parametrize("size", [20, 100, 1000])
def test_heavy_tails_are_not_gross_errors(size):
    named = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        z = rng.standard_t(3, size)
        cases = ts.Cases(ts.Prediction(0 * z, aleatoric=1 + 0 * z), z)
        named += any("(error / sigma)^2" in text for text in doubts(cases))
    assert named <= 5


def test_few_patients_behind_a_standard_error_are_said_on_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, groups in (("two.csv", 2), ("many.csv", 30)):
        ts.write(made(0, patient=[f"p{k % groups}" for k in range(300)]), name)
        asked = f"--calibration {name} --test {name} --recalibrate none,sigma --metrics rmse"
        with pytest.raises(SystemExit):
            main(["evaluate", *asked.split()])
        said = (
            "note: the factor's error counts the 2 patients of the calibration cases"
            in capsys.readouterr().err
        )
        assert said == (groups == 2)


def test_names_that_differ_by_spaces_or_capitals():
    y = np.linspace(-1, 1, 40)
    cases = ts.Cases(ts.Prediction(0 * y, scale=0 * y + 1), y, group=["Nord", " nord", "Sued", "Ost"] * 10)
    assert any("' nord' and 'Nord' differ" in text for text in doubts(cases, cases[::3]))
    assert not any("differ by spaces" in text for text in doubts(cases[2::2], cases[2::2]))


def test_a_few_groups_that_the_sets_do_not_share_may_be_patients():
    one, other = (np.repeat([f"{name}{k}" for k in range(12)], 25) for name in "ab")
    (said,) = doubts(made(0, group=one), made(1, group=other))
    assert said.startswith("the 12 groups of the test cases are none of the calibration cases'")
    assert "--column patient=NAME" in said
    assert doubts(made(0, group=one), made(1, group=one)) == []  # sites
    sites = np.repeat(["Basel", "Oslo", "Rome"], 100)
    assert doubts(made(0, group=one), made(1, group=sites)) == []
    many = np.repeat([f"c{k}" for k in range(60)], 5)  # counted as patients
    assert doubts(made(0, group=one), made(1, group=many)) == []


def test_a_few_cases_that_carry_the_weight_of_all_are_said_and_are_no_gross_errors():
    plain = made(0)
    weight = np.where(np.arange(300) < 12, 1.0, 1e-6)
    (said,) = doubts(ts.Cases(plain.prediction, plain.target, weight=weight), made(1))
    assert said.startswith("the weights of the 300 calibration cases make them worth 12 of equal weight")
    even = ts.Cases(plain.prediction, plain.target, weight=np.linspace(1, 3, 300))
    assert doubts(even, made(1)) == []
    rows = ts.evaluate(
        made(1), ts.Cases(plain.prediction, plain.target, weight=weight), metrics=["rmse"]
    ).questions
    unclear = [row["words"] for row in rows if row["question"] in ("knowing", "shape")]
    assert set(unclear) == {"cannot be told: too few cases (12 of equal weight, of 300)"}


def leaks(calibration, test):
    """What is said about cases that are in two files."""
    with warnings.catch_warnings(record=True) as said:
        warn_leaks(open_set(calibration, "cal.csv"), [open_set(test, "test.csv")])
    return [str(one.message) for one in said]


@pytest.mark.parametrize("whole", [False, True])
def test_cases_that_are_in_each_file_several_times_are_no_chance(whole):
    """As where rare cases were repeated; targets may be whole numbers, as months are."""
    known, new = made(0), made(1)
    if whole:
        known, new = (ts.Cases(one.prediction, np.round(one.target)) for one in (known, new))
    rows = np.repeat(np.arange(100), 2)
    (said,) = leaks(known[rows], known[rows[:120]])
    assert said.startswith(
        "120 of 120 cases in test.csv have the prediction and the target of one in cal.csv"
    )
    assert leaks(known[rows], new[rows]) == []
    wide = ts.Cases(ts.Prediction(np.ones((40, 2)), aleatoric=np.ones((40, 2))), np.zeros((40, 2)))
    assert leaks(known[rows], wide) == []  # refused elsewhere


def coarse(kind, seed, size=400):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 40, size).astype(float)
    location = {
        "whole": np.round(y + rng.normal(size=size)),
        "constant": np.full(size, 19.5),
        "perfect": y,
        "leaves": np.sqrt(2 + y // 4),  # of a tree: few, of many digits
        "a few": np.round(y / 40) * np.pi,
    }[kind]
    return ts.Cases(ts.Prediction(location, aleatoric=np.full(size, 2.0)), y)


@pytest.mark.parametrize("kind", ["whole", "constant", "perfect", "leaves", "a few"])
def test_cases_of_few_values_are_alike_by_chance(kind):
    assert [leaks(coarse(kind, 2 * seed), coarse(kind, 2 * seed + 1)) for seed in range(20)] == 20 * [[]]
