"""Names from strangers, and terminals that cannot show them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import truesigma


def test_escapes_in_names_do_not_reach_the_terminal(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(
        "target,location,scale,id,group\n1,2,3,\x1b[2Jx,\x1b]0;t\x07\n1,2,-3,y,z\n"
    )
    code, out, err = run("evaluate", "--calibration", "a.csv", "--test", "a.csv")
    assert code == 2
    assert "\x1b" not in out + err
    (tmp_path / "a.csv").write_text(
        "target,location,scale,id,group\n1,2,3,\x1b[2Jx,\x1b]0;t\x07\n1,2,3,\x1b[2Jx,z\n"
    )
    code, out, err = run("evaluate", "--by-group", "--calibration", "a.csv", "--test", "a.csv")
    assert code == 0, err
    assert "\\x1b]0;t\\x07" in out
    assert "\x1b" not in out + err


@pytest.mark.parametrize(
    "words", ["evaluate --calibration tä.csv --test tä.csv", "calibrate --calibration tä.csv -o kä.json"]
)
def test_a_terminal_of_ascii_alone(tmp_path, words):
    (tmp_path / "tä.csv").write_text(
        "target,location,scale,unit,id\n1,2,3,µm,ä\n4,5,6,µm,b\n", encoding="utf-8"
    )
    source = str(Path(truesigma.__file__).parents[1])
    setting = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-m", "truesigma", *words.split()],
        cwd=tmp_path,
        env={**os.environ, **setting},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"warning" not in done.stdout
