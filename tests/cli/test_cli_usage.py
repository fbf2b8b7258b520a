"""Bad usage and warnings on the command line: exit codes, one paragraph on stderr, nothing left behind."""

from dataclasses import replace

import numpy as np
import pytest

import truesigma as ts
from truesigma import cli
from truesigma.files.store import write

TYPICAL = ["evaluate", "--calibration", "cal.csv", "--test", "test.csv"]
QUICK = ["--recalibrate", "none,sigma"]


FIT, APPLY = "calibrate --calibration cal.csv", "apply card.json test.csv -o out.csv"
SCORE = " ".join(TYPICAL)
BAD = {
    "no such file": "evaluate --calibration cal.csv --test none.csv",
    "no such command": "evalute",
    "no options": "evaluate",
    "no such recalibration": f"{SCORE} --recalibrate magic",
    "option of nothing": f"{SCORE} --recalibrate part=total",
    "nothing": f"{SCORE} --recalibrate ,",
    "no such recipe": f"{SCORE} --recipe magic",
    "a column without a role": f"{SCORE} --column site",
    "two codes": f"{SCORE} --missing -9 --missing -99",
    "no folder for the result": f"{SCORE} --json none/result.json",
    "result over the data": f"{SCORE} --json test.csv",
    "two recalibrations": f"{FIT} --recalibrate none,sigma -o c.json",
    "card that is no json": f"{FIT} -o card.csv",
    "referral without numbers": f"{FIT} --refer tolerance -o c.json",
    "not a card": "apply test.csv test.csv -o out.csv",
    "percent": f"{APPLY} --level 90",
    "word for a level": f"{APPLY} --level high",
    "result over the card": f"{APPLY} --json ./card.json",
    "predictions over themselves": "apply card.json test.csv -o ./test.csv",
    "several tables": "apply card.json test.csv cal.csv -o out.csv",
    "unknown ending": "apply card.json test.csv -o out.xlsx",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage(folder, run, name):
    run("--quiet", "calibrate", "--calibration", "cal.csv", "-o", "card.json")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code, out, err = run(*BAD[name].split())
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert "rror" in err
    if err.startswith("error: "):
        assert err.count("\n") == 1  # one paragraph
    assert {path: path.read_bytes() for path in folder.iterdir()} == before  # nothing is left half done


def test_debug_shows_the_traceback_and_faults_of_ours_are_1(folder, run, monkeypatch):
    code, _, err = run(*TYPICAL[:3], "--test", "none.csv", "--debug")
    assert (code, "Traceback" in err) == (2, True)

    def broken(*_, **__):
        raise RuntimeError("cog slipped")

    monkeypatch.setattr("truesigma.evaluation.sets.read", broken)
    code, out, err = run(*TYPICAL)
    assert (code, out) == (1, "")
    assert err == (
        "error: RuntimeError: cog slipped. This is a bug in truesigma: please report it, with what --debug shows.\n"
    )


def test_a_missing_extra_is_named(folder, run, monkeypatch):
    def absent(*_, **__):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("truesigma.evaluation.sets.read", absent)
    code, _, err = run(*TYPICAL)
    assert (code, err) == (2, "error: this needs torch: pip install 'truesigma[train]'.\n")


def test_warnings_are_short_and_quiet_leaves_them_out(folder, run):
    same = ["evaluate", "--calibration", "cal.csv", "--test", "cal.csv", *QUICK]
    code, _, err = run(*same)
    assert (code, err) == (
        0,
        "warning: cal.csv is fitted on and scored: these scores are too good. From one file alone, "
        "`truesigma compare` scores each case by a fit on the others.\n",
    )
    assert run(*same, "--quiet")[2] == ""
    write(ts.read("cal.csv")[5:50], "some.npz")
    _, _, err = run("evaluate", "--calibration", "cal.csv", "--test", "some.npz", *QUICK)
    assert err.startswith("warning: 45 ids are in both cal.csv and some.npz, such as c10")
    named = ts.read("cal.csv")
    write(ts.Cases(named.prediction, named.target, unit="mm")[5:50], "some.npz")
    _, _, err = run("evaluate", "--calibration", "cal.csv", "--test", "some.npz", *QUICK)
    assert err.startswith(
        "warning: 45 of 45 cases in some.npz have the prediction and the target of one in cal.csv"
    )


def test_the_same_warning_is_shown_once(capsys):
    """Several stages of a run apply the same recalibration to the same cases."""
    show = cli._short_warnings(quiet=False)
    for words in ("aux doubts\n2 cases", "aux doubts 2 cases", "another"):
        show(UserWarning(words), UserWarning, "", 1)
    assert capsys.readouterr().err == "warning: aux doubts 2 cases\nwarning: another\n"


def test_a_factor_far_from_one_is_doubted(folder, run):
    """Targets in another unit, rows in another order: the fit succeeds, and is worth nothing."""
    cases = ts.read("cal.csv")
    write(ts.Cases(cases.prediction, 100 * np.asarray(cases.target)), "far.csv")
    code, out, _ = run("evaluate", "--calibration", "far.csv", "--test", "test.csv", *QUICK)
    assert (code, out.count("is far from 1. Are targets and predictions in one unit")) == (0, 1)
    code, _, err = run("calibrate", "--calibration", "far.csv", "-o", "far.json")
    assert code == 0
    assert "warning: a factor of " in err
    assert "far from 1" not in "".join(run(*TYPICAL, *QUICK)[1:])


def test_a_unit_in_one_file_alone_is_said(folder, run):
    """Aux scaling fitted in months says something else about years, and nobody would know."""
    named = ts.read("test.csv")
    write(ts.Cases(named.prediction, named.target), "bare.csv")
    said = "cal.csv is in mm, and bare.csv does not say its unit; it is taken to be the same"
    code, _, err = run("evaluate", "--calibration", "cal.csv", "--test", "bare.csv", *QUICK)
    assert (code, said in err) == (0, True), err
    _, _, err = run("evaluate", "--calibration", "bare.csv", "--test", "cal.csv", *QUICK)
    assert said in err
    assert run("calibrate", "--calibration", "cal.csv", "-o", "card.json")[0] == 0
    code, _, err = run("apply", "card.json", "bare.csv", "-o", "out.csv")
    assert code == 0
    assert "the card, fitted on cal.csv, is in mm, and bare.csv does not say its unit" in err


def test_predictions_of_two_networks_are_said(folder, run):
    for name, mark in (("cal", "0a1b"), ("test", "2c3d")):
        write(replace(ts.read(f"{name}.csv"), checkpoint=mark), f"{name}.parquet")
    code, _, err = run("evaluate", "--calibration", "cal.parquet", "--test", "test.parquet", *QUICK)
    assert code == 0
    assert "cal.parquet and test.parquet are predictions of two networks (checkpoints 0a1b and 2c3d)" in err
