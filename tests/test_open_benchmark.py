"""The open benchmark: its statistics hold, and a method in a file of one's own runs through all of it."""

import numpy as np
import pytest

pytest.importorskip("torch")
import truesigma as ts
from benchmarks.open import analysis, run
from benchmarks.open.sets import SETS


def test_crossed_effects_are_called_as_often_as_promised():
    """Where seeds and cases both matter, and where one of them does not; the usual ways call far more."""
    for effects in ((0.05, 1.0, 1.0), (0.0, 1.0, 1.0), (0.1, 0.3, 1.0)):
        found = analysis.level(5, 250, 400, seed_sd=effects[0], case_sd=effects[1], rest_sd=effects[2])
        assert found["crossed"] < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
        assert found["all pooled"] > 0.2


def test_the_variance_of_crossed_effects_is_that_of_new_seeds_and_cases():
    """Slowly: the variance of the mean over many repetitions is what the interval is made of, on average."""
    rng, means, squares = np.random.default_rng(0), [], []
    for _ in range(2000):
        made = 0.2 * rng.normal(size=(6, 1)) + 0.5 * rng.normal(size=40) + rng.normal(size=(6, 40))
        means.append(made.mean())
        by_seed, by_case = made.mean(axis=1).var(ddof=1) / 6, made.mean(axis=0).var(ddof=1) / 40
        left = made - made.mean(axis=1, keepdims=True) - made.mean(axis=0) + made.mean()
        squares.append(by_seed + by_case - (left**2).sum() / (5 * 39) / 240)
    assert np.mean(squares) == pytest.approx(np.var(means), rel=0.1)


def test_the_reference_is_the_crps_of_the_training_targets():
    rng = np.random.default_rng(0)
    known, y = rng.normal(size=30), rng.normal(size=20)
    samples = ts.Prediction.from_samples(np.tile(known[:, None], (1, 20)))
    assert run.crps_of_training(known, y) == pytest.approx(ts.metrics.crps.score(samples, y))


def test_scores_by_case_are_those_of_the_metric():
    rng = np.random.default_rng(0)
    prediction = ts.Prediction(rng.normal(size=(9, 1)), scale=rng.uniform(0.5, 2, size=(9, 1)))
    y = rng.normal(size=(9, 1))
    each = run.by_case(prediction, y)
    assert each == pytest.approx([ts.metrics.crps.score(prediction[[k]], y[[k]]) for k in range(9)])


def test_a_method_of_ones_own_runs_through_all_of_it(monkeypatch, tmp_path):
    """Also what the tables are made of, and that a part that is done is not done again."""
    monkeypatch.setattr("benchmarks.open.networks.STEPS", 20)
    monkeypatch.setattr(run, "SIZES", (50,))
    monkeypatch.setattr(run, "DRAWS", 2)
    for seed in (0, 1):
        run.one(tmp_path, "simulated", seed, ("dropout", "quantiles", "laplace", "residual", run.CONSTANT))
    assert "done before" in run.one(tmp_path, "simulated", 0, ("dropout",))
    rows, cases = analysis.read(tmp_path)
    assert len(rows) == 2 * (4 * 4 + 2)
    own = [row for row in rows if row["method"] == "sigma"]
    assert {row["recalibration"] for row in own} == {"none", "sigma", "isotonic", "conformal"}
    assert all(0.8 < row["held"] < 1 for row in own)
    assert cases["simulated"]["dropout/sigma/50"].shape == (2, 2000)
    first = next(row for row in rows if (row["method"], row["recalibration"]) == ("dropout", "sigma"))
    assert cases["simulated"]["dropout/sigma/50"][0].mean() == pytest.approx(first["crps"], rel=1e-3)
    found = analysis.contrasts(cases)
    assert {row["question"] for row in found} == {"recalibration at 50"}  # 200 cases were not asked for
    assert all(row["low"] < row["difference"] < row["high"] for row in found)


def test_sets_are_what_the_page_says():
    for name, table in ((name, SETS[name]()) for name in ("simulated", "aqsoldb")):
        parts = table.parts(0)
        assert sorted(np.concatenate(parts)) == list(range(len(table.y)))
        assert np.array_equal(parts[2], table.parts(1)[2])  # the test cases are the same for every seed
        assert not np.array_equal(parts[0], table.parts(1)[0])
        assert table.x.isfinite().all(), name
