"""Applying a card to a file: the uncertainty is recalibrated, bounds are added, and nothing else changes."""

import csv
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import truesigma as ts
from truesigma.core.values import raw_spread
from truesigma.evaluation.apply import apply_file
from truesigma.evaluation.card import calibrate, read_card
from truesigma.files.disk import BadFile
from truesigma.files.fileset import open_fileset
from truesigma.files.parquet import read_parquet, write_parquet
from truesigma.files.store import read, read_value, write
from truesigma.files.tables import read_csv, write_csv


@pytest.fixture
def card():
    """Sigma scaling with factor 2."""
    fitted = calibrate(ts.Cases(ts.Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0]))
    assert fitted.recalibration.factor == 2.0
    return fitted


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_other_columns_stay_as_they_are(tmp_path, card):
    """Leading zeros, trailing zeros, dates, empty cells, commas, quotes: text that a parser would change."""
    text = 'id,when,location,scale,note,target,x\n007,2020-01-05,1.50,0.10,"a, ""b""",,1e5\n008,,2.0,0.2,,3.0,NA\n'
    (tmp_path / "in.csv").write_text(text)
    apply_file(card, tmp_path / "in.csv", tmp_path / "out.csv", levels=[0.9, 0.5])
    before, after = rows(tmp_path / "in.csv"), rows(tmp_path / "out.csv")
    assert list(after[0]) == [*before[0], "lower_90", "upper_90", "lower_50", "upper_50"]
    for old, new in zip(before, after):
        assert all(new[name] == old[name] for name in old if name != "scale")
        assert float(new["scale"]) == pytest.approx(2 * float(old["scale"]), rel=1e-15)
        half = 1.6448536269514722 * float(new["scale"])  # the 95 % quantile of the normal law
        assert float(new["lower_90"]) == pytest.approx(float(old["location"]) - half, rel=1e-12)
        assert float(new["upper_90"]) == pytest.approx(float(old["location"]) + half, rel=1e-12)


