"""How far a command is, in words."""

from truesigma.cli import _output


def test_a_line_now_and_then_and_none_at_the_end(monkeypatch, capsys):
    monkeypatch.setattr("truesigma.cli._output.EVERY", 0.0)
    for tick in (_output.ticker(4), _output.report("maps", 4)):
        tick(1)
        tick(3)
    said = [line.partition(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["1 of 4 cases", "maps: 1 of 4 cases"]
