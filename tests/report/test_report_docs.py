"""What the page about the report shows is what its commands print."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from truesigma.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    printed, names = "", {}
    for kind, block in re.findall(
        r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block, PAGE.name, "exec"), names)
            printed = output.getvalue()
        elif kind == "sh":
            for line in block.splitlines():
                with pytest.raises(SystemExit) as stopped:
                    main(shlex.split(line)[1:])
                assert not stopped.value.code
            printed = capsys.readouterr().out
        else:
            shown, said = (re.sub(r"\(\d+ kB\)", "", text).split() for text in (block, printed))
            assert said == shown
    assert Path("calibration.pdf").exists()
