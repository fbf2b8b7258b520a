"""truesigma compare: the table, the JSON, the card of the choice."""

import json
from pathlib import Path

import pytest

import truesigma as ts
from truesigma.evaluation.card import read_card

QUICK = ["compare", "--calibration", "cal.csv", "--recalibrate", "none,sigma"]


def test_table_json_and_card(folder, run):
    code, out, err = run(*QUICK, "-o", "card.json", "--json", "found.json")
    assert (code, err) == (0, "sigma, fitted on all cases, written to card.json\n")
    assert (
        out.splitlines()[0]
        == "recipe exact: 300 cases, each scored by a fit on the others, 10 folds of 300 cases"
    )
    assert out.splitlines()[-2] == "choice: sigma, the best"
    found = json.loads(Path("found.json").read_text())
    assert found["choice"] == "sigma"
    assert found["data"]["file"] == "cal.csv"
    card, cases = read_card("card.json"), ts.read("cal.csv")
    fitted = card.recalibration
    last = f"sigma, fitted on all cases: factor {fitted.factor:.6g} +- {fitted.standard_error:.2g}"
    assert out.splitlines()[-1] == last
    assert card.recalibration == ts.recalibrate.sigma.fit(cases.prediction, cases.target)
    assert card.data["sha256"] == found["data"]["sha256"]
    assert card.data["chosen"] == {"among": ["none", "sigma"], "metric": "crps", "folds": 10, "seed": 0}
    assert run("apply", "card.json", "test.csv", "-o", "new.csv")[0] == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--metric", "coverage"], "coverage is not a proper score"),
        (["--folds", "400"], "400 folds need 400 cases or more, 300 given"),
        (["-o", "card.txt"], "should end in .json"),
        (["-o", "none/card.json"], "does not exist"),
        (["--calibration", "missing.csv"], "--calibration is given more than once"),
    ],
)
def test_bad_usage_costs_nothing(folder, run, more, message):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code, out, err = run(*QUICK, *more)
    assert (code, out) == (2, "")
    assert message in err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
