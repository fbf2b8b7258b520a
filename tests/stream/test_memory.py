"""Memory stays flat, whatever the size of the files."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


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
