"""Files that differ in outputs, laws or units name both; those that change or go are noticed."""

import pytest
from file_sets import QUICK, make, scored, write_parts

import truesigma as ts
from truesigma.files.disk import BadFile


def test_files_with_other_outputs_name_both(tmp_path):
    ts.write(make(0, 20), tmp_path / "a.npz")
    ts.write(make(1, 20, outputs=(2,)), tmp_path / "b.npz")
    with pytest.raises(BadFile, match=r"a\.npz has outputs of shape \(3,\) and .*b\.npz \(2,\)"):
        scored(tmp_path / "*.npz", tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"b\.npz\) has outputs of shape \(2,\)"):
        scored(tmp_path / "a.npz", tmp_path / "b.npz")


def test_files_with_other_laws_and_units_name_both(tmp_path):
    ts.write(make(0, 20), tmp_path / "a.npz")
    ts.write(make(1, 20, law="laplace"), tmp_path / "b.npz")
    with pytest.raises(BadFile, match=r"a\.npz has the law .*normal.* and .*b\.npz .*laplace"):
        scored(tmp_path / "*.npz", tmp_path / "a.npz")
    with pytest.raises(BadFile, match=r"b\.npz: law 'normal' was asked for"):
        scored(tmp_path / "*.npz", tmp_path / "a.npz", law="normal")
    cases = make(1, 20)
    ts.write(ts.Cases(cases.prediction, cases.target, unit="cm"), tmp_path / "b.npz")
    with pytest.raises(BadFile, match=r"the unit mm and .* cm"):
        scored(tmp_path / "*.npz", tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"b\.npz\) has targets in cm, .* in mm"):
        scored(tmp_path / "a.npz", tmp_path / "b.npz")


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
        scored(paths[0], paths[1], recalibrations=QUICK, report=report)


def test_a_file_that_is_removed_between_passes(tmp_path):
    paths = [write_parts(make(k, 100), tmp_path, f"s{k}_", 2) for k in (0, 1)]

    def report(words, total):
        if words == "test 1":
            (tmp_path / "s1_0.npz").unlink()
        return lambda done: None

    with pytest.raises(BadFile, match=r"s1_0\.npz was removed"):
        scored(paths[0], paths[1], recalibrations=QUICK, report=report)
