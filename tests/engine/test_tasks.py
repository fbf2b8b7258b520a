"""Tasks on one machine: plain values, merged as one tree, and not computed again where they are kept."""

import json
from pathlib import Path

import pytest
from engine_files import files
from samples import draw

import truesigma as ts
from truesigma.engine import load_engine, local
from truesigma.engine.tasks import FAN, merge_tree
from truesigma.evaluation.passes import work
from truesigma.files.disk import BadFile


@pytest.mark.parametrize("count", [1, 8, 9, 63, 65, 520])
def test_sums_are_merged_in_their_order(count):
    items = [chr(200 + k) for k in range(count)]
    assert merge_tree(iter(items), "".join) == "".join(items)


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


def test_what_is_kept_is_not_computed_again(tmp_path):
    calibration, test = files(tmp_path)
    keep = tmp_path / "keep" / "here"
    done = []

    def counting(function, tasks, **options):
        def count(task, tick):
            done.append(task["pass"])
            return function(task, tick)

        return local.run(count, tasks, **options)

    options = {"recalibrations": ["none", "sigma", "aux:steps=20"], "keep": keep, "engine": counting}
    first = ts.evaluate(calibration, test, **options)
    assert done == ["Gathering"] * 5 + ["Ranging"] * 5 + ["Scoring"] * 5
    again = ts.evaluate(calibration, test, **options)
    assert len(done) == 15
    assert again.rows == first.rows
    assert (
        first.rows
        == ts.evaluate(calibration, test, recalibrations=options["recalibrations"], engine="local").rows
    )
    # One kept file is damaged: that alone is made anew. A data file changes: its sums, and what depends on them.
    kept = sorted(keep.iterdir())
    assert len(kept) == 15
    kept[3].write_bytes(b"PK")
    assert ts.evaluate(calibration, test, **options).rows == first.rows
    assert len(done) == 16
    # Two kept files change places: neither is taken for the other.
    sums = [path for path in kept if path != kept[3]]
    first_sums, last_sums = sums[0].read_bytes(), sums[-1].read_bytes()
    sums[0].write_bytes(last_sums)
    sums[-1].write_bytes(first_sums)
    assert ts.evaluate(calibration, test, **options).rows == first.rows
    assert len(done) == 18
    sample = draw(5, cases=60)
    ts.write(ts.Cases(sample.prediction(), sample.target), tmp_path / "test2.npz")
    changed = ts.evaluate(calibration, test, **options)
    assert done[18:] == ["Ranging", "Scoring", "Scoring", "Scoring", "Scoring", "Scoring"]
    assert changed.rows != first.rows


def test_tasks_are_plain_values(tmp_path):
    calibration, test = files(tmp_path, 2)
    seen = []

    def record(function, tasks, **options):
        tasks = [json.loads(json.dumps(task)) for task in tasks]
        seen.extend(tasks)
        return local.run(function, tasks, **options)

    found = ts.evaluate(calibration, test, engine=record, recalibrations=["sigma:part=aleatoric", "isotonic"])
    assert [task["pass"] for task in seen] == [
        "Gathering",
        "Gathering",
        "Ranging",
        "Ranging",
        "Scoring",
        "Scoring",
    ]
    plain = ts.evaluate(
        calibration, test, recalibrations=["sigma:part=aleatoric", "isotonic"], engine="local"
    )
    assert found.rows == plain.rows


def test_engines_have_names(tmp_path):
    assert load_engine("local") is local.run
    with pytest.raises(ValueError, match=r"engine is 'slurm'; expected local, ray"):
        load_engine("slurm")
    with pytest.raises(ValueError, match="nothing to do"):
        local.run(work, [], merge=lambda some: some[0])
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="cannot be made"):
        local.run(work, [{"cases": 1}], merge=lambda some: some[0], keep=tmp_path / "file" / "below")


def test_a_metric_of_ones_own_that_changed_is_computed_anew(tmp_path):
    calibration, test = files(tmp_path)
    skeleton = Path(__file__).parents[2] / "docs" / "skeletons" / "metric.py"
    own = tmp_path / "own.py"
    values = []
    for words in ("elements.squared", "2 * elements.squared"):
        own.write_text(skeleton.read_text().replace("return elements.squared", f"return {words}"))
        options = {"recalibrations": ["none"], "metrics": [str(own)], "keep": tmp_path / "keep"}
        values.append(ts.evaluate(calibration, test, **options).value("none", "own"))
    assert values[1] == pytest.approx(2 * values[0])
