"""How far a command is, where there is no terminal for a bar."""

from truesigma.cli import _output


def test_a_line_now_and_then_and_none_at_the_end(monkeypatch, capsys):
    monkeypatch.setattr("truesigma.cli._output.EVERY", 0.0)
    tick = _output.ticker(4)
    tick(1)
    tick(3)
    assert [line.partition(",")[0] for line in capsys.readouterr().err.splitlines()] == ["1 of 4 cases"]
