"""Sets of files: the same scores as in memory, whatever the files and their number."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from file_sets import QUICK, assert_rows, make, scored, write_parts

import truesigma as ts
from truesigma.files import fileset


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_many_files_are_one_set(tmp_path, small_chunks, suffix, law):
    calibration = make(0, 300, law=law, weight=suffix != ".csv")
    test = make(1, 400, law=law, weight=suffix != ".csv")
    if suffix == ".npz":
        calibration, test = (make(k, n, law=law, weight=True, mask=True) for k, n in ((0, 300), (1, 400)))
    paths = [write_parts(c, tmp_path, n, 3, suffix) for c, n in ((calibration, "cal"), (test, "test"))]
    found = scored(paths[0], paths[1], recalibrations=["none", "sigma", "aux:steps=50"])
    expected = ts.evaluate(calibration, test, recalibrations=["none", "sigma", "aux:steps=50"])
    assert_rows(found, expected)
    assert found.cases == expected.cases  # without those that the mask hides whole
    assert found.unit == "mm"
    ours, theirs = found.recalibrations["sigma"], expected.recalibrations["sigma"]
    assert ours.factor == pytest.approx(theirs.factor, rel=1e-12)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-9)


@pytest.mark.parametrize("recipe", ["exact", "paper", "code"])
def test_recipes_and_draws(tmp_path, recipe):
    """Draws have the case on their second axis; packed archives are unpacked."""
    rng = np.random.default_rng(0)
    sets = []
    for k, save in enumerate((np.savez, np.savez_compressed)):
        mean = rng.uniform(0.2, 0.8, size=(1, 250, 2)) + 0.05 * rng.normal(size=(7, 250, 2))
        variance = rng.uniform(1e-3, 4e-3, size=(7, 250, 1))
        target = mean.mean(axis=0) + 0.05 * rng.normal(size=(250, 2))
        sets.append((mean, variance, target))
        for part in range(2):
            some = slice(125 * part, 125 * part + 125)
            arrays = {"mean": mean[:, some], "variance": variance[:, some], "target": target[some]}
            save(tmp_path / f"{k}_{part}.npz", **arrays)
    whole = []
    for mean, variance, target in sets:
        draws = ts.Draws(mean, variance)
        whole.append(ts.Cases(ts.decompose(draws), target, draws=draws))
    found = scored(tmp_path / "0_*.npz", tmp_path / "1_*.npz", recalibrations=QUICK, recipe=recipe)
    assert_rows(found, ts.evaluate(*whole, recalibrations=QUICK, recipe=recipe), rel=1e-9)


def test_recalibrations_that_need_all_cases_read_them(tmp_path, monkeypatch):
    calibration, test = make(0, 120), make(1, 300)
    paths = [write_parts(c, tmp_path, n, 2) for c, n in ((calibration, "cal"), (test, "test"))]
    names = ["isotonic", "sigma", "conformal"]
    found = scored(paths[0], paths[1], recalibrations=names)
    assert_rows(found, ts.evaluate(calibration, test, recalibrations=names))
    monkeypatch.setattr(fileset, "MOST", 100)
    found = scored(paths[0], paths[1], recalibrations=names)
    reasons = {row["label"]: row["reason"] or "" for row in found.rows if row["metric"] == "rmse"}
    assert "isotonic needs all 360 elements in memory at once" in reasons["isotonic"]
    assert found.recalibrations.keys() == {"sigma"}


def test_sets_too_large_for_memory(tmp_path, monkeypatch):
    """What sorts all cases has no value and says why; bins of equal mass have edges within 0.02 % of the quantiles."""
    calibration, test = make(0, 200), make(1, 3000)
    paths = [write_parts(c, tmp_path, n, 3) for c, n in ((calibration, "cal"), (test, "test"))]
    monkeypatch.setattr(fileset, "MOST", 1000)
    monkeypatch.setattr("truesigma.core.sketches.KEPT", 1000)
    found = scored(paths[0], paths[1], recalibrations=QUICK)
    for ours, theirs in zip(
        found.rows, ts.evaluate(calibration, test, recalibrations=QUICK).rows, strict=True
    ):
        if ours["metric"] in ("ause", "median_absolute_error", "r2", "rank_correlation"):
            assert ours["value"] is None
            assert "this score needs all 9,000 elements in memory at once" in ours["reason"]
        else:
            tolerance = 1e-2 if ours["metric"] == "ence" else 1e-10
            assert ours["value"] == pytest.approx(theirs["value"], rel=tolerance), ours


def test_a_weight_for_all_outputs_of_a_case_stands_beside_one_for_each(tmp_path):
    plain, heavy = make(0, 60), make(1, 60, weight=True)
    light = ts.Cases(plain.prediction, plain.target, weight=np.linspace(1, 2, 60)[:, None], unit="mm")
    for k, cases in enumerate((light, heavy)):
        ts.write(cases, tmp_path / f"w{k}.npz")
    found = scored(tmp_path / "w1.npz", tmp_path / "w?.npz", recalibrations=["none"], metrics=["ause"])
    p, q = plain.prediction, heavy.prediction
    both = ts.Prediction(
        **{n: np.concatenate([getattr(p, n), getattr(q, n)]) for n in ("location", "aleatoric", "epistemic")}
    )
    shape = heavy.target.shape
    weight = np.concatenate(
        [np.broadcast_to(w if w.ndim > 1 else w[:, None], shape) for w in (light.weight, heavy.weight)]
    )
    expected = ts.metrics.ause.score(both, np.concatenate([plain.target, heavy.target]), weight=weight)
    assert found.value("none", "ause") == pytest.approx(expected)


def test_a_file_of_ones_own_with_a_known_name_is_not_taken_for_the_known_one(tmp_path):
    skeleton = Path(__file__).parents[3] / "docs" / "skeletons" / "recalibration.py"
    own = tmp_path / "sigma.py"
    own.write_text(skeleton.read_text())
    cases = make(0, 60)
    ts.write(cases, tmp_path / "a.npz")
    path = [str(tmp_path / "a.npz")]
    found = ts.evaluate(path, [path], recalibrations=[str(own)], metrics=["nll"], engine="local")
    expected = ts.evaluate(cases, cases, recalibrations=[str(own)], metrics=["nll"])
    assert_rows(found, expected)
    for run in (
        lambda **chosen: ts.evaluate(path, [path], **chosen, engine="local"),
        partial(ts.evaluate, cases, cases),
    ):
        with pytest.raises(ValueError, match="both called 'sigma'"):
            run(recalibrations=["sigma", str(own)], metrics=["nll"])
