"""The committed results: whole, without images, labels or paths, and the source of every number in RESULTS.md."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from paper import open_paper
from paper.drawing import find_figure, lacking, read_figures
from paper.pages.deviations import deviations_text
from paper.pages.markdown import results_text, run_lines
from paper.rows import read_table, rows
from paper.text import table_text
from paper.write import score_files

ROOT = Path(__file__).parents[2] / "paper"
RUNS = sorted(path.parent.name for path in (ROOT / "results").glob("*/run.json"))
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e-?\d+)?")


def same_numbers(written: str, computed: str) -> str | None:
    """None where two texts say the same, numbers to one unit of their last digit; else the first difference.

    Another processor may add in another order, and what is then rounded may fall on the other side.
    """
    if NUMBER.split(written) != NUMBER.split(computed):
        return f"words differ: {_first(NUMBER.split(written), NUMBER.split(computed))}"
    for one, other in zip(NUMBER.findall(written), NUMBER.findall(computed)):
        digits, _, power = one.partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        if abs(float(one) - float(other)) > 1.01 * unit:
            return f"{one} is written, {other} computed"
    return None


def _first(left: list[str], right: list[str]) -> str:
    for a, b in zip(left, right):
        if a != b:
            return f"{a!r} is written, {b!r} computed"
    return f"{len(left)} parts are written, {len(right)} computed"


def cells(text: str) -> dict[tuple[str, ...], str]:
    """The cells of Markdown tables by (network, source, column)."""
    found, head = {}, []
    for line in text.splitlines():
        if not line.startswith("|"):
            head = []
            continue
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if not head:
            head = row
        elif set(line) - set("|- "):
            found |= {(row[0], row[1], column): cell for column, cell in zip(head[2:], row[2:])}
    return found


def test_numbers_are_compared_to_their_last_digit():
    assert same_numbers("UCE 0.025 and 1.50e-3", "UCE 0.026 and 1.51e-3") is None
    assert "0.025 is written" in same_numbers("UCE 0.025", "UCE 0.028")
    assert "words differ" in same_numbers("holds: 0.1", "does not hold: 0.1")


@pytest.mark.parametrize("name", RUNS)
def test_a_result_is_whole_and_holds_no_image_label_or_path(name):
    paper = open_paper(ROOT)
    run, planned = paper.run(name), paper.plan.find(name)
    about = run.about
    stated = (about["data_set"], about["network"], about["likelihood"], about["seed"])
    assert stated == (planned.data_set, planned.network, planned.likelihood, planned.seed)
    assert len(run.history) == about["epochs"]
    assert 1 <= about["best_epoch"] <= about["epochs"]
    text = (run.folder / "run.json").read_text()
    assert not re.search(r'"(/|[A-Z]:\\)', text), "a path of the machine it was made on"
    repeats = about["recipe"]["train"]["repeats"]
    members = {member for joined in paper.plan.ensembles for member in joined.members}
    draws = 1 if name in members else about["recipe"]["train"]["draws"]  # a member has no dropout
    for split in run.splits:
        count = about["cases"][split]
        residual, log_variance = (run.arrays[f"{split}.{kind}"] for kind in ("residual", "log_variance"))
        outputs = len(about["unit"])
        assert residual.shape == (repeats if split == "test" else 1, draws, count, outputs)
        assert log_variance.shape[:3] == residual.shape[:3]
        assert run.arrays[f"member.{split}.residual"].shape == (1, 1, count, outputs)
    assert all(array.dtype == np.float16 and np.isfinite(array).all() for array in run.arrays.values())
    ends = (".residual", ".log_variance")
    assert all(key.endswith(ends) for key in run.arrays)


def test_tables_in_results_are_fresh_without_aux():
    """Quick: every number that needs no aux network is computed again from the draws."""
    paper = dataclasses.replace(open_paper(ROOT), recalibrations=("none", "sigma"))
    written = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert (
        same_numbers(run_lines(paper), next(p for p in written.split("\n\n") if p.startswith("| run ")))
        is None
    )
    for name, called in (("table1", "## Table 1"), ("table2", "## Table 2")):
        table = dataclasses.replace(read_table(ROOT, name), recalibrations=("none", "sigma"))
        section = written.split(called, 1)[1].split("\n## ", 1)[0]
        parts = re.split(r"(?m)^### ", section)[1:]
        computed = table_text(paper, table, rows(paper, table))
        assert len(parts) == len(computed)
        for part, text in zip(parts, computed.values()):
            found = cells(part)
            for key, cell in cells(text).items():
                assert same_numbers(found[key], cell) is None, key


@pytest.mark.slow
def test_results_are_fresh():
    paper = open_paper(ROOT)
    assert same_numbers((ROOT / "RESULTS.md").read_text(encoding="utf-8"), results_text(paper)) is None
    assert same_numbers((ROOT / "DEVIATIONS.md").read_text(encoding="utf-8"), deviations_text(paper)) is None
    for path, scores in score_files(paper).items():
        kept = json.loads(path.read_text(encoding="utf-8"))
        for recipe, evaluation in scores.items():
            for one, other in zip(kept[recipe]["rows"], evaluation["rows"], strict=True):
                assert one["metric"] == other["metric"]
                value = other["value"]  # none where a metric has no meaning
                assert one["value"] == (value if value is None else pytest.approx(value, rel=1e-2))


def test_every_figure_that_can_be_drawn_is_there():
    paper = open_paper(ROOT)
    written = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    for figure in read_figures(ROOT):
        drawn = not figure.runs or len(lacking(paper, figure)) < len(figure.runs)
        files = [ROOT / "figures" / f"{figure.stem}.{kind}" for kind in ("pdf", "png")]
        assert [path.is_file() for path in files] == [drawn, drawn], figure.id
        assert (f"figures/{figure.stem}.png" in written) == drawn


def test_every_run_of_the_overfitting_figure_is_there():
    """Its caption says which: Gaussian, of the paper's data sets, with dropout, not ended by chance."""
    paper = open_paper(ROOT)
    members = {member for joined in paper.plan.ensembles for member in joined.members}
    meant = {
        one.name
        for one, run in paper.finished()
        if (one.likelihood, one.name in members) == ("gaussian", False)
        and one.data_set in paper.plan.of_paper
        and run.validated_with_dropout
        and not run.misled
    }
    assert set(find_figure(ROOT, "overfitting").runs) == meant


def test_the_readme_counts_the_networks_as_results_do():
    """Of random weights three of ten too sure, of ImageNet weights both, of those that ended earlier one of eight."""
    written = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    text = written.partition("### Every network")[2]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.partition("\n![")[0].splitlines()
    ]
    found: dict[tuple[str, str], list[bool]] = {}
    for cells in (row for row in rows if len(row) > 4 and "±" in row[4]):
        factor, error = map(float, cells[4].split(" ± "))
        found.setdefault((cells[1], cells[2].partition(",")[0]), []).append(factor - 2 * error > 1)
    counts = {key: (sum(sure), len(sure)) for key, sure in found.items()}
    full = [count for (_, regime), count in counts.items() if regime == "full-length"]
    sure, of = (sum(parts) for parts in zip(*full))
    readme = " ".join((ROOT.parent / "README.md").read_text(encoding="utf-8").split())
    assert f"In {sure} of the {of} that we trained to their end" in readme
