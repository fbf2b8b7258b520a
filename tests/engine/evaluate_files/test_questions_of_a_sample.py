"""The five questions about sets that are too large to be held: about a sample of them."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.evaluation.sets import open_set


def made(seed, outputs, cases=900, **labels):
    rng = np.random.default_rng(seed)
    mu, sigma = 5 * rng.normal(size=(cases, outputs)), np.exp(0.3 * rng.normal(size=(cases, outputs)))
    y = mu + 0.3 + 1.4 * sigma * rng.normal(size=mu.shape)
    weight = rng.uniform(0.5, 2, cases)
    return ts.Cases(ts.Prediction(mu, aleatoric=sigma**2), y, unit="mm", weight=weight, **labels)


@pytest.fixture
def sampled(tmp_path, monkeypatch):
    """Write two sets in two files each, and ask about so many of their elements."""

    def ask(sets, elements, limit=10):
        names = []
        for name, cases in zip(("calibration", "test"), sets):
            cut = len(cases) // 2 + 1  # a patient may be in both files
            for k, part in enumerate((cases[:cut], cases[cut:])):
                ts.write(part, tmp_path / f"{name}-{k}.npz")
            names.append(str(tmp_path / f"{name}-*.npz"))
        monkeypatch.setattr("truesigma.evaluation.sets.SAMPLE", elements)
        for module in ("sets", "questions"):
            monkeypatch.setattr(f"truesigma.evaluation.{module}.LOOKED_AT", limit)
        choice = {"recalibrations": ["none", "sigma"], "metrics": ["rmse"]}
        return ts.evaluate(names[0], [[names[1]]], **choice, engine="local")

    return ask


@pytest.mark.parametrize("patient", [None, np.array([f"p{k // 3}" for k in range(900)])])
def test_a_sample_of_all_answers_as_all_cases_do(sampled, patient):
    sets = [made(seed, 3, patient=patient) for seed in (1, 2)]
    expected = ts.evaluate(*sets, recalibrations=["none", "sigma"], metrics=["rmse"]).questions
    found = sampled(sets, 10_000).questions
    assert len(found) == len(expected)
    for row, other in zip(found, expected):
        assert (row["question"], row["verdict"], row["words"]) == (
            other["question"],
            other["verdict"],
            other["words"],
        )
        assert row["estimate"] == pytest.approx(other["estimate"], rel=1e-9)
        assert row["parts"]["sample"] == 2700


def test_a_sample_is_said_and_gives_the_same_verdicts(sampled):
    found = sampled([made(seed, 1, cases=6000) for seed in (1, 2)], 3000)
    first = {row["question"]: row for row in found.questions if row["recalibration"] == "none"}
    assert 2800 < first["size"]["parts"]["sample"] < 3200
    assert first["size"]["verdict"] == "off"
    assert first["size"]["low"] < 1.4 < first["size"]["high"]


def test_a_map_stays_a_cluster(monkeypatch):
    monkeypatch.setattr("truesigma.evaluation.sets.LOOKED_AT", 10)
    monkeypatch.setattr("truesigma.evaluation.sets.SAMPLE", 1000)
    some = open_set(made(0, 100, cases=30)).sample()
    assert some.target.ndim == 1
    assert 850 < len(some) < 1150
    assert len(np.unique(some.patient)) == 30
