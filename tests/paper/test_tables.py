"""Tables against slow loops over the made-up draws."""

import dataclasses
import json

import numpy as np
import pytest
from made_up_paper import PAPER, TRUE_FACTOR

from paper.rows import FIELDS, Row, agrees, read_table, rows
from paper.text import table_text, with_deviation


def _slow_uce(residual, log_variance, factor, *, draws, mean_outputs):
    """UCE of one repeat (draw, case, output) by plain loops, from the equations."""
    residual, variance = residual.astype(float), np.exp(log_variance.astype(float))
    mu = residual.mean(0)
    total = factor**2 * (np.broadcast_to(variance.mean(0), mu.shape) + residual.var(0))
    error = (residual**2).mean(0) if draws else mu**2
    v, e = (a.mean(1) if mean_outputs else a.ravel() for a in (total, error))
    edges, score = np.linspace(v.min(), v.max(), 16), 0.0
    for k in range(15):
        inside = (v >= edges[k]) & ((v < edges[k + 1]) if k < 14 else (v <= edges[k + 1]))
        if inside.any():
            score += inside.mean() * abs(e[inside].mean() - v[inside].mean())
    return score


@pytest.mark.parametrize("recipe", ["paper", "exact"])
def test_table_values_follow_from_the_draws(paper, root, recipe):
    found = {
        (r.recalibration, r.part, r.metric): r.value
        for r in rows(paper, read_table(root, "table1"))
        if (r.data_set, r.network, r.likelihood, r.recipe) == ("oct", "resnet101", "gaussian", recipe)
    }
    with np.load(root / "results" / "oct_resnet101" / "draws.npz") as kept:
        residual, log_variance = (
            kept["valid.residual"][0].astype(float),
            kept["valid.log_variance"][0].astype(float),
        )
        total = np.exp(log_variance).mean(0) + residual.var(0)
        error = residual.mean(0) ** 2
        if recipe == "paper":
            total, error = total.mean(1), error.mean(1)
        factor = float(np.sqrt(np.mean(error / total)))
        assert found["sigma", "total", "factor"] == pytest.approx(factor, rel=1e-9)
        assert factor == pytest.approx(TRUE_FACTOR, rel=0.1)
        tests = list(zip(kept["test.residual"], kept["test.log_variance"]))
        assert found["none", "total", "mse"] == pytest.approx(
            np.mean([(r.astype(float).mean(0) ** 2).mean() for r, _ in tests])
        )
        for recalibration, s in (("none", 1.0), ("sigma", factor)):
            slow = [
                _slow_uce(r, v, s, draws=recipe == "paper", mean_outputs=recipe == "paper") for r, v in tests
            ]
            assert found[recalibration, "total", "uce"] == pytest.approx(np.mean(slow), rel=1e-6)


def test_rows_have_the_promised_keys_and_say_why_there_is_no_value(paper, root):
    for name in ("table1", "table2"):
        found = [row.plain() for row in rows(paper, read_table(root, name))]
        assert all(tuple(row) == FIELDS for row in found)
        assert all((row["value"] is None) == (row["reason"] is not None) for row in found)
        assert {row["metric"] for row in found} == ({"mse", "uce", "factor"} if name == "table1" else {"nll"})
        reasons = {(r["data_set"], r["network"]): r["reason"] for r in found if r["value"] is None}
        assert reasons["endovis", "densenet201"].startswith("no data here")
        assert reasons["oct", "densenet201"].startswith("not yet run: step 1")
        assert reasons["oct", "densenet201_ensemble"].startswith("left out, because ")
        json.dumps(found, allow_nan=False)
    exact = [r for r in rows(paper, read_table(root, "table1")) if r.recipe == "exact" and r.metric != "mse"]
    assert all(row.paper is None and row.log is None for row in exact)


def test_laplace_has_no_table_units(paper, root):
    found = rows(paper, read_table(root, "table2"))
    mine = {(r.recipe, r.part, r.recalibration): r for r in found if r.likelihood == "laplace"}
    assert mine["paper", "total", "sigma"].value is None
    assert "normal" in mine["paper", "total", "sigma"].reason
    assert np.isfinite(mine["exact", "total", "sigma"].value)


def test_ensemble_is_the_members_joined(paper):
    cases = paper.cases("boneage_densenet201_ensemble", "test")
    assert len(cases) == 1
    members = [paper.run(name) for name in paper.plan.ensembles[0].members]
    single = np.stack([m.arrays["member.test.residual"][0, 0].astype(float) for m in members])
    inner = np.stack([np.exp(m.arrays["member.test.log_variance"][0, 0].astype(float)) for m in members])
    np.testing.assert_allclose(cases[0].prediction.location, single.mean(0), rtol=1e-12)
    np.testing.assert_allclose(cases[0].prediction.total, inner.mean(0) + single.var(0), rtol=1e-9)


def test_a_difference_from_a_number_that_is_wrong_says_nothing(paper, root):
    table = read_table(root, "table1")
    text = table_text(paper, table, rows(paper, table))["boneage"]
    mine = [line for line in text.splitlines() if line.startswith("| DenseNet-201 ensemble")]
    assert [line.split("|")[2].strip() for line in mine] == ["paper", "ours (paper)", "ours (exact)"]
    assert "0.09 [fault]" in mine[0]


def test_numbers_as_text():
    row = Row("oct", "resnet101", "gaussian", "paper", "total", "none", "mse", 1.5e-3, 2e-5, 2e-3, None, None)
    table = read_table(PAPER, "table1")
    assert with_deviation(row) == "(1.50 ± 0.02)e-3"
    assert with_deviation(dataclasses.replace(row, sd=4e-6)) == "(1.500 ± 0.004)e-3"
    assert with_deviation(dataclasses.replace(row, metric="uce", sd=2e-6)) == "0.1500 ± 0.0002"
    assert with_deviation(dataclasses.replace(row, metric="uce", value=8e29, sd=2e28)) == "(8.00 ± 0.20)e31"
    assert with_deviation(dataclasses.replace(row, metric="nll", value=-5.334, sd=0.004)) == "-5.334 ± 0.004"
    assert with_deviation(dataclasses.replace(row, metric="nll", value=-5.334, sd=0.0)) == "-5.33 ± 0.00"
    assert agrees(row, table)
    assert not agrees(dataclasses.replace(row, value=9e-3), table)
    assert agrees(dataclasses.replace(row, value=None), table) is None
