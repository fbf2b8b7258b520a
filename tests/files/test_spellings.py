"""Columns of quantiles and samples as people call them: each spelling is the law that is meant, in every file."""

import numpy as np
import pandas as pd
import pytest

import truesigma as ts
from truesigma.evaluation.apply import apply_file
from truesigma.files.disk import BadFile
from truesigma.files.roles import taken_columns

RNG = np.random.default_rng(0)
TARGET = RNG.normal(size=30)
LOW, MIDDLE, HIGH = TARGET - 1.5, TARGET + 0.1 * RNG.normal(size=30), TARGET + 2.0
SAMPLES = RNG.normal(size=(12, 30))


def every_way(frame, folder, **options):
    """What a frame gives, and what the same table gives as a file of each kind."""
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_parquet(folder / "a.parquet")
    np.savez(folder / "a.npz", **{str(name): column.to_numpy() for name, column in frame.items()})
    files = [ts.read(folder / f"a.{ending}", **options) for ending in ("csv", "parquet", "npz")]
    return [ts.from_frame(frame, **options), *files]


@pytest.mark.parametrize(
    "names",
    [
        ("q05", "q50", "q95"),
        ("q_0.05", "q_0.5", "q_0.95"),
        ("q0.05", "q0.5", "q0.95"),
        (0.05, 0.5, 0.95),
        ("p5", "p50", "p95"),
        ("percentile_5", "percentile_50", "percentile_95"),
        ("quantile_0.05", "quantile_0.50", "quantile_0.95"),
        ("m-lo-90", "m-q-50", "m-hi-90"),
        ("AutoARIMA-q-5", "AutoARIMA-q-50", "AutoARIMA-q-95"),
    ],
)
def test_each_spelling_of_quantiles(tmp_path, names):
    frame = pd.DataFrame({"target": TARGET, **dict(zip(names, (LOW, MIDDLE, HIGH)))})
    for cases in every_way(frame, tmp_path):
        assert cases.prediction.law.probability == (0.05, 0.5, 0.95)
        np.testing.assert_array_equal(cases.prediction.location, MIDDLE)
        for p, values in {0.05: LOW, 0.5: MIDDLE, 0.95: HIGH}.items():
            np.testing.assert_allclose(cases.prediction.quantile(p), values, rtol=1e-12)


def test_samples_are_numbered(tmp_path):
    frame = pd.DataFrame({"target": TARGET, **{f"sample_{k}": one for k, one in enumerate(SAMPLES)}})
    expected = ts.metrics.crps.score(ts.Prediction.from_samples(SAMPLES), TARGET)
    for cases in every_way(frame, tmp_path):
        assert ts.metrics.crps.score(cases) == expected


def test_several_outputs_have_names_or_numbers(tmp_path):
    for ends in (("age", "height"), ("0", "1")):
        columns = {f"target_{end}": TARGET + k for k, end in enumerate(ends)}
        columns |= {f"q05_{end}": LOW + k for k, end in enumerate(ends)}
        columns |= {f"q95_{end}": HIGH + k for k, end in enumerate(ends)}
        frame = pd.DataFrame(columns)
        frame.to_csv(tmp_path / "a.csv", index=False)
        for cases in (ts.from_frame(frame), ts.read(tmp_path / "a.csv")):
            np.testing.assert_allclose(cases.prediction.quantile(0.95), np.stack([HIGH, HIGH + 1], axis=1))
            assert cases.names == (() if ends[0] == "0" else ends)
    numbered = {f"sample_{k}_{j}": one + j for k, one in enumerate(SAMPLES) for j in (0, 1)}
    cases = ts.from_frame(pd.DataFrame({"target_0": TARGET, "target_1": TARGET, **numbered}))
    np.testing.assert_allclose(
        cases.prediction.mean, np.stack([SAMPLES.mean(0), SAMPLES.mean(0) + 1], axis=1)
    )


def test_all_other_names_are_chosen(tmp_path):
    frame = pd.DataFrame({"truth": TARGET, "low": LOW, "q025": HIGH, "q1": 0.0})
    chosen = {"target": "truth", "q_0.05": "low", "q_0.95": "q025", "q1": None}
    for cases in every_way(frame, tmp_path, columns=chosen):
        np.testing.assert_allclose(cases.prediction.interval(0.9).lower, LOW)
        np.testing.assert_allclose(cases.prediction.interval(0.9).upper, HIGH)
    frame = pd.DataFrame({"truth": TARGET, "yhat": MIDDLE, "noise": HIGH - LOW})
    cases = ts.from_frame(frame, columns={"truth": "truth", "prediction": "yhat", "sd": "noise"})
    np.testing.assert_array_equal(cases.prediction.scale, HIGH - LOW)


