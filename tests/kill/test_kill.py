"""Killed at random moments and resumed, every command leaves the files of an undisturbed one, and no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .commands import COMMANDS


@pytest.mark.slow
def test_some_kills_of_every_command():
    words = [sys.executable, "-m", "tests.kill", "8", "0"]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " {" in line)
    assert list(told) == list(COMMANDS)
    assert all(json.loads(one)["equal"] >= 1 for one in told.values())
