"""Skill, centre and size of sets that are too large to be held: as they would be from all cases at once."""

import numpy as np
import pytest

import truesigma as ts

SUMS = ("skill", "centre", "size")


def made(seed, outputs, cases=900, **labels):
    rng = np.random.default_rng(seed)
    shape = (cases, outputs) if outputs else (cases,)
    mu, sigma = 5 * rng.normal(size=shape), np.exp(0.3 * rng.normal(size=shape))
    shared = np.repeat(
        rng.normal(size=(cases // 3, *shape[1:])), 3, axis=0
    )  # what three cases have in common
    y = mu + 0.3 + 1.4 * sigma * (0.6 * rng.normal(size=shape) + 0.8 * shared)
    return ts.Cases(
        ts.Prediction(mu, aleatoric=sigma**2), y, unit="mm", weight=rng.uniform(0.5, 2, cases), **labels
    )


def both_ways(sets, folder, monkeypatch, **more):
    names = []
    for name, cases in zip(("calibration", "test"), sets):
        cut = len(cases) // 2 + 1  # a patient may be in both files
        for k, part in enumerate((cases[:cut], cases[cut:])):
            ts.write(part, folder / f"{name}-{k}.npz")
        names.append(str(folder / f"{name}-*.npz"))
    choice = {"recalibrations": ["none", "sigma", "isotonic"], "metrics": ["rmse"], **more}
    whole = ts.evaluate(*sets, **choice).questions
    monkeypatch.setattr("truesigma.evaluation.answered.ANSWERED", 10)
    return whole, ts.evaluate(names[0], [[names[1]]], **choice, engine="local").questions


@pytest.mark.parametrize("outputs", [0, 3])
@pytest.mark.parametrize("labels", ["none", "patient", "many groups"])
def test_sums_answer_as_all_cases_do(outputs, labels, tmp_path, monkeypatch):
    names = np.array([f"p{k // 3}" for k in range(900)])
    given = {"none": {}, "patient": {"patient": names}, "many groups": {"group": names}}[labels]
    sets = [made(seed, outputs, **given) for seed in (1, 2)]
    whole, summed = both_ways(sets, tmp_path, monkeypatch)
    expected = {(r["recalibration"], r["question"], r["output"]): r for r in whole if r["group"] is None}
    assert len(summed) == len(expected)
    for row in summed:
        other = expected[row["recalibration"], row["question"], row["output"]]
        if row["question"] in SUMS:
            assert row["estimate"] == pytest.approx(other["estimate"], rel=1e-7, abs=1e-9)
            for name in ("low", "high"):  # sums do not know how much each cluster drew the estimate to itself
                assert row[name] == pytest.approx(other[name], rel=3e-3, abs=3e-3), (name, row, other)
        else:
            assert (row["estimate"], row["low"], row["verdict"]) == (None, None, "unclear")
            assert "not looked at together" in row["words"]


def test_sums_know_that_a_region_leaves_sigma_as_it_was(tmp_path, monkeypatch):
    made_of = [made(seed, 3) for seed in (1, 2)]
    sets = [
        ts.Cases(one.prediction, one.target) for one in made_of
    ]  # without weights, which a region refuses
    whole, summed = both_ways(sets, tmp_path, monkeypatch, recalibrations=["none", "region"])
    for rows in (whole, summed):
        before, after = (
            [row["words"] for row in rows if row["recalibration"] == name and row["question"] in SUMS]
            for name in ("none", "region")
        )
        assert before == after
        assert "too small" in " ".join(after)
        assert "still" not in " ".join(after)
