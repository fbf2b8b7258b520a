"""One road for cases: in memory or in files, at once or in pieces, the same options give the same numbers and words."""

import warnings

import numpy as np
import pytest
from file_sets import QUICK, assert_rows, make, write_parts

import truesigma as ts

GROUP = np.array(["left", "right", "right"] * 50)


def sets(folder):
    """Calibration and test cases, and where each is as two files."""
    cases = [make(seed, 150, group=GROUP, weight=True) for seed in (0, 1)]
    return cases, [str(write_parts(c, folder, name, 2)) for c, name in zip(cases, ("cal", "test"))]


@pytest.mark.parametrize("options", [{}, {"by_group": True}, {"recipe": "paper"}])
def test_cases_in_memory_and_in_files_have_the_same_scores(options, tmp_path):
    cases, paths = sets(tmp_path)
    expected = ts.evaluate(*cases, recalibrations=QUICK, **options)
    for engine in (None, "local"):
        found = ts.evaluate(*paths, recalibrations=QUICK, engine=engine, **options)
        assert_rows(found, expected)
        assert found.cases == expected.cases
        assert (
            found.groups.keys()
            == expected.groups.keys()
            == ({"left", "right"} if "by_group" in options else set())
        )
        for name, one in found.groups.items():
            assert_rows(one, expected.groups[name])
            assert one.cases == expected.groups[name].cases


@pytest.mark.parametrize("engine", [None, "local"])
def test_what_cannot_be_fitted_says_why_and_costs_the_others_nothing(engine, tmp_path):
    cases = [make(seed, 100) for seed in (0, 1)]
    paths = [str(write_parts(c, tmp_path, name, 2)) for c, name in zip(cases, ("cal", "test"))]
    names = ["sigma", "sigma_by_group"]
    found, expected = (ts.evaluate(*s, recalibrations=names, engine=engine) for s in (paths, cases))
    assert_rows(found, expected)
    assert [row["reason"] for row in found.rows] == [row["reason"] for row in expected.rows]
    with pytest.raises(ValueError, match="no group"):
        ts.evaluate(*paths, recalibrations=["none", "sigma_by_group"], engine=engine)


def test_a_list_is_pooled_and_a_list_of_tests_is_repeats(tmp_path):
    first, second, third = (make(seed, 60) for seed in (0, 1, 2))
    path = tmp_path / "second.npz"
    ts.write(second, path)
    both = ts.evaluate([first, path], third, recalibrations=["sigma"], metrics=["rmse"])
    assert both.cases == {"calibration": 120, "test": 60, "repeats": 1}
    card = ts.calibrate([first, str(path)])
    assert card.recalibration.factor == both.recalibrations["sigma"].factor
    assert card.data["cases"] == 120
    alone = [
        ts.evaluate(first, one, recalibrations=["none"], metrics=["rmse"]).rows[0] for one in (second, third)
    ]
    repeats = ts.evaluate(first, [path, third], recalibrations=["none"], metrics=["rmse"]).rows[0]
    assert repeats["value"] == pytest.approx(np.mean([row["value"] for row in alone]), rel=1e-12)
    assert repeats["sd"] == pytest.approx(np.std([row["value"] for row in alone], ddof=1), rel=1e-12)
    pooled = ts.evaluate(first, [[path, third]], recalibrations=["none"], metrics=["mse"])
    assert pooled.cases == {"calibration": 60, "test": 120, "repeats": 1}
    error = np.concatenate([(c.prediction.location - c.target) ** 2 for c in (second, third)])
    assert pooled.rows[0]["value"] == pytest.approx(error.mean(), rel=1e-12)
    assert ts.compare([first, path], recalibrations=["none", "sigma"]).plan["cases"] == 120


def test_sets_that_do_not_go_together_are_not_pooled():
    mm = make(0, 20)
    cm = ts.Cases(mm.prediction, mm.target, unit="cm")
    with pytest.raises(ValueError, match="unit"):
        ts.calibrate([mm, cm])
    with pytest.raises(ValueError, match="empty"):
        ts.calibrate([])
    with pytest.raises(ValueError, match="no group"):
        ts.evaluate(mm, mm, by_group=True)


def said(*sets, **options):
    """What a user is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ts.evaluate(*sets, recalibrations=["none"], metrics=["rmse"], **options)
    assert {one.filename for one in caught} <= {__file__}
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("engine", [None, "local"])
def test_a_file_that_is_fitted_on_and_scored_is_said(engine, tmp_path):
    ts.write(make(0, 40), tmp_path / "a.npz")
    ts.write(make(1, 40), tmp_path / "b.npz")
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    assert said(a, b, engine=engine) == []
    (words,) = said(a, [[a, b]], engine=engine)
    assert words.startswith("a.npz is fitted on and scored")
    (words,) = said(a, [b, b], engine=engine)
    assert "deviation" in words


def test_leaks_are_said_in_memory():
    first, second = make(0, 300), make(1, 300)
    assert said(first, second) == []
    assert ["again" in words for words in said(first, first[:])] == [True]
    (words,) = said(first, first[100:])
    assert words.startswith("200 of 200 cases in test set 1 have the prediction and the target of one in")
    assert said(first, [[first[:150], second[:150]]])[0].startswith("150 of 300 cases")
    names = np.array([f"p{k}" for k in range(600)])
    one, other = (
        ts.Cases(c.prediction, c.target, unit=c.unit, patient=names[k : k + 300])
        for k, c in ((0, first), (290, second))
    )
    (words,) = said(one, other)
    assert words.startswith("10 patients are in both the calibration set and test set 1, such as p290.")
    one, other = (ts.Cases(c.prediction, c.target, unit=c.unit, id=names[:300]) for c in (first, second))
    assert "300 ids are in both" in said(one, other)[0]
