"""How far a reader has to go: from a call to the formula, and from a command to a number."""

import sys
from pathlib import Path

import numpy as np
import pytest

import truesigma
from truesigma import Cases, Prediction, write
from truesigma.cli import main

ROOT = Path(truesigma.__file__).parent


def stack_at(file: str, function: str, call) -> list[str]:
    """Make a call, and list the package's files on the way to the first call of a function of a file."""
    seen: list[str] = []

    def watch(frame, event, _):
        code = frame.f_code
        if event == "call" and not seen and code.co_name == function and code.co_filename == str(ROOT / file):
            while frame is not None:
                path = Path(frame.f_code.co_filename)
                if path.is_relative_to(ROOT):
                    seen.append(path.relative_to(ROOT).as_posix())
                frame = frame.f_back

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(dict.fromkeys(seen[::-1]))


def test_from_the_command_to_uce_in_twelve_modules(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("calibration", "test"):
        y = rng.normal(size=50)
        write(Cases(Prediction(0 * y, aleatoric=y**2 + 1), y), f"{name}.csv")
    command = ["evaluate", "--calibration", "calibration.csv", "--test", "test.csv", "--metrics", "uce"]

    def call() -> None:
        with pytest.raises(SystemExit):
            main(command)

    way = stack_at("metrics/uce.py", "finish", call)
    assert "UCE" in capsys.readouterr().out
    assert (way[0], way[-1]) == ("cli/__init__.py", "metrics/uce.py")
    assert len(way) <= 12, way
