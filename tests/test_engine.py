"""Engines: tasks give the same sums on one machine and on a cluster, and what is kept is not computed again."""

import functools
import json
import os
import sys
import threading
import time

import numpy as np
import pytest
from samples import draw

import truesigma as ts
from truesigma.binning import LogCells, LogMeans, Variances
from truesigma.engine import load_engine, local
from truesigma.engine._tasks import FAN, groups, kept_name, merge_tree
from truesigma.files import BadFile
from truesigma.passes import work
from truesigma.stream import evaluate_files
from truesigma.sumfile import read_sums, write_sums


def files(folder, count=5, cases=60):
    """Calibration and test files as lists of globs."""
    for kind, seed in (("cal", 0), ("test", 1)):
        sample = draw(seed, cases=count * cases, mask=True, weight=True)
        for k in range(count):
            part = sample.take(slice(cases * k, cases * k + cases))
            ts.write(ts.Cases(part.prediction(), part.target, weight=part.weight), folder / f"{kind}{k}.npz")
    return [str(folder / "cal*.npz")], [[str(folder / "test*.npz")]]


def level_by_level(items, merge):
    """How the cluster merges."""
    while len(items) > 1:
        items = [merge(some) for some in groups(items)]
    return items[0]


@pytest.mark.parametrize("count", [*range(1, 20), 63, 64, 65, 130, 520])
def test_the_tree_has_the_same_shape_everywhere(count):
    def merge(some):
        return "(" + "".join(some) + ")" if len(some) > 1 else some[0]

    items = [chr(200 + k) for k in range(count)]
    assert merge_tree(iter(items), merge) == level_by_level(items, merge)


def test_few_sums_are_held_at_a_time():
    held = [0, 0]

    def sums():
        for _ in range(500):
            held[0] += 1
            held[1] = max(held)
            yield {"n": 1}

    def merge(some):
        held[0] -= len(some) - 1
        return {"n": sum(one["n"] for one in some)}

    assert merge_tree(sums(), merge) == {"n": 500}
    assert held[1] < 4 * FAN


def test_sums_come_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    cells = LogCells.of(rng.uniform(1e-9, 1, 100), rng.uniform(size=100), per_octave=128)
    sums = {
        "0/1/left/a": rng.normal(size=(3, 4)),
        "cells": cells,
        "empty": LogCells(0, np.zeros((3, 0)), np.inf, -np.inf),
        "few": Variances(rng.normal(size=(2, 5)), True, cells),
        "many": Variances(None, False, cells),
        "means": LogMeans(rng.normal(size=(3, 7)), 7, 2048),
        "none": ts.Undefined("because"),
    }
    write_sums(sums, tmp_path / "a.npz")
    found = read_sums(tmp_path / "a.npz")
    assert list(found) == list(sums)
    np.testing.assert_array_equal(found["0/1/left/a"], sums["0/1/left/a"])
    for name in ("cells", "empty", "means"):
        for key, value in vars(sums[name]).items():
            np.testing.assert_array_equal(getattr(found[name], key), value)
    for name in ("few", "many"):
        assert found[name].weighted == sums[name].weighted
        np.testing.assert_array_equal(found[name].cells.sums, cells.sums)
        assert found[name].cells.start == cells.start
    np.testing.assert_array_equal(found["few"].columns, sums["few"].columns)
    assert found["many"].columns is None
    assert str(found["none"]) == "because"
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:300])
    with pytest.raises(BadFile, match="remove it, and it is made anew"):
        read_sums(tmp_path / "b.npz")


