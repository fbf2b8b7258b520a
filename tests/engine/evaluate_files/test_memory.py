"""Memory stays flat, whatever the size of the files."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc"
    ),
]
PEAK = """
import re
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1))
"""


def megabytes(code, folder):
    """The most memory that a process of its own needs to run the code."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code + PEAK, str(folder)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) >> 10


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
import sys
import truesigma as ts
files = [sys.argv[1] + "/0.npz"], [[sys.argv[1] + "/[12].npz"]]
found = ts.evaluate(*files, recalibrations=["none", "sigma"], engine="local")
assert 0.85 < found.value("sigma", "coverage", level=0.9) < 0.95
"""
    assert megabytes(code, tmp_path) < 250


def test_a_table_in_one_row_group(tmp_path):
    """Such a row group is the whole file; still only some of its rows are held."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    n = 1 << 24
    columns = {name: np.random.default_rng(k).uniform(1, 2, n) for k, name in enumerate(("target", "scale"))}
    table = pa.table({"location": columns["target"], **columns})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=n)
    code = """
import sys
from truesigma.files.chunks import chunked_cases
from truesigma.files.find import find_sources
(source,) = find_sources([sys.argv[1] + "/a.parquet"])
assert sum(len(cases) for cases in chunked_cases(source)) == 1 << 24
"""
    assert megabytes(code, tmp_path) < 300


def test_columns_that_are_not_read(tmp_path):
    """Images beside the predictions are larger than memory; they stay where they are."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(0)
    numbers = {name: rng.uniform(1, 2, 4000) for name in ("location", "scale", "target")}
    images = pa.array([rng.bytes(100_000) for _ in range(40)] * 100)
    table = pa.table({**numbers, "image": images})
    parquet.write_table(
        table, tmp_path / "a.parquet", row_group_size=40, use_dictionary=False, compression="none"
    )
    code = """
import sys
from truesigma.files.chunks import chunked_cases
from truesigma.files.find import find_sources
(source,) = find_sources([sys.argv[1] + "/a.parquet"])
assert sum(len(cases) for cases in chunked_cases(source)) == 4000
"""
    assert megabytes(code, tmp_path) < 250


def test_draws_of_a_set_are_not_held_together(tmp_path):
    """Scores that sort all cases need a number of each, not its draws."""
    rng = np.random.default_rng(0)
    for k in range(8):
        mean = rng.standard_normal((25, 160_000), dtype=np.float32)
        np.savez(tmp_path / f"{k}.npz", mean=mean, variance=np.ones_like(mean), target=mean[0])
    code = """
import sys
import truesigma as ts
files = [sys.argv[1] + "/0.npz"], [[sys.argv[1] + "/*.npz"]]
found = ts.evaluate(*files, recalibrations=["none"], metrics=["ause"], engine="local")
assert found.value("none", "ause") > 0
"""
    assert megabytes(code, tmp_path) < 250


def test_draws_that_were_read_are_let_go(tmp_path):
    """They lie in the file on the draw's axis first, so that they are mapped."""
    mean = np.tile(np.random.default_rng(0).standard_normal((25, 100_000), dtype=np.float32), (1, 20))
    np.savez(tmp_path / "a.npz", mean=mean, variance=np.ones_like(mean), target=mean[0])
    code = """
import sys
from truesigma.files.chunks import chunked_cases
from truesigma.files.find import find_sources
(source,) = find_sources([sys.argv[1] + "/a.npz"])
assert sum(len(cases) for cases in chunked_cases(source)) == 2_000_000
"""
    assert megabytes(code, tmp_path) < 300
