"""Every law in every file: what is written is read again, whole, in pieces and from several files, as it was."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import truesigma as ts
from truesigma.core.laws.quantiles import Stated
from truesigma.core.varying import ByCase
from truesigma.files.disk import BadFile

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def predicted(kind: str, cases: int, outputs: tuple[int, ...], rng: np.random.Generator) -> ts.Prediction:
    """A prediction of each law that a file may hold."""
    shape = (cases, *outputs)
    m, s = 100 * rng.normal(size=shape), np.exp(3 * rng.normal(size=shape))
    if kind == "samples":
        return ts.Prediction.from_samples(m + s * rng.normal(size=(30, *shape)))
    if kind == "quantiles":
        return ts.Prediction.from_quantiles({p: m + s * stats.norm.ppf(p) for p in LEVELS})
    if kind == "bounds":
        ends = rng.uniform(0.5, 3, size=(2, *shape, 2)).cumsum(axis=-1)
        return ts.Prediction(m, scale=s, law=Stated((0.5, 0.9), -ends[0], ends[1]))
    if kind.startswith("mixture"):
        parts = m + rng.normal(size=(3, *shape)), s * rng.uniform(0.5, 2, size=(3, *shape))
        return ts.Prediction.from_mixture([0.2, 0.3, 0.5], *parts, law=kind.partition(" ")[2] or "normal")
    if kind == "histogram":
        edges = np.cumsum(rng.uniform(0.1, 1, size=(6, *shape)), axis=0)
        return ts.Prediction.from_histogram(edges, rng.uniform(0.1, 1, size=(5, *shape)))
    if kind == "student":
        return ts.Prediction.from_scipy(stats.t(rng.uniform(3, 30, size=shape), m, s))
    if kind == "by case":
        law = ByCase((ts.Normal(), ts.Student(4.0)), rng.integers(2, size=cases))
        return ts.Prediction(m, scale=s, law=law)
    law = {"normal": ts.Normal(), "laplace": ts.Laplace(), "one student": ts.Student(5.0)}[kind]
    return ts.Prediction(m, aleatoric=s, epistemic=rng.uniform(size=shape), law=law)


KINDS = [
    *(
        "samples",
        "quantiles",
        "bounds",
        "mixture normal",
        "mixture laplace",
        "histogram",
        "student",
        "by case",
    ),
    *("normal", "laplace", "one student"),
]


def check_same(found: ts.Cases, expected: ts.Cases) -> None:
    assert (found.unit, found.names) == (expected.unit, expected.names)
    np.testing.assert_array_equal(found.target, expected.target)
    one, other = found.prediction, expected.prediction
    assert one.law.name == other.law.name
    # The numbers of samples and quantiles are columns, of which location and scale are computed again.
    np.testing.assert_allclose(one.location, other.location, rtol=1e-9)
    np.testing.assert_allclose(one.scale, other.scale, rtol=1e-9)
    for level in (0.5, 0.9):
        for a, b in zip(one.interval(level), other.interval(level)):
            np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
@given(st.data())
@settings(max_examples=3, deadline=None)
def test_what_is_written_is_read_again_whole_and_from_pieces(tmp_path_factory, kind, ending, data):
    folder = tmp_path_factory.mktemp("law")
    outputs = data.draw(st.sampled_from([(), (2,)]))
    cuts = data.draw(st.lists(st.integers(1, 7), min_size=2, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    prediction = predicted(kind, sum(cuts), outputs, rng)
    names = ("age", "depth (mm)") if outputs else ()
    target = prediction.location + rng.normal(size=prediction.location.shape)
    cases = ts.Cases(prediction, target, unit="mm", names=names)
    ts.write(cases, folder / f"whole.{ending}")
    check_same(ts.read(folder / f"whole.{ending}"), cases)
    ends = np.cumsum([0, *cuts])
    parts = [cases[a:b] for a, b in pairwise(ends)]
    for k, part in enumerate(parts):
        ts.write(part, folder / f"part{k}.{ending}")
    read = [ts.read(folder / f"part{k}.{ending}") for k in range(len(parts))]
    check_same(ts.Cases.concat(read), cases)


@pytest.mark.parametrize(
    "kind", ["samples", "quantiles", "mixture normal", "histogram", "student", "by case"]
)
@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
@pytest.mark.parametrize("engine", [None, "local"])
def test_scores_of_several_files_are_those_of_one_set(tmp_path, kind, ending, engine):
    rng = np.random.default_rng(0)
    prediction = predicted(kind, 60, (), rng)
    cases = ts.Cases(prediction, prediction.location + prediction.scale * rng.uniform(-0.9, 0.9, size=60))
    for k in range(3):
        ts.write(cases[20 * k : 20 * k + 20], tmp_path / f"{k}.{ending}")
    files = str(tmp_path / f"[0-9].{ending}")
    how = {
        "recalibrations": ["none", "sigma"],
        "metrics": ["coverage", "winkler", "rmse"] + ["crps"] * (kind != "quantiles"),
    }
    found, expected = ts.evaluate(files, files, engine=engine, **how), ts.evaluate(cases, cases, **how)
    for name in how["recalibrations"]:
        for metric in how["metrics"]:
            assert found.value(name, metric) == pytest.approx(expected.value(name, metric), rel=1e-9)


def test_laws_that_differ_in_kind_are_not_joined(tmp_path):
    low, high = np.zeros(4), np.ones(4)
    one = ts.Cases(ts.Prediction.from_quantiles({0.05: low, 0.95: high}), low)
    other = ts.Cases(ts.Prediction.from_quantiles({0.1: low, 0.9: high}), low)
    with pytest.raises(ValueError, match=r"0.05, 0.95.*0.1, 0.9"):
        ts.Cases.concat(one, other)
    ts.write(one, tmp_path / "0.npz")
    ts.write(other, tmp_path / "1.npz")
    with pytest.raises(BadFile, match="must agree"):
        ts.evaluate(str(tmp_path / "*.npz"), one)
