"""How far a command is, where there is no terminal for a bar."""

from truesigma.cli._progress import ticker


def test_a_line_now_and_then_and_none_at_the_end(monkeypatch):
    monkeypatch.setattr("truesigma.cli._progress.EVERY", 0.0)
    said = []
    tick = ticker(said.append, 4)
    tick(1)
    tick(3)
    assert [line.partition(",")[0] for line in said] == ["1 of 4 cases"]
