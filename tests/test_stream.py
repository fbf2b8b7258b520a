"""Sets of files: the same scores as in memory, whatever the files, their kind and their number; and clear errors."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from samples import draw

import truesigma as ts
from truesigma import stores
from truesigma.chunks import chunked_cases, chunks_of
from truesigma.cli import main
from truesigma.files import BadFile
from truesigma.sources import find_sources
from truesigma.stream import evaluate_files

QUICK = ["none", "sigma"]


def make(seed, cases, outputs=(3,), *, group=None, **options):
    sample = draw(seed, cases=cases, outputs=outputs, **options)
    return ts.Cases(sample.prediction(), sample.target, weight=sample.weight, group=group, unit="mm")


def write_parts(cases, folder, name, parts, suffix=".npz"):
    """Write the cases as several files."""
    bounds = np.linspace(0, len(cases), parts + 1).astype(int)
    for k, (a, b) in enumerate(pairwise(bounds)):
        ts.write(cases[a:b], folder / f"{name}{k}{suffix}")
    return str(folder / f"{name}*{suffix}")


def assert_rows(found, expected, *, rel=1e-10):
    """The same rows, as far as rounding goes."""
    keys = ("recalibration", "part", "metric", "level", "options")
    assert [[r[k] for k in keys] for r in found.rows] == [[r[k] for k in keys] for r in expected.rows]
    for ours, theirs in zip(found.rows, expected.rows):
        for key in ("value", "sd"):
            close = theirs[key] if theirs[key] is None else pytest.approx(theirs[key], rel=rel, abs=1e-12)
            assert ours[key] == close, ours


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("truesigma.passes.chunks_of", lambda *a, **k: chunks_of(*a, elements=100, **k))


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_many_files_are_one_set(tmp_path, small_chunks, suffix, law):
    calibration = make(0, 300, law=law, weight=suffix != ".csv")
    test = make(1, 400, law=law, weight=suffix != ".csv")
    if suffix == ".npz":
        calibration, test = (make(k, n, law=law, weight=True, mask=True) for k, n in ((0, 300), (1, 400)))
    paths = [write_parts(c, tmp_path, n, 3, suffix) for c, n in ((calibration, "cal"), (test, "test"))]
    found = evaluate_files(
        [paths[0]], [[paths[1]]], recalibrations=["none", "sigma", "aux:steps=50"]
    ).evaluation
    expected = ts.evaluate(calibration, test, recalibrations=["none", "sigma", "aux:steps=50"])
    assert_rows(found, expected)
    assert found.cases == {"calibration": 300, "test": 400, "repeats": 1}
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
    found = evaluate_files(
        [str(tmp_path / "0_*.npz")], [[str(tmp_path / "1_*.npz")]], recalibrations=QUICK, recipe=recipe
    )
    assert_rows(found.evaluation, ts.evaluate(*whole, recalibrations=QUICK, recipe=recipe), rel=1e-9)


def test_repeats_have_mean_and_deviation(tmp_path):
    calibration, tests = make(0, 200), [make(k, 300) for k in (1, 2, 3)]
    paths = [write_parts(c, tmp_path, f"set{k}_", 2) for k, c in enumerate([calibration, *tests])]
    found = evaluate_files(paths[:1], [[p] for p in paths[1:]], recalibrations=QUICK).evaluation
    assert_rows(found, ts.evaluate(calibration, tests, recalibrations=QUICK))
    assert found.cases["repeats"] == 3


def test_recalibrations_that_need_all_cases_read_them(tmp_path, monkeypatch):
    calibration, test = make(0, 120), make(1, 300)
    paths = [write_parts(c, tmp_path, n, 2) for c, n in ((calibration, "cal"), (test, "test"))]
    names = ["isotonic", "sigma", "conformal"]
    found = evaluate_files([paths[0]], [[paths[1]]], recalibrations=names).evaluation
    assert_rows(found, ts.evaluate(calibration, test, recalibrations=names))
    monkeypatch.setattr(stores, "MOST", 100)
    with pytest.raises(ValueError, match=r"isotonic needs all 360 elements in memory at once"):
        evaluate_files([paths[0]], [[paths[1]]], recalibrations=names)


def test_sets_too_large_for_memory(tmp_path, monkeypatch):
    """What sorts all cases has no value and says why; bins of equal mass have edges within 0.02 % of the quantiles."""
    calibration, test = make(0, 200), make(1, 3000)
    paths = [write_parts(c, tmp_path, n, 3) for c, n in ((calibration, "cal"), (test, "test"))]
    monkeypatch.setattr(stores, "MOST", 1000)
    monkeypatch.setattr("truesigma.binning.KEPT", 1000)
    found = evaluate_files([paths[0]], [[paths[1]]], recalibrations=QUICK).evaluation
    for ours, theirs in zip(
        found.rows, ts.evaluate(calibration, test, recalibrations=QUICK).rows, strict=True
    ):
        if ours["metric"] == "ause":
            assert ours["value"] is None
            assert "ause needs all 9,000 elements in memory at once" in ours["reason"]
        else:
            tolerance = 1e-2 if ours["metric"] == "ence" else 1e-10
            assert ours["value"] == pytest.approx(theirs["value"], rel=tolerance), ours


def test_weights_in_some_of_the_files_are_1_in_the_others(tmp_path):
    plain, heavy = make(0, 60), make(1, 60, weight=True)
    ts.write(plain, tmp_path / "a.npz")
    ts.write(heavy, tmp_path / "b.npz")
    parts = [
        np.concatenate([getattr(c.prediction, n) for c in (plain, heavy)])
        for n in ("location", "aleatoric", "epistemic", "spread")
    ]
    both = ts.Cases(
        ts.Prediction(*parts[:3], spread=parts[3]),
        np.concatenate([plain.target, heavy.target]),
        weight=np.concatenate(
            [np.ones(plain.target.shape) if heavy.weight.ndim > 1 else np.ones(60), heavy.weight]
        ),
    )
    path = str(tmp_path / "*.npz")
    assert_rows(
        evaluate_files([path], [[path]], recalibrations=QUICK).evaluation,
        ts.evaluate(both, both, recalibrations=QUICK),
    )


def test_a_single_pass_is_close(tmp_path):
    calibration, test = make(0, 200), make(1, 2000)
    paths = [write_parts(c, tmp_path, n, 2) for c, n in ((calibration, "cal"), (test, "test"))]
    calls = []

    def report(words, total):
        calls.append(words)
        return lambda done: None

    found = evaluate_files([paths[0]], [[paths[1]]], recalibrations=QUICK, one_pass=True, report=report)
    assert calls == ["calibration", "test 1"]
    expected = ts.evaluate(calibration, test, recalibrations=QUICK)
    names = {"uce", "uce_draws", "ence", "ause"}
    for ours, theirs in zip(found.evaluation.rows, expected.rows):
        if ours["metric"] not in names:
            assert ours["value"] == pytest.approx(theirs["value"], rel=1e-10)
    assert found.evaluation.value("none", "uce") == pytest.approx(expected.value("none", "uce"), rel=0.05)
    open_left = evaluate_files(
        [paths[0]], [[paths[1]]], recalibrations=["none"], metrics=["uce:closed=false"], one_pass=True
    )
    assert open_left.evaluation.rows[0]["value"] is None


def test_groups_are_scored_beside_the_whole(tmp_path):
    group = np.array(["left/a", "right"] * 150)
    calibration, test = make(0, 100), make(1, 300, group=group, weight=True, mask=True)
    paths = [write_parts(c, tmp_path, n, 2) for c, n in ((calibration, "cal"), (test, "test"))]
    found = evaluate_files([paths[0]], [[paths[1]]], recalibrations=QUICK, by_group=True)
    assert_rows(found.evaluation, ts.evaluate(calibration, test, recalibrations=QUICK))
    assert {name: one.cases["test"] for name, one in found.groups.items()} == {"left/a": 150, "right": 150}
    for name, one in found.groups.items():
        some = test[np.flatnonzero(group == name)]
        expected = ts.evaluate(calibration, some, recalibrations=QUICK)
        # The bins are those of the whole, so that groups can be compared.
        for ours, theirs in zip(one.rows, expected.rows):
            if ours["metric"] not in ("uce", "uce_draws", "ence"):
                assert ours["value"] == pytest.approx(theirs["value"], rel=1e-10)


def test_a_group_of_one_case(tmp_path, capsys):
    group = np.array(["many"] * 49 + ["one"])
    test = make(1, 50, group=group)
    ts.write(test, tmp_path / "test.npz")
    found = evaluate_files(
        [str(tmp_path / "test.npz")], [[str(tmp_path / "test.npz")]], recalibrations=QUICK, by_group=True
    )
    one = test[49:]
    expected = ts.metrics.crps.score(one.prediction, one.target)
    assert found.groups["one"].value("none", "crps") == pytest.approx(expected)
    path = str(tmp_path / "test.npz")
    assert (
        command("evaluate", "--calibration", path, "--test", path, "--recalibrate", "none", "--by-group") == 0
    )
    assert "1 group(s) have a single case, such as one" in capsys.readouterr().out
    assert command("evaluate", "--calibration", str(tmp_path), "--test", path) == 2
    assert "is a folder; expected files" in capsys.readouterr().err


# Kinds of files ------------------------------------------------------------------------------------------------------


def volumes(folder, kind, seed, patients):
    """A file for each field of each patient, and the same cases in memory."""
    nibabel = pytest.importorskip("nibabel") if kind == ".nii.gz" else None
    sample = draw(seed, cases=patients, outputs=(4, 5, 3), mask=True)
    fields = {
        "location": sample.location,
        "aleatoric": sample.aleatoric,
        "epistemic": sample.epistemic,
        "spread": sample.spread,
        "target": sample.target,
        "mask": sample.mask,
    }
    for k in range(patients):
        for name, array in fields.items():
            path = folder / f"s{seed}_p{k}_{name}{kind}"
            if nibabel is None:
                np.save(path, array[k : k + 1])
            else:
                image = array[k].astype(np.uint8) if name == "mask" else array[k]
                nibabel.save(nibabel.Nifti1Image(image, np.diag([1.0, 2.0, 3.0, 1.0])), path)
    return ts.Cases(sample.prediction(), sample.target), str(folder / f"s{seed}_*{kind}")


@pytest.mark.parametrize("kind", [".npy", ".nii.gz"])
def test_a_file_for_each_field(tmp_path, kind):
    calibration, cal = volumes(tmp_path, kind, 0, 3)
    test, paths = volumes(tmp_path, kind, 1, 4)
    found = evaluate_files([cal], [[paths]], recalibrations=QUICK).evaluation
    assert_rows(found, ts.evaluate(calibration, test, recalibrations=QUICK))


def test_grids_must_agree(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    _, paths = volumes(tmp_path, ".nii.gz", 0, 1)
    moved = tmp_path / "s0_p0_target.nii.gz"
    image = nibabel.load(moved)
    nibabel.save(nibabel.Nifti1Image(image.get_fdata(), np.diag([1.0, 2.0, 4.0, 1.0])), moved)
    with pytest.raises(BadFile, match="different grids"):
        evaluate_files([paths], [[paths]], recalibrations=QUICK)


def test_manifests(tmp_path):
    calibration, cal = volumes(tmp_path, ".npy", 0, 3)
    test, _ = volumes(tmp_path, ".npy", 1, 4)
    names = ("location", "aleatoric", "epistemic", "spread", "target", "mask")
    lines = ["id,group,weight," + ",".join(names)]
    for k in range(4):
        lines.append(f"p{k},site{k % 2},{k + 1}," + ",".join(f"s1_p{k}_{n}.npy" for n in names))
    manifest = tmp_path / "test.csv"
    manifest.write_text("\n".join(lines))
    weighted = ts.Cases(
        test.prediction, test.target, weight=np.arange(1.0, 5), group=[f"site{k % 2}" for k in range(4)]
    )
    found = evaluate_files([cal], [[str(manifest)]], recalibrations=QUICK, by_group=True)
    # Thirteen elements in a bin: one that falls on the other side of an edge moves ENCE.
    assert_rows(found.evaluation, ts.evaluate(calibration, weighted, recalibrations=QUICK))
    assert list(found.groups) == ["site0", "site1"]
    ts.write(calibration, tmp_path / "all.npz")
    listed = tmp_path / "list.txt"
    listed.write_text("# the one file\n\nall.npz\n")
    assert [s.name for s in find_sources([str(listed)])] == [str(tmp_path / "all.npz")]
    files = tmp_path / "files.csv"
    files.write_text("file,group\nall.npz,here\n")
    (source,) = find_sources([str(files)])
    (cases,) = chunked_cases(source)
    assert set(cases.group) == {"here"}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_in_pieces_are_the_archive(tmp_path, save, order):
    sample = draw(3, cases=37, outputs=(2, 5), mask=True)
    arrays = {
        "location": np.asarray(sample.location, order=order),
        "aleatoric": sample.aleatoric.astype(">f8"),
        "epistemic": sample.epistemic.astype("float32"),
        "target": sample.target,
        "mask": sample.mask,
        "group": np.array([f"p{k}" for k in range(37)]),
        "law": np.asarray("laplace"),
        "note": np.arange(3),
    }
    save(tmp_path / "a.npz", **arrays)
    (source,) = find_sources([str(tmp_path / "a.npz")])
    parts = list(chunked_cases(source, elements=50))
    assert [len(p) for p in parts] == [5] * 7 + [2]
    whole = ts.read(tmp_path / "a.npz")
    for name in ("location", "aleatoric", "epistemic", "mask"):
        joined = np.concatenate([getattr(p.prediction, name) for p in parts])
        np.testing.assert_array_equal(joined, getattr(whole.prediction, name))
    assert parts[0].prediction.law == ts.Laplace()
    assert [g for p in parts for g in p.group] == [f"p{k}" for k in range(37)]


def test_row_groups_of_a_table(tmp_path):
    import pyarrow.parquet as parquet

    cases = make(4, 100)
    ts.write(cases, tmp_path / "whole.parquet")
    parquet.write_table(
        parquet.read_table(tmp_path / "whole.parquet"), tmp_path / "a.parquet", row_group_size=7
    )
    (source,) = find_sources([str(tmp_path / "a.parquet")])
    parts = list(chunked_cases(source, elements=30))
    assert sum(len(p) for p in parts) == 100
    np.testing.assert_array_equal(np.concatenate([p.target for p in parts]), cases.target)
    assert parts[0].unit == "mm"


# What is wrong -------------------------------------------------------------------------------------------------------


def test_files_with_other_outputs_name_both(tmp_path):
    ts.write(make(0, 20), tmp_path / "a.npz")
    ts.write(make(1, 20, outputs=(2,)), tmp_path / "b.npz")
    with pytest.raises(BadFile, match=r"a\.npz has outputs of shape \(3,\) and .*b\.npz \(2,\)"):
        evaluate_files([str(tmp_path / "*.npz")], [[str(tmp_path / "a.npz")]])
    with pytest.raises(ValueError, match=r"test set 1 .*b\.npz\) has outputs \(2,\), the calibration set"):
        evaluate_files([str(tmp_path / "a.npz")], [[str(tmp_path / "b.npz")]])


def test_files_with_other_laws_and_units_name_both(tmp_path):
    ts.write(make(0, 20), tmp_path / "a.npz")
    ts.write(make(1, 20, law="laplace"), tmp_path / "b.npz")
    with pytest.raises(BadFile, match=r"a\.npz has the law .*normal.* and .*b\.npz .*laplace"):
        evaluate_files([str(tmp_path / "*.npz")], [[str(tmp_path / "a.npz")]])
    with pytest.raises(BadFile, match=r"b\.npz: law 'normal' was asked for"):
        evaluate_files([str(tmp_path / "*.npz")], [[str(tmp_path / "a.npz")]], law="normal")
    cases = make(1, 20)
    ts.write(ts.Cases(cases.prediction, cases.target, unit="cm"), tmp_path / "b.npz")
    with pytest.raises(BadFile, match=r"the unit mm and .* cm"):
        evaluate_files([str(tmp_path / "*.npz")], [[str(tmp_path / "a.npz")]])


@pytest.mark.parametrize("when", [0, 1])
def test_a_file_that_changes_between_passes(tmp_path, when):
    """Neither its old nor its new numbers are shown."""
    paths = [write_parts(make(k, 100), tmp_path, f"s{k}_", 2) for k in (0, 1)]
    changing = tmp_path / "s1_1.npz"

    def report(words, total):
        if words.startswith("test") and len(seen) == when:
            ts.write(make(9, 50), changing)
        seen.append(words) if words.startswith("test") else None
        return lambda done: None

    seen = []
    with pytest.raises(BadFile, match=r"s1_1\.npz was changed while it was being read"):
        evaluate_files([paths[0]], [[paths[1]]], recalibrations=QUICK, report=report)


def test_a_file_that_is_removed_between_passes(tmp_path):
    paths = [write_parts(make(k, 100), tmp_path, f"s{k}_", 2) for k in (0, 1)]

    def report(words, total):
        if words == "test 1":
            (tmp_path / "s1_0.npz").unlink()
        return lambda done: None

    with pytest.raises(BadFile, match=r"s1_0\.npz was removed"):
        evaluate_files([paths[0]], [[paths[1]]], recalibrations=QUICK, report=report)


def test_a_mask_that_removes_everything(tmp_path):
    ts.write(make(0, 20), tmp_path / "cal.npz")
    sample = draw(1, cases=20)
    hidden = ts.Prediction(
        sample.location, sample.aleatoric, sample.epistemic, mask=np.zeros((20, 3), dtype=bool)
    )
    ts.write(ts.Cases(hidden, sample.target), tmp_path / "test.npz")
    cal, test = str(tmp_path / "cal.npz"), str(tmp_path / "test.npz")
    for options in ({}, {"one_pass": True}):
        with pytest.raises(ValueError, match="the mask or the weights remove everything"):
            evaluate_files([cal], [[test]], recalibrations=QUICK, **options)
    with pytest.raises(ValueError, match="the mask or the weights remove everything"):
        evaluate_files([test], [[cal]], recalibrations=QUICK)


def test_weights_that_are_nothing_or_negative(tmp_path):
    sample = draw(1, cases=20)
    ts.write(ts.Cases(sample.prediction(), sample.target, weight=np.zeros(20)), tmp_path / "none.npz")
    path = str(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="the mask or the weights remove everything"):
        evaluate_files([path], [[path]], recalibrations=["none"])
    arrays = {"location": sample.location, "scale": np.ones((20, 3)), "target": sample.target}
    np.savez(tmp_path / "negative.npz", **arrays, weight=np.linspace(-1, 1, 20))
    with pytest.raises(BadFile, match=r"negative\.npz: weight is negative or not finite in 30 places"):
        evaluate_files([str(tmp_path / "negative.npz")], [[path]])


def test_errors_say_where_in_a_large_file(tmp_path):
    sample = draw(1, cases=60)
    sample.target[51, 1] = np.inf
    arrays = {"location": sample.location, "scale": np.ones((60, 3)), "target": sample.target}
    np.savez(tmp_path / "a.npz", **arrays)
    (source,) = find_sources([str(tmp_path / "a.npz")])
    with pytest.raises(
        BadFile, match=r"a\.npz, from case 50: target is not finite in 1 place, the first at index \(1, 1\)"
    ):
        list(chunked_cases(source, elements=30))


def test_missing_targets(tmp_path, small_chunks):
    sample = draw(1, cases=120)
    sample.target[:50] = np.nan
    ts.write(make(0, 50), tmp_path / "cal.npz")
    np.savez(tmp_path / "a.npz", location=sample.location, scale=np.ones((120, 3)), target=sample.target)
    cal, path = str(tmp_path / "cal.npz"), str(tmp_path / "a.npz")
    with pytest.raises(BadFile, match=r"a\.npz.*target is missing"):
        evaluate_files([cal], [[path]], recalibrations=QUICK, metrics=["rmse"])
    found = evaluate_files([cal], [[path]], recalibrations=["none"], metrics=["rmse"], mask_missing=True)
    residual = sample.target[50:] - sample.location[50:]
    assert found.evaluation.value("none", "rmse") == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-12)


def test_damaged_files(tmp_path):
    cal = tmp_path / "cal.npz"
    ts.write(make(0, 2000), cal)
    whole = cal.read_bytes()
    bad = tmp_path / "bad.npz"
    for damage in (whole[: len(whole) // 2], whole[:40_000] + b"\xff" * 8 + whole[40_008:]):
        bad.write_bytes(damage)
        with pytest.raises(BadFile, match=r"bad\.npz (is damaged|is cut short)"):
            evaluate_files([str(cal)], [[str(bad)]], recalibrations=QUICK)


def test_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ts.write(make(0, 20), "a.npz")
    np.save("a_b.npy", np.ones(3))
    Path("empty.txt").write_text("# nothing\n")
    Path("wrong.txt").write_text("a.npz\nnot.npz\n")
    Path("kind.txt").write_text("a.xlsx\n")
    cases = {
        "b*.npz": "no file matches",
        "b.npz": "there is no file",
        ".": "is a folder; expected files, as in",
        "a_b.npy": "does not say what it holds",
        "empty.txt": "names no file",
        "wrong.txt": "names 'not.npz', but there is no file",
        "kind.txt": "expected files that end in",
    }
    for name, words in cases.items():
        with pytest.raises(BadFile, match=words):
            find_sources([name])
    with pytest.raises(BadFile, match="named twice"):
        find_sources(["a.npz", "*.npz"])
    np.save("c_location.npy", np.ones((2, 3)))
    np.save("c_scale.npy", np.ones((3, 3)))
    with pytest.raises(BadFile, match="expected the same cases"):
        evaluate_files(["c_*.npy"], [["a.npz"]])


@pytest.mark.parametrize("one_pass", [False, True])
def test_bins_are_whole_numbers(tmp_path, one_pass):
    ts.write(make(0, 20), tmp_path / "a.npz")
    path = str(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="bins is 0"):
        evaluate_files([path], [[path]], recalibrations=["none"], metrics=["uce:bins=0"], one_pass=one_pass)


def test_scores_by_group_need_groups(tmp_path):
    ts.write(make(0, 20), tmp_path / "a.npz")
    with pytest.raises(BadFile, match="has no group"):
        evaluate_files([str(tmp_path / "a.npz")], [[str(tmp_path / "a.npz")]], by_group=True)


# The command ---------------------------------------------------------------------------------------------------------


def command(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    return stopped.value.code or 0


def test_the_command_takes_lists_globs_and_repeats(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sets = [make(k, 90, group=["x", "y", "z"] * 30) for k in range(3)]
    for k, cases in enumerate(sets):
        write_parts(cases, tmp_path, f"s{k}_", 3)
    listed = [
        "--calibration",
        "s0_0.npz",
        "s0_1.npz",
        "s0_2.npz",
        "--test",
        "s1_0.npz",
        "s1_1.npz",
        "s1_2.npz",
    ]
    assert (
        command("evaluate", *listed, "--test", "s2_*.npz", "--recalibrate", "none,sigma", "--json", "r.json")
        == 0
    )
    stored = json.loads(Path("r.json").read_text())
    expected = ts.evaluate(sets[0], sets[1:], recalibrations=QUICK)
    for ours, theirs in zip(stored["rows"], expected.rows):
        assert ours["value"] == pytest.approx(theirs["value"], rel=1e-10)
    assert stored["data"]["test"][1]["files"] == 3
    assert stored["cases"] == {"calibration": 90, "test": 90, "repeats": 2}
    assert command("evaluate", *listed, "--recalibrate", "none,sigma", "--by-group", "--json", "g.json") == 0
    assert sorted(json.loads(Path("g.json").read_text())["groups"]) == ["x", "y", "z"]
    assert "by group" in capsys.readouterr().out
    assert command("calibrate", "--calibration", "s0_*.npz", "--out", "card.json") == 0
    card = json.loads(Path("card.json").read_text())
    assert card["recalibration"]["factor"] == pytest.approx(
        expected.recalibrations["sigma"].factor, rel=1e-12
    )
    assert card["data"]["cases"] == 90
    assert command("apply", "card.json", "s1_0.npz", "--out", "new.npz") == 0
    assert command("evaluate", *listed, "--html", "page.html") == 2
    assert "--html needs all cases" in capsys.readouterr().err
    assert command("evaluate", *listed, "--address", "auto") == 2
    assert (
        command("evaluate", "--calibration", "s0_*.npz", "--test", "s0_*.npz", "--recalibrate", "none") == 0
    )
    assert "fitted on and scored" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc"
)
def test_memory_stays_flat(tmp_path):
    """Files of 600 MB in all, packed and not, in a third of that memory, most of it the libraries' own."""
    rng = np.random.default_rng(0)
    n = 1 << 23
    for k, save in enumerate((np.savez, np.savez, np.savez_compressed)):
        location = rng.standard_normal(n, dtype=np.float32)
        target = location + rng.standard_normal(n, dtype=np.float32)
        noise = {"aleatoric": rng.uniform(0.5, 1, n), "epistemic": np.full(n, 0.1)}
        save(tmp_path / f"{k}.npz", location=location, target=target, **noise)
    code = """
import re, sys
from truesigma.stream import evaluate_files
found = evaluate_files([sys.argv[1] + "/0.npz"], [[sys.argv[1] + "/[12].npz"]], recalibrations=["none", "sigma"])
assert 0.85 < found.evaluation.value("sigma", "coverage", level=0.9) < 0.95
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 250 * 1024