def test_a_location_beside_quantiles_is_the_location():
    frame = pd.DataFrame({"target": TARGET, "location": MIDDLE, "q05": LOW, "q95": HIGH})
    prediction = ts.from_frame(frame).prediction
    np.testing.assert_array_equal(prediction.location, MIDDLE)
    np.testing.assert_allclose(prediction.quantile(0.05), LOW)


def test_a_feature_is_none_where_a_scale_is_given():
    frame = pd.DataFrame(
        {"target": TARGET, "location": MIDDLE, "scale": HIGH - LOW, "q1": 1, "q05": 2, "sample_0": 3}
    )
    assert ts.from_frame(frame).prediction.law.name == "normal"


def test_an_empty_cell_is_no_quantile():
    frame = pd.DataFrame({"target": TARGET, "q05": LOW, "q95": np.where(TARGET > 0, HIGH, np.nan)})
    with pytest.raises(BadFile, match="not finite"):
        ts.from_frame(frame)


@pytest.mark.parametrize("names", [("q05", "q50", "q95"), tuple(f"sample_{k}" for k in range(12))])
@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
def test_what_was_read_is_written_and_read_again(tmp_path, names, ending):
    values = (LOW, MIDDLE, HIGH) if len(names) == 3 else SAMPLES
    given = ts.from_frame(pd.DataFrame({"target": TARGET, **dict(zip(names, values))}))
    ts.write(given, tmp_path / f"a.{ending}")
    found = ts.read(tmp_path / f"a.{ending}").prediction
    assert found.law.shared == given.prediction.law.shared
    np.testing.assert_allclose(found.quantile(0.5), given.prediction.quantile(0.5), rtol=1e-12)


@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
@pytest.mark.parametrize("recalibration", ["sigma", "cqr", "conformal"])
@pytest.mark.parametrize("names", [("q05", "q50", "q95"), tuple(f"sample_{k}" for k in range(24))])
def test_a_card_gives_quantiles_of_quantiles_and_samples_of_samples(tmp_path, names, recalibration, ending):
    values = (LOW, MIDDLE, HIGH) if len(names) == 3 else np.repeat(SAMPLES, 2, axis=0)
    frame = pd.DataFrame({"target": TARGET, **dict(zip(names, values)), "age": MIDDLE})
    frame.to_csv(tmp_path / "a.csv", index=False)
    if recalibration == "cqr" and len(names) > 3:
        return
    card = ts.calibrate(tmp_path / "a.csv", recalibration)
    made = apply_file(card, tmp_path / "a.csv", tmp_path / f"b.{ending}", levels=[0.5])
    found = ts.read(tmp_path / f"b.{ending}").prediction
    assert found.law.name == (
        made.law.name if recalibration == "conformal" else ts.read(frame).prediction.law.name
    )
    for p in (0.25, 0.5, 0.75):
        np.testing.assert_allclose(found.quantile(p), made.quantile(p), rtol=1e-12)
    if ending == "csv":
        columns = set(pd.read_csv(tmp_path / "b.csv").columns)
        assert (set(names) <= columns) == (recalibration != "conformal")
        assert "age" in columns
    if found.law.name == "quantiles":
        with pytest.raises(BadFile, match="recalibrated before"):
            apply_file(card, tmp_path / f"b.{ending}", tmp_path / "c.csv")


def test_a_card_knows_which_columns_are_none(tmp_path):
    frame = pd.DataFrame({"target": TARGET, "low": LOW, "q95": HIGH, "q1": 0.0})
    frame.to_csv(tmp_path / "a.csv", index=False)
    columns = {"q_0.05": "low", "q1": None}
    described = taken_columns(ts.read(tmp_path / "a.csv", columns=columns), columns)
    card = ts.calibrate(ts.read(tmp_path / "a.csv", columns=columns), data={"columns": described})
    made = apply_file(card, tmp_path / "a.csv", tmp_path / "b.npz")
    assert made.law.name == "quantiles"
