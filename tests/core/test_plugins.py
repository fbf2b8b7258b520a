"""The folder is the registry: names, files of one's own."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import truesigma
from truesigma import Cases, Prediction, evaluate, metrics, recalibrate
from truesigma.core import plugins
from truesigma.evaluation.text import evaluation_table

METRIC = '''
"""Twice the largest error."""
from truesigma.core.arrays import namespace
from truesigma.core.scores import Mean, score_of

TITLE, BETTER, UNITS = "mine", "lower", 1

def terms(elements, *, times=2.0):
    return times * namespace(elements.residual).abs(elements.residual)

SUMS = Mean(terms)

def score(prediction, target, *, weight=None, times: float = {default}) -> float:
    """A score of one's own."""
    return score_of(SUMS, prediction, target, weight=weight, times=times)
'''


@pytest.fixture
def mine(tmp_path):
    def write(folder, default):
        path = tmp_path / folder / "mine.py"
        path.parent.mkdir()
        path.write_text(METRIC.replace("{default}", str(default)))
        return str(path)

    return write


def test_names_are_the_files():
    for kind in ("metrics", "recalibrate"):
        folder = Path(truesigma.__file__).parent / kind
        files = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))
        assert plugins.names(kind) == files
    assert dir(metrics) == plugins.names("metrics")
    assert dir(recalibrate) == plugins.names("recalibrate")
    assert metrics.uce is plugins.load("metrics", "uce")


def test_unknown_names_say_what_there_is():
    with pytest.raises(ValueError, match=r"called 'ucee'; expected one of .*uce"):
        plugins.load("metrics", "ucee")
    with pytest.raises(ValueError, match="kind is 'metric'; expected one of recalibrate, metrics"):
        plugins.names("metric")
    with pytest.raises(AttributeError, match="no attribute 'ucee'"):
        _ = metrics.ucee


def test_a_file_of_ones_own_is_shown_by_its_title_and_its_better_side(mine):
    path = Path(mine("a", 2.0))
    changed = path.read_text().replace("abs(elements.residual)", "abs(elements.z)")
    path.write_text(changed.replace('"mine", "lower"', '"Mine, all mine", "higher"'))
    cases = Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), [1.0, 2.0])
    result = evaluate(cases, cases, recalibrations=["none", "sigma"], metrics=[str(path)])
    table = evaluation_table(result)
    assert table.rows[0][0] == "Mine, all mine"
    none, sigma = (row["value"] for row in result.rows)
    assert sigma < none
    assert table.best == {(0, 1)}


def test_files_of_the_same_name_stay_apart(mine):
    """A metric finds its formula by its module's name: two files called mine.py must not share it."""
    one, other = (plugins.load("metrics", mine(f, k)) for f, k in (("a", 2.0), ("b", 10.0)))
    p = Prediction([0.0], aleatoric=[1.0])
    assert (one.score(p, [1.0]), other.score(p, [1.0])) == (2.0, 10.0)


def test_a_file_of_ones_own_is_executed_once_and_again_when_it_has_changed(tmp_path):
    path, log = tmp_path / "counted.py", tmp_path / "log"
    path.write_text(f"open({str(log)!r}, 'a').write('x')\ndef fit(cases): ...\n")
    modules = [plugins.load("recalibrate", str(path)) for _ in range(3)]
    assert modules[0] is modules[1] is modules[2]
    assert log.read_text() == "x"
    path.write_text(path.read_text() + "MORE = 1\n")
    assert plugins.load("recalibrate", str(path)).MORE == 1
    assert log.read_text() == "xx"


def test_a_bug_of_a_file_of_ones_own_is_told_from_a_refusal(tmp_path, run):
    """numpy's errors are ValueErrors, too: they are no reason to think that the input was wrong."""
    path, cases = tmp_path / "mine.py", tmp_path / "cases.csv"
    cases.write_text("target,location,scale\n" + "1.0,0.5,1.0\n2.0,2.5,1.0\n" * 20)
    choice = f"none,sigma,{path}"  # where a refused one would only be left out, with a reason
    words = ["evaluate", "--calibration", str(cases), "--test", str(cases), "--recalibrate", choice]
    head = "import numpy as np\nfrom truesigma.core import Refusal\ndef fit(prediction, target, **rest):\n"
    path.write_text(head + "    return np.zeros(2) + np.zeros(3)\n")
    code, _, said = run(*words)
    assert code == 1
    assert "mine.py, line 4: ValueError" in said
    path.write_text(head + "    raise Refusal('these cases are too odd')\n")
    code, table, said = run(*words)
    assert code == 0
    assert "too odd" in table
    assert "is a bug" not in said


def test_files_without_their_function_are_refused(tmp_path):
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"empty.py defines no score\(\); docs/adding.md shows"):
        plugins.load("metrics", str(empty))
    with pytest.raises(ValueError, match="there is no plug-in file"):
        plugins.load("metrics", str(tmp_path / "missing.py"))


def test_a_stored_recalibration_does_not_choose_the_code_that_runs(tmp_path):
    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('ran')\n")
    with pytest.raises(ValueError, match=r"no recalibration is called .*expected one of"):
        truesigma.load_recalibration({"name": str(trap)})
    with pytest.raises(ValueError, match="needs its name"):
        truesigma.load_recalibration({"factor": 2.0})


def test_a_metric_without_sums_is_scored_on_its_own(tmp_path):
    path = tmp_path / "largest.py"
    path.write_text(
        'TITLE, BETTER, UNITS = "largest", "lower", 1\n'
        "def score(prediction, target, *, weight=None) -> float:\n"
        '    """The largest error."""\n'
        "    return float(abs(target - prediction.location).max())\n"
    )
    cases = Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 1.0]), np.array([1.0, -2.0]))
    assert evaluate(cases, cases, recalibrations=["none"], metrics=[str(path)]).rows[0]["value"] == 2.0


def test_files_that_cannot_be_loaded(tmp_path):
    for text, words in (("def fit(:\n", "SyntaxError"), ("import no_such_library\n", "no_such_library")):
        (tmp_path / "bad.py").write_text(text)
        with pytest.raises(ValueError, match=f"bad.py cannot be loaded .*{words}.*correct it"):
            plugins.load("recalibrate", str(tmp_path / "bad.py"))


def test_threads_never_get_half_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The race of plans builds two networks at a time, and both may be the first to ask for a backbone."""
    failed: list[BaseException] = []
    monkeypatch.setattr(metrics, "uce", metrics.uce)  # which is put back

    def ask(together: threading.Barrier) -> None:
        together.wait()
        try:
            assert plugins.load("metrics", "uce").score
        except AttributeError as problem:
            failed.append(problem)

    for _ in range(30):
        monkeypatch.delitem(sys.modules, "truesigma.metrics.uce", raising=False)
        together = threading.Barrier(6)
        threads = [threading.Thread(target=ask, args=(together,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
