"""A folder with files in it, and the program run there."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.store import write


def simulated(cases, seed, prefix):
    """Cases whose scale is half of what it should be."""
    rng = np.random.default_rng(seed)
    a, e = rng.lognormal(-4, 0.5, size=(2, cases))
    target = rng.normal(size=cases)
    location = target + 2 * np.sqrt(a + e) * rng.normal(size=cases)
    return ts.Cases(
        ts.Prediction(location, aleatoric=a, epistemic=e),
        target,
        unit="mm",
        id=[f"{prefix}{i}" for i in range(cases)],
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An own folder with calibration and test files, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    write(simulated(300, 0, "c"), "cal.csv")
    write(simulated(200, 1, "t"), "test.csv")
    write(simulated(200, 2, "r"), "test2.parquet")
    return tmp_path


@pytest.fixture
def done(run):
    """Run a command that must succeed; (stdout, stderr)."""

    def call(*words):
        code, out, err = run(*words)
        assert code == 0, err
        return out, err

    return call