def test_what_is_kept_is_not_computed_again(tmp_path):
    calibration, test = files(tmp_path)
    keep = tmp_path / "keep" / "here"
    done = []

    def counting(function, tasks, **options):
        def count(task, tick):
            done.append(task["pass"])
            return function(task, tick)

        return local.run(count, tasks, **options)

    options = {"recalibrations": ["none", "sigma", "aux:steps=20"], "keep": keep, "run": counting}
    first = evaluate_files(calibration, test, **options).evaluation
    assert done == ["fit"] * 5 + ["range"] * 5 + ["sums"] * 5
    again = evaluate_files(calibration, test, **options).evaluation
    assert len(done) == 15
    assert again.rows == first.rows
    assert (
        first.rows
        == evaluate_files(calibration, test, recalibrations=options["recalibrations"]).evaluation.rows
    )
    # One kept file is damaged: that alone is made anew. A data file changes: its sums, and what depends on them.
    kept = sorted(keep.iterdir())
    assert len(kept) == 15
    kept[3].write_bytes(b"PK")
    assert evaluate_files(calibration, test, **options).evaluation.rows == first.rows
    assert len(done) == 16
    sample = draw(5, cases=60)
    ts.write(ts.Cases(sample.prediction(), sample.target), tmp_path / "test2.npz")
    changed = evaluate_files(calibration, test, **options).evaluation
    assert done[16:] == ["range", "sums", "sums", "sums", "sums", "sums"]
    assert changed.rows != first.rows


def test_a_run_that_was_stopped_goes_on(tmp_path):
    calibration, test = files(tmp_path)
    done = []

    def stopping(function, tasks, **options):
        def stop(task, tick):
            if len(done) == 7:
                raise KeyboardInterrupt
            done.append(task)
            return function(task, tick)

        return local.run(stop, tasks, **options)

    keep = tmp_path / "keep"
    with pytest.raises(KeyboardInterrupt):
        evaluate_files(calibration, test, recalibrations=["none", "sigma"], keep=keep, run=stopping)
    assert sorted(path.name for path in keep.iterdir()) == sorted(kept_name(task) for task in done)
    found = evaluate_files(calibration, test, recalibrations=["none", "sigma"], keep=keep)
    assert (
        found.evaluation.rows
        == evaluate_files(calibration, test, recalibrations=["none", "sigma"]).evaluation.rows
    )


def test_tasks_are_plain_values(tmp_path):
    calibration, test = files(tmp_path, 2)
    seen = []

    def record(function, tasks, **options):
        tasks = [json.loads(json.dumps(task)) for task in tasks]
        seen.extend(tasks)
        return local.run(function, tasks, **options)

    found = evaluate_files(calibration, test, run=record, recalibrations=["sigma:part=aleatoric", "isotonic"])
    assert [task["pass"] for task in seen] == ["fit", "fit", "range", "range", "sums", "sums"]
    plain = evaluate_files(calibration, test, recalibrations=["sigma:part=aleatoric", "isotonic"])
    assert found.evaluation.rows == plain.evaluation.rows


def test_engines_have_names(tmp_path):
    assert load_engine("local") is local.run
    with pytest.raises(ValueError, match=r"engine is 'slurm'; expected one of local, ray"):
        load_engine("slurm")
    with pytest.raises(ValueError, match="nothing to do"):
        local.run(work, [], merge=lambda some: some[0])
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="cannot be made"):
        local.run(work, [{"cases": 1}], merge=lambda some: some[0], keep=tmp_path / "file" / "below")


# Ray -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two nodes; a test may remove the second and must add it again."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # for the nodes
    size = {"num_cpus": 1, "object_store_memory": 100 << 20}
    made = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    made.size = size
    yield made
    made.shutdown()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@pytest.fixture
def on_ray(cluster):
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield load_engine("ray")
    ray.shutdown()


@pytest.mark.slow
def test_a_node_that_is_lost_changes_nothing(tmp_path, cluster, on_ray):
    """The second node goes while its tasks run and after it has results; they are made again on the first."""
    calibration, test = files(tmp_path, count=12)
    node = cluster.add_node(**cluster.size)
    cluster.wait_for_nodes()
    lost = []

    def slowly(task, tick):  # nested, so that it travels by value
        time.sleep(0.3)
        return work(task, tick)

    def run(function, tasks, **options):
        return on_ray(slowly, tasks, **options)

    def report(words, total):
        def tick(cases):
            seen[0] += 1
            if words == "test 1" and seen[0] > 27 and not lost:
                lost.append(cluster.remove_node(node, allow_graceful=False))

        return tick

    seen = [0]
    choice = {"recalibrations": ["none", "sigma", "aux:steps=20"]}
    found = evaluate_files(calibration, test, run=run, keep=tmp_path / "there", report=report, **choice)
    assert lost
    expected = evaluate_files(calibration, test, keep=tmp_path / "here", **choice)
    assert found.evaluation.rows == expected.evaluation.rows
    assert found.evaluation.to_dict()["recalibrations"] == expected.evaluation.to_dict()["recalibrations"]
    here, there = (sorted(path.name for path in (tmp_path / n).glob("*.npz")) for n in ("here", "there"))
    assert here == there
    for name in here:
        ours, theirs = (read_sums(tmp_path / n / name) for n in ("here", "there"))
        assert list(ours) == list(theirs)
        for key, value in ours.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(value, theirs[key])


