"""Killed at random moments and resumed, every command leaves the files of an undisturbed one, and no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .commands import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_eight_kills(tmp_path):
    words = [sys.executable, "-m", "tests.kill", "8", "0", str(tmp_path / "outcome.json")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads((tmp_path / "outcome.json").read_text())["commands"]
    assert sum(one["killed"] + one["ended before"] for one in outcome.values()) == 8
    assert all(one["equal"] == one["resumed"] >= 1 for one in outcome.values())


def test_the_committed_outcome_has_no_problems():
    lines = (ROOT / "tests" / "kill" / "outcome.txt").read_text().splitlines()
    outcomes = [json.loads(line[line.index("{") :]) for line in lines]
    assert {line.partition(" {")[0] for line in lines} == set(COMMANDS)
    assert sum(one["killed"] for one in outcomes) >= 50
    assert all(one["equal"] == one["resumed"] and not one["problems"] for one in outcomes)
