"""Printed tables: aligned in a pipe, with the best in bold on a terminal."""

import io

import numpy as np

import truesigma as ts
from truesigma.cli.listing import catalogue
from truesigma.evaluation.text import (
    TextTable,
    comparison_table,
    evaluation_table,
    factor_doubt,
    plain_text,
    print_table,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def evaluation(**options):
    rng = np.random.default_rng(0)
    target = rng.normal(size=400)
    cases = ts.Cases(
        ts.Prediction(0 * target, aleatoric=0.25 + 0 * target, epistemic=0.01 + 0 * target), target
    )
    return ts.evaluate(cases[:200], cases[200:], **options)


def test_plain_columns_are_aligned():
    text = plain_text(
        TextTable("title", ("name", "a", "bb"), (("x", "1", "2"), ("long name", "10", "3")), ("note",))
    )
    assert text.split("\n") == [
        "title",
        "name        a  bb",
        "x           1   2",
        "long name  10   3",
        "note",
    ]


def test_the_best_of_each_line():
    table = evaluation_table(
        evaluation(recalibrations=["none", "sigma"], metrics=["coverage:level=0.9", "nll", "mse"])
    )
    assert [row[0] for row in table.rows] == ["coverage 90 %", "NLL", "MSE"]
    assert table.best == {(0, 2), (1, 2)}  # nearest to the level, lowest; the error is the same for both


def test_a_terminal_gets_colours_and_a_pipe_none():
    table = evaluation_table(evaluation(recalibrations=["none", "sigma"], metrics=["nll"]))
    for stream, bold in ((Terminal(), True), (io.StringIO(), False)):
        print_table(table, stream)
        assert ("\x1b[1m" in stream.getvalue()) == bold
        assert table.rows[0][1] in stream.getvalue()
        assert table.notes[0].split(" +-")[0] in stream.getvalue()


def test_words_in_brackets_are_not_markup():
    stream = Terminal()
    print_table(TextTable("[bold]", ("[red]",), (("[/x]",),), ("[y]",)), stream)
    assert all(words in stream.getvalue() for words in ("[bold]", "[red]", "[/x]", "[y]"))


def test_parts_with_other_conventions_stand_in_lines_of_their_own():
    """Under recipe `paper` the total is scored on the draws and the aleatoric part on the mean."""
    both = evaluation(
        recalibrations=["sigma", "sigma:part=aleatoric"], metrics=["uce", "mse"], recipe="paper"
    )
    table = evaluation_table(both)
    cells = {row[0]: row[1:] for row in table.rows}
    assert list(cells) == ["UCE x100", "UCE x100 (draws)", "UCE x100 (mean)", "MSE"]
    assert cells["UCE x100 (draws)"][0] == cells["UCE x100 (mean)"][1] == "-"


def test_the_catalogue_reads_every_plugin():
    for kind in ("recalibrate", "metrics", "diagrams", "datasets", "backbones", "sigmas", "recipes"):
        for entry in catalogue(kind):
            assert entry["help"], f"{kind} {entry['name']} has no line of help"
    sigma = next(entry for entry in catalogue("recalibrate") if entry["name"] == "sigma")
    assert [(o["name"], o["default"]) for o in sigma["options"]] == [
        ("part", "total"), ("outputs", "separate"), ("error", "mean"), ("solver", "closed"),
        ("robust", "False"),
    ]  # fmt: skip
    assert sigma["options"][0]["help"].startswith('"total", or "aleatoric"')


def test_two_choices_of_the_same_meaning_have_a_column_each():
    table = evaluation_table(evaluation(recalibrations=["sigma", "sigma:part=total"], metrics=["mse", "nll"]))
    assert table.head == ("metric", "sigma", "sigma:part=total")
    assert [row[1] == row[2] for row in table.rows] == [True, True]


def test_results_print_as_their_tables():
    y = np.random.default_rng(0).normal(size=40)
    compared = ts.compare(
        ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1), y), recalibrations=["none", "sigma"]
    )
    evaluated = evaluation(recalibrations=["none", "sigma"], metrics=["nll", "coverage"])
    for found, table in ((evaluated, evaluation_table), (compared, comparison_table)):
        assert str(found) == plain_text(table(found))
        shown = []
        found._repr_pretty_(type("Printer", (), {"text": staticmethod(shown.append)}), False)
        assert shown == [str(found)]


def test_a_network_trained_here_is_not_asked_for_its_unit():
    """Its mark says that units, order and scale are right: what is left is a training of few steps, or by heart."""
    small, large = (ts.recalibrate.sigma.Sigma(factor, None) for factor in (0.04, 8.0))
    assert factor_doubt(small, "a1b2").startswith(
        "a factor of 0.04 is far from 1: the network's own sigma is 25 times"
    )
    assert "8 times too small" in factor_doubt(large, "a1b2")
    y = np.random.default_rng(0).normal(size=40)
    cases = ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 100), y, checkpoint="a1b2")
    shown = str(ts.evaluate(cases, cases, recalibrations=["sigma"], metrics=["nll"]))
    assert "after a training of few steps" in shown
    assert "one unit" not in shown


def test_a_part_that_says_nothing_of_the_errors_is_not_doubted():
    """Its factor is 0, or near it by chance, and no unit is wrong; a wrong unit shows in the other."""
    small = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        aleatoric, noise = rng.gamma(4.0, 1.0, 500), rng.gamma(1.0, 2.0, 500)
        p = ts.Prediction(0 * aleatoric, aleatoric=aleatoric, epistemic=noise)
        fitted = ts.recalibrate.two_factor.fit(p, np.sqrt(aleatoric) * rng.normal(size=500))
        small.append(fitted.epistemic)
        assert factor_doubt(fitted) == ""
        wrong = ts.recalibrate.two_factor.fit(p, 40 * np.sqrt(aleatoric) * rng.normal(size=500))
        assert factor_doubt(wrong).startswith(f"a factor of {max(wrong.factors):.3g} is far from 1")
    assert min(small) == 0 < max(small) < 0.3