@pytest.mark.slow
def test_errors_are_those_of_one_machine(tmp_path, cluster, on_ray):
    calibration, test = files(tmp_path)
    bad = dict(np.load(tmp_path / "test3.npz"))
    bad["target"][:] = np.nan
    np.savez(tmp_path / "test3.npz", **bad)
    messages = []
    for run in (on_ray, local.run):
        with pytest.raises(BadFile) as caught:
            evaluate_files(calibration, test, recalibrations=["none", "sigma"], run=run)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "test3.npz: target is missing" in messages[0]


@pytest.mark.slow
def test_the_command_on_a_cluster(tmp_path, cluster, on_ray, monkeypatch):
    from truesigma.cli import main

    calibration, test = files(tmp_path)
    results = []
    for extra in ([], ["--engine", "ray", "--address", cluster.address]):
        out = tmp_path / f"{len(extra)}.json"
        words = ["evaluate", "--calibration", *calibration, "--test", *test[0], "--recalibrate", "none,sigma"]
        with pytest.raises(SystemExit) as stopped:
            main(["--quiet", *words, *extra, "--keep", str(out.with_suffix("")), "--json", str(out)])
        assert not stopped.value.code
        results.append(json.loads(out.read_text()))
        assert len(list(out.with_suffix("").iterdir())) == 15
    assert results[0] == results[1]


@pytest.mark.slow
def test_shares_of_a_machine(cluster, on_ray, monkeypatch):
    """Tasks that ask for a part of a machine run, also when few are handed out ahead."""
    monkeypatch.setattr("truesigma.engine.ray.AHEAD", -7)
    tasks = [{"cases": k} for k in range(20)]
    add = functools.partial(
        on_ray, lambda task, tick: {"n": task["cases"]}, merge=lambda some: {"n": sum(s["n"] for s in some)}
    )
    assert add(tasks, cpus=0.25) == {"n": 190}


GRID = """
[data_sets.simulated]
title = "simulated"
calibration_cases = 20

[networks]
small = "small network"
"""
RUN = """
[[experiment]]
name = "small_seed{seed}"
data_set = "simulated"
network = "small"
step = 0
seed = {seed}
train = {{ epochs = 2 }}
options = {{ cases = 60, train = 20, valid = 20 }}
"""


@pytest.mark.slow
def test_the_grid_on_a_cluster(tmp_path, cluster, on_ray):
    """Trainings side by side, of which one loses its node: the same results as one after the other."""
    pytest.importorskip("timm")
    from truesigma.reproduce import open_paper
    from truesigma.reproduce.run import run_missing

    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        runs = "".join(RUN.format(seed=seed) for seed in range(3))
        (tmp_path / place / "experiments.toml").write_text(GRID + runs)
    node = cluster.add_node(**cluster.size)
    cluster.wait_for_nodes()
    loss = threading.Timer(8.0, cluster.remove_node, (node, False))
    loss.start()
    said = []
    options = {"runs": tmp_path / "runs_there", "quiet": True}
    names = run_missing(open_paper(tmp_path / "there"), tmp_path, said.append, engine="ray", **options)
    loss.join()
    assert names == ["small_seed0", "small_seed1", "small_seed2"]
    assert said == ["small_seed0, small_seed1, small_seed2: on the cluster"]
    run_missing(open_paper(tmp_path / "here"), tmp_path, said.append, runs=tmp_path / "runs_here", quiet=True)
    for name in names:
        here, there = (
            np.load(tmp_path / place / "results" / name / "draws.npz") for place in ("here", "there")
        )
        assert sorted(here.files) == sorted(there.files)
        for key in here.files:
            np.testing.assert_allclose(here[key], there[key], rtol=1e-3, atol=1e-4)
    assert run_missing(open_paper(tmp_path / "there"), tmp_path, said.append, engine="ray", **options) == []
