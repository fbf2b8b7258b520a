"""What every command keeps to: help, exit codes, quiet, one paragraph of error, logs without control characters."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import typer

from truesigma.cli import build, main
from truesigma.core.plugins import names

PROGRAM = [sys.executable, "-c", "from truesigma.cli import main; main()"]


def paths_of(command, path=()):
    """The words of every command, through groups."""
    if not hasattr(command, "commands"):
        return [path]
    return [found for name, sub in command.commands.items() for found in paths_of(sub, (*path, name))]


COMMANDS = paths_of(typer.main.get_command(build()))


def test_there_are_commands_to_look_at():
    assert {("evaluate",), ("report",), ("figure",), ("train",), ("list",)} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_help_and_a_wrong_option_is_2(command, run):
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: truesigma {' '.join(command)}" in out
    code, out, err = run(*command, "--no-such-option")
    assert (code, out) == (2, "")
    assert "--no-such-option" in err
    assert "Traceback" not in err


QUIET = {
    "evaluate": ["--calibration", "cal.csv", "--test", "test.csv", "--recalibrate", "none,sigma"],
    "calibrate": ["--calibration", "cal.csv", "-o", "card2.json"],
    "apply": ["card.json", "test.csv", "-o", "out.csv"],
    "report": ["--calibration", "cal.csv", "--test", "test.csv", "--replicates", "20"],
    "compare": ["--calibration", "cal.csv", "--recalibrate", "none,sigma"],
    "list": ["metrics"],
}


@pytest.mark.parametrize("name", QUIET)
def test_quiet_says_nothing(folder, run, name):
    assert run("--quiet", "calibrate", "--calibration", "cal.csv", "-o", "card.json") == (0, "", "")
    assert run(name, *QUIET[name], "--quiet") == (0, "", "")
    code, out, err = run(name, *QUIET[name])
    assert (code, err) == (0, "")
    assert out.endswith("\n")
    assert not set(out) & set("\r\x1b\x08"), "a log file is no terminal"


def complete(monkeypatch, capsys, *words):
    """What bash is offered for the last of these words."""
    monkeypatch.setenv("_TRUESIGMA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit):
        main([])
    return capsys.readouterr().out.split()


def test_completion_offers_commands_options_and_names(monkeypatch, capsys):
    assert complete(monkeypatch, capsys, "truesigma", "eval") == ["evaluate"]
    assert complete(monkeypatch, capsys, "truesigma", "evaluate", "--miss") == ["--missing"]
    offered = complete(monkeypatch, capsys, "truesigma", "evaluate", "--recalibrate", "none,s")
    assert offered == [f"none,{name}" for name in names("recalibrate") if name.startswith("sigma")]
    assert complete(monkeypatch, capsys, "truesigma", "report", "--recipe", "pa") == ["paper"]
    assert complete(monkeypatch, capsys, "truesigma", "train", "simu") == ["simulated"]
    assert "backbones" in complete(monkeypatch, capsys, "truesigma", "list", "b")


def test_bash_takes_the_script(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    program = tmp_path / "truesigma"
    program.write_text(f"#!{sys.executable}\nfrom truesigma.cli import main\nmain()\n")
    program.chmod(0o755)
    lines = """
    eval "$(_TRUESIGMA_COMPLETE=source_bash truesigma)"
    COMP_WORDS=(truesigma cali); COMP_CWORD=1
    _truesigma_completion truesigma
    echo "offered: ${COMPREPLY[*]}"
    """
    place = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", lines], capture_output=True, text=True, env=place)
    assert "offered: calibrate" in done.stdout, done.stderr


def test_a_reader_that_went_away_is_no_fault_of_ours(folder):
    """`truesigma list | head -1`: no traceback."""
    lines = subprocess.Popen([*PROGRAM, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    lines.stdout.close()
    assert b"Traceback" not in lines.stderr.read()
    lines.wait(60)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_is_130_and_leaves_no_file(folder):
    """Stopped while it waits for its input, a pipe that nobody writes to."""
    os.mkfifo("never.csv")
    running = subprocess.Popen(
        [*PROGRAM, "report", "--calibration", "never.csv", "--test", "test.csv", "-o", "page.html"],
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background ignore interrupts, and what they start would, too.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    pipe = None
    while pipe is None and running.poll() is None:
        try:
            pipe = os.open("never.csv", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # it does not read yet
            time.sleep(0.1)
    time.sleep(0.5)  # until it waits: Python notices no signal that comes just before it does
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    os.close(pipe)
    assert "Traceback" not in running.stderr.read()
    assert not (folder / "page.html").exists()
