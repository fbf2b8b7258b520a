"""What the pages about reports and own predictions show is what their commands print."""

import contextlib
import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest

from truesigma.cli import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def absent(block: str) -> bool:
    """Whether a block begins with `# needs name` and that package is not installed."""
    needed = re.match(r"# needs (\w+)\n", block)
    return needed is not None and importlib.util.find_spec(needed[1]) is None


@pytest.mark.parametrize("page", ["report.md", "predictions.md"])
def test_the_page_runs(page, tmp_path, monkeypatch, capsys):
    for package in ("matplotlib", "sklearn", "torch", "lightning"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    printed, names = None, {}
    for kind, block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if kind == "python" and absent(block):
            printed = None
        elif kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block, page, "exec"), names)
            printed = output.getvalue()
        elif kind == "sh":
            for line in block.splitlines():
                with pytest.raises(SystemExit) as stopped:
                    main(shlex.split(line)[1:])
                assert not stopped.value.code
            printed = capsys.readouterr().out
        elif printed is not None:
            shown, said = (re.sub(r"\(\d+ kB\)", "", text).split() for text in (block, printed))
            assert said == shown
    assert Path("report.html").exists()
