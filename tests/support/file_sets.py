"""Cases written as sets of files, and how two evaluations are compared."""

from itertools import pairwise

import numpy as np
import pytest
from samples import draw

import truesigma as ts
from truesigma.cli import main

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


def command(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    return stopped.value.code or 0


def scored(calibration, *tests, **options):
    """The evaluation of sets of files by passes over them, each named by a path or a glob."""
    return ts.evaluate([calibration], [[one] for one in tests], engine="local", **options)
