"""The script that measures losses: ratios to the network of squared errors at the same seed."""

import importlib.util

import pytest
from pages import DOCS


def test_ratios_are_paired_by_seed():
    pytest.importorskip("lightning")
    where = importlib.util.spec_from_file_location("measure_losses", DOCS / "scripts" / "measure_losses.py")
    script = importlib.util.module_from_spec(where)
    where.loader.exec_module(script)
    # From seed to seed the level changes by far more than the ratio, which is 1.1 and 0.9.
    rows = [
        {"loss": loss, "seed": str(seed), "rmse": str(r * level), "crps": str(c * level)}
        for seed, level in enumerate((1.0, 10.0, 100.0))
        for loss, r, c in (("mse", 1.0, 1.0), ("nll", 1.1, 0.9))
    ]
    lines = script.table(rows).splitlines()
    assert lines[1].split() == ["nll", "1.100", "[1.100,", "1.100]", "0.900", "[0.900,", "0.900]"]
    assert len(lines) == 2
