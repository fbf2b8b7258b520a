"""A folder of a run is data: Python that it names is executed only if the user names that file himself."""

import io
import shutil
from contextlib import redirect_stderr, redirect_stdout

import pytest

from truesigma.cli import main
from truesigma.files.disk import read_json, write_json
from truesigma.imaging.data.source import recorded
from truesigma.imaging.prediction.runs import open_runs

EVIL = {
    "backbone": "from truesigma.imaging.backbones.small import *",
    "dataset": "from truesigma.imaging.datasets.table import *",
}


@pytest.fixture(params=list(EVIL))
def received(request, runs, tmp_path):
    """A run whose recipe names a file beside it, its hash made anew; the file, and what it leaves when it is run."""
    folder = shutil.copytree(runs / "0", tmp_path / "run")
    code, trace = tmp_path / "evil.py", tmp_path / "executed"
    code.write_text(f"open({str(trace)!r}, 'w').close()\n{EVIL[request.param]}\n")
    about = read_json(folder / "recipe.json")
    part = about["network"] if request.param == "backbone" else about["record"]
    part[request.param] = str(code)
    write_json(about, folder / "recipe.json", strict=True, seal=True)
    return folder, code, trace, request.param


def command(*words):
    """A command's exit code, and what it says."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    return stopped.value.code or 0, said.getvalue()


def test_only_a_file_that_the_user_names_is_executed(received, folder, tmp_path):
    received, code, trace, kind = received
    predict = ("predict", received, "--split", "test", "-o", tmp_path / "test.npz")
    images = ("predict", received, "--images", folder / "00.png", "-o", tmp_path / "new.csv")
    for words in (predict, images, ("export", received, "-o", tmp_path / "net.onnx")):
        status, said = command(*words)
        assert status == 2
        assert "recipe.json names the Python file" in said
        assert f"--plugin {code}" in said
    status, said = command("verify", received)
    assert status == 0
    assert not trace.exists()
    assert ("cannot be known: best.safetensors" in said) == (kind == "backbone")
    assert command(*predict, "--plugin", code)[0] == 0
    assert trace.exists()


def test_the_users_file_is_taken_not_the_one_beside_the_run(received, tmp_path):
    received, code, trace, _ = received
    own = tmp_path / "mine" / "evil.py"
    own.parent.mkdir()
    own.write_text(code.read_text().replace("executed", "mine/executed"))
    run = open_runs([received], device="cpu", code=[own])[0]
    assert recorded(run.about, code=[own]).load().outputs == 1
    assert not trace.exists()
    assert (own.parent / "executed").exists()