@pytest.mark.filterwarnings("ignore:.*does not say its unit")
@pytest.mark.parametrize("source", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("out", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("outputs", [(), (2,)])
def test_every_kind_of_file(tmp_path, card, source, out, outputs):
    rng = np.random.default_rng(0)
    location, a, e, target = rng.lognormal(size=(4, 6, *outputs))
    cases = ts.Cases(
        ts.Prediction(location, aleatoric=a, epistemic=e),
        target,
        group=list("aabbcc"),
        unit="mm",
        id=list("uvwxyz"),
    )
    write(cases, tmp_path / f"in{source}")
    made = apply_file(card, tmp_path / f"in{source}", tmp_path / f"out{out}", levels=[0.95])
    found = read(tmp_path / f"out{out}")
    assert np.array_equal(found.prediction.aleatoric, 4 * a)
    assert np.array_equal(found.prediction.epistemic, 4 * e)
    assert np.array_equal(raw_spread(found.prediction), e)  # the spread of the draws is never rescaled
    assert np.array_equal(found.target, target)
    assert found.unit == "mm"
    assert found.group.tolist() == list("aabbcc")
    names = ["lower_95"] if not outputs else ["lower_95_0", "lower_95_1"]
    if out == ".csv":
        bounds = np.array([[float(row[name]) for name in names] for row in rows(tmp_path / "out.csv")])
        assert np.array_equal(bounds.reshape(location.shape), made.interval(0.95).lower)
    if out == ".npz":
        assert np.array_equal(np.load(tmp_path / "out.npz")["lower_95"], made.interval(0.95).lower)


def test_draws_become_a_prediction(tmp_path, card):
    rng = np.random.default_rng(0)
    mean, variance = rng.lognormal(size=(2, 5, 4, 3)).astype(np.float32)
    np.savez(tmp_path / "in.npz", mean=mean, variance=variance, site=np.arange(4))
    apply_file(card, tmp_path / "in.npz", tmp_path / "out.npz")
    found = read_value(tmp_path / "out.npz")
    assert isinstance(found, ts.Prediction)
    expected = ts.decompose(ts.Draws(mean, variance))
    assert np.array_equal(found.aleatoric, 4 * expected.aleatoric)
    assert np.load(tmp_path / "out.npz")["site"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_a_scale_stays_a_scale(tmp_path, suffix):
    """Its square need not be a number that has its root: the name of what was given is kept all the same."""
    card = calibrate(ts.Cases(ts.Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [1.1, 1.3]))
    scale = np.array([0.1, 0.7, 1.3])
    source = {".csv": tmp_path / "in.csv", ".npz": tmp_path / "in.npz"}[suffix]
    if suffix == ".csv":
        source.write_text("location,scale\n0,0.1\n0,0.7\n0,1.3\n")
    else:
        np.savez(source, location=np.zeros(3), scale=scale)
    apply_file(card, source, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert sorted(out) == ["law", "location", "lower_90", "scale", "upper_90"]
        np.testing.assert_allclose(out["scale"], card.recalibration.factor * scale)


def test_masked_cases_have_no_bounds(tmp_path, card):
    (tmp_path / "in.csv").write_text("location,scale,mask\n1,2,true\n,,false\n")
    apply_file(card, tmp_path / "in.csv", tmp_path / "out.csv")
    assert rows(tmp_path / "out.csv")[1] == {
        "location": "", "scale": "", "mask": "false", "lower_90": "", "upper_90": "",
    }  # fmt: skip


def test_twice_is_refused(tmp_path, card):
    for kind in (".csv", ".npz"):
        write(ts.Prediction([1.0], aleatoric=[4.0]), tmp_path / f"in{kind}")
        apply_file(card, tmp_path / f"in{kind}", tmp_path / f"once{kind}")
        with pytest.raises(BadFile, match="already has 'lower_90': was a card applied to it before"):
            apply_file(card, tmp_path / f"once{kind}", tmp_path / f"twice{kind}")


def test_the_law_comes_from_the_card_and_is_kept(tmp_path):
    cases = ts.Cases(ts.Prediction([0.0, 0.0], aleatoric=[2.0, 2.0], law=ts.Laplace()), [2.0, 4.0])
    laplace = calibrate(cases)
    assert laplace.recalibration.factor == 3.0  # the mean of |y - mu| / b
    (tmp_path / "in.csv").write_text("location,scale\n1,0.5\n")
    apply_file(laplace, tmp_path / "in.csv", tmp_path / "out.csv")
    row = rows(tmp_path / "out.csv")[0]
    assert float(row["scale"]) == pytest.approx(1.5)
    assert float(row["upper_90"]) == pytest.approx(1 + 1.5 * np.log(10), rel=1e-12)  # q = -log(2 * .05)
    assert row["law"] == "laplace"
    assert read_value(tmp_path / "out.csv").law == ts.Laplace()
    with pytest.raises(BadFile, match=r"in\.csv: .* 'normal', .* for 'laplace'"):
        apply_file(laplace, tmp_path / "in.csv", tmp_path / "out.csv", law="normal")


class Observed:
    """A recalibration that changes the law, as isotonic and conformal ones do."""

    def __call__(self, prediction, *, group=None):
        law = ts.Empirical([-3.0, -1.0, 0.0, 1.0, 3.0])
        return ts.Prediction(
            prediction.location, aleatoric=prediction.aleatoric, epistemic=prediction.epistemic, law=law
        )

    def to_dict(self):
        return {"name": "observed"}


def test_a_law_that_a_csv_cannot_hold_is_beside_it(tmp_path, card):
    changed = type(card)(Observed(), card.law, card.recipe, card.data)
    (tmp_path / "in.csv").write_text("location,scale\n1,0.5\n")
    apply_file(changed, tmp_path / "in.csv", tmp_path / "out.csv", levels=[0.5])
    row = rows(tmp_path / "out.csv")[0]
    assert (row["law"], float(row["lower_50"]), float(row["upper_50"])) == ("out.law.json", 1 - 1.0, 1 + 1.0)
    assert read_value(tmp_path / "out.csv").interval(0.5).upper.tolist() == [2.0]
    write(read_value(tmp_path / "in.csv"), tmp_path / "in.parquet")
    apply_file(changed, tmp_path / "in.parquet", tmp_path / "out.parquet", levels=[0.5])
    assert read_value(tmp_path / "out.parquet").interval(0.5).upper.tolist() == [2.0]


def test_groups_reach_the_recalibration(tmp_path, card):
    seen = []

    class Grouped(Observed):
        def __call__(self, prediction, *, group=None):
            seen.extend(group)
            return prediction

    (tmp_path / "in.csv").write_text("location,scale,group\n1,0.5,a\n1,0.5,b\n")
    apply_file(
        type(card)(Grouped(), card.law, card.recipe, card.data), tmp_path / "in.csv", tmp_path / "out.csv"
    )
    assert seen == ["a", "b"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_another_unit_is_refused(tmp_path, ending):
    """Aux scaling knows variances of its own unit only: the same predictions in years would get a wrong sigma."""
    rng = np.random.default_rng(0)
    variance = rng.gamma(4, 1, 300)
    target = rng.normal(size=300) * variance**0.5
    months = ts.Cases(ts.Prediction(0 * target, aleatoric=variance), target, unit="months")
    fitted = calibrate(months, "aux")
    for unit, factor in (("years", 1 / 12), ("", 1.0), ("months", 1.0)):
        write(
            ts.Cases(ts.Prediction(0 * target, aleatoric=factor**2 * variance), factor * target, unit=unit),
            tmp_path / f"in{ending}",
        )
        if unit == "years":
            with pytest.raises(BadFile, match=r"in years, the card was fitted in months; expected the same"):
                apply_file(fitted, tmp_path / f"in{ending}", tmp_path / "out.csv")
            assert not (tmp_path / "out.csv").exists()
            continue
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made = apply_file(fitted, tmp_path / f"in{ending}", tmp_path / f"out{ending}")
        assert ["does not say its unit" in str(one.message) for one in seen] == [True] * (not unit)
        assert np.array_equal(made.variance, fitted(months.prediction).variance)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_a_card_of_another_network_is_refused(tmp_path, ending):
    """Its mark goes from the file of cases into the card, and from predictions into what is made of them."""
    rng = np.random.default_rng(0)
    cases = ts.Cases(ts.Prediction(np.zeros(9), aleatoric=np.ones(9)), rng.normal(size=9), checkpoint="0a1b")
    source, out = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    write(cases, source)
    fitted = calibrate(read(source))
    assert fitted.data["checkpoint"] == cases[2:5].checkpoint == "0a1b"
    apply_file(fitted, source, out)
    assert read(out).checkpoint == "0a1b"
    write(fitted, tmp_path / "card.json")
    write(replace(cases, checkpoint="2c3d"), source)
    with pytest.raises(BadFile, match=r"another network \(checkpoint 0a1b; here 2c3d\)"):
        apply_file(read_card(tmp_path / "card.json"), source, tmp_path / "never.csv")
    write(replace(cases, checkpoint=""), source)  # a column was cut: nobody can tell whose these are
    with pytest.raises(BadFile, match=r"do not say .* --checkpoint 0a1b"):
        apply_file(fitted, source, tmp_path / "never.csv")
    with pytest.raises(BadFile, match=r"of another network \(checkpoint 0a1b; here 2c3d\)"):
        apply_file(fitted, source, tmp_path / "never.csv", checkpoint="2c3d")
    assert not (tmp_path / "never.csv").exists()
    apply_file(fitted, source, out, checkpoint="0a1b")
    write(replace(cases, checkpoint="2c3d"), source)  # what a file says is not overruled
    with pytest.raises(BadFile, match=r"of another network"):
        apply_file(fitted, source, out, checkpoint="0a1b")


def test_folds_in_one_table_are_of_no_single_network(tmp_path):
    (tmp_path / "a.csv").write_text("target,location,scale,checkpoint\n1,2,3,a\n4,5,6,b\n")
    assert "checkpoint" not in calibrate(read(tmp_path / "a.csv")).data


@pytest.mark.parametrize("own", [np.array(["a", "b"]), np.array([3, 4])], ids=["text", "numbers"])
@pytest.mark.parametrize("start", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("end", [".csv", ".parquet", ".npz"])
def test_a_checkpoint_for_each_case_is_a_column_like_others(tmp_path, card, own, start, end):
    """As folds in one file have it: whose network it was is not known of all, so nothing is refused or lost."""
    table = pa.table({"location": [1.0, 2.0], "scale": [0.1, 0.2], "target": [1.0, 2.5], "checkpoint": own})
    source, out = tmp_path / f"in{start}", tmp_path / f"out{end}"
    if start == ".npz":
        np.savez(source, **{name: table[name].to_numpy() for name in table.column_names[:-1]}, checkpoint=own)
    else:
        write_csv(table, source) if start == ".csv" else write_parquet(table, source)
    assert read(source).checkpoint == open_fileset([source]).checkpoint == ""
    apply_file(card, source, out)
    kept = np.load(out)["checkpoint"] if end == ".npz" else frame(out)["checkpoint"]
    assert [str(one) for one in kept] == [str(one) for one in own]


def frame(path):
    return (read_csv(path) if path.suffix == ".csv" else read_parquet(path)).to_pydict()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_cards_columns_hold_where_roles_are_absent(tmp_path, ending):
    path, out = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    frame = pd.DataFrame({"truth": [1.0, 2.0, 4.0], "hat": [1.5, 2.0, 3.0], "noise": [0.5, 0.2, 1.0]})
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    chosen = {"target": "truth", "prediction": "hat", "sd": "noise"}
    cases = ts.read(path, columns=chosen)
    card = ts.calibrate(
        cases, data={"columns": {"target": ["truth"], "location": ["hat"], "scale": ["noise"]}}
    )
    made = apply_file(card, path, out)
    np.testing.assert_allclose(made.scale, card(cases).scale)
    np.testing.assert_allclose(ts.read(out, columns=chosen).prediction.scale, made.scale)
    frame.rename(columns={"hat": "location"}).to_csv(tmp_path / "c.csv", index=False)
    np.testing.assert_allclose(apply_file(card, tmp_path / "c.csv", out).scale, made.scale)
