"""A cluster gives the results of one machine, also when it loses a node."""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from engine_files import files

import truesigma as ts
from truesigma.engine import load_engine, local
from truesigma.engine.sumfile import read_sums
from truesigma.evaluation.passes import work
from truesigma.files.disk import BadFile


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
    found = ts.evaluate(calibration, test, engine=run, keep=tmp_path / "there", report=report, **choice)
    assert lost
    expected = ts.evaluate(calibration, test, keep=tmp_path / "here", **choice, engine="local")
    assert found.rows == expected.rows
    assert found.to_dict()["recalibrations"] == expected.to_dict()["recalibrations"]
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
            ts.evaluate(calibration, test, recalibrations=["none", "sigma"], engine=run)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "test3.npz: target is missing" in messages[0]


@pytest.mark.slow
def test_the_command_on_a_cluster(tmp_path, cluster, on_ray, monkeypatch):
    from truesigma.cli import main

    calibration, test = files(tmp_path)
    results = []
    for extra in ([], ["--engine", cluster.address]):
        out = tmp_path / f"{len(extra)}.json"
        words = ["evaluate", "--calibration", *calibration, "--test", *test[0], "--recalibrate", "none,sigma"]
        with pytest.raises(SystemExit) as stopped:
            main(["--quiet", *words, *extra, "--keep", str(out.with_suffix("")), "--json", str(out)])
        assert not stopped.value.code
        results.append(json.loads(out.read_text()))
        assert len(list(out.with_suffix("").iterdir())) == 15
    assert results[0] == results[1]


@pytest.mark.slow
def test_quiet_is_meant_for_ray_too(tmp_path, cluster):
    """Not a line of its own, neither where all goes well nor beside our error; in a process whose output is its own."""
    calibration, test = files(tmp_path)
    words = [sys.executable, "-m", "truesigma", "--quiet", "evaluate", "--calibration", *calibration]
    words += ["--test", *test[0]]
    words += ["--engine", cluster.address, "--json", tmp_path / "scores.json"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "scores.json").read_text())["rows"]
    bad = sorted(tmp_path.glob("test*.npz"))[-1]
    bad.write_bytes(bad.read_bytes()[:-100])
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert bad.name in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_relative_paths_are_those_of_the_command(tmp_path, cluster, on_ray, monkeypatch):
    """The nodes were started in another folder."""
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    options = {"recalibrations": ["none", "sigma"], "metrics": ["rmse"]}
    found, expected = (
        ts.evaluate(["cal*.npz"], [["test*.npz"]], engine=run, **options) for run in (on_ray, local.run)
    )
    assert found.rows == expected.rows


@pytest.mark.slow
def test_a_cluster_that_fails_is_no_fault_of_ours(cluster, on_ray, monkeypatch):
    monkeypatch.setattr("truesigma.engine.ray.RETRIES", 1)
    with pytest.raises(ConnectionError, match=r"lost a task more than 1 times .* nothing was computed"):
        on_ray(lambda task, tick: os.kill(os.getpid(), 9), [{"cases": 1}], merge=lambda some: some[0])


@pytest.mark.parametrize("named", ["option", "environment"])
def test_nobody_at_the_address(named, monkeypatch):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    if named == "environment":
        monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ValueError, match=f"no Ray cluster answers at {address}"):
        load_engine("ray")(work, [{}], merge=len, address=address if named == "option" else None)
