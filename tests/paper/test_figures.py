"""Figures are drawn from what there is, and say what is missing."""

import copy
import dataclasses
import importlib
import json
import shutil

import numpy as np
import pytest
from made_up_paper import PAPER, TRUE_FACTOR

from paper import open_paper
from paper import write as produce
from paper.drawing import ablation, find_figure, read_figures
from paper.pages.seen import seen
from paper.rows import FIELDS
from paper.write import draw_one
from truesigma import Cases
from truesigma.diagrams import _bins, calibration
from truesigma.recalibrate import aux


@pytest.mark.parametrize("id", ["2", "4", "6", "7", "8", "11", "16", "C"])
def test_figures_are_drawn_from_what_there_is(paper, root, tmp_path, id):
    made = draw_one(paper, find_figure(root, id), tmp_path)
    assert [f.suffix for f in made.files] == [".pdf", ".png"]
    assert all(f.stat().st_size > 5000 for f in made.files)
    assert all(row["value"] is None or np.isfinite(row["value"]) for row in made.rows)
    json.dumps(made.rows, allow_nan=False)


def test_figures_without_results_say_so(paper, root, tmp_path):
    made = draw_one(paper, find_figure(root, "1"), tmp_path)
    assert made.files == ()
    assert "not yet run: step 4" in made.text
    for row in (*made.rows, *draw_one(paper, find_figure(root, "11"), tmp_path).rows):
        assert set(FIELDS) <= set(row)
        assert (row["value"] is None) == (row["reason"] is not None)
    with pytest.raises(ValueError, match="no figure '99'"):
        find_figure(root, "99")


def test_the_ablation_is_a_calibration_diagram_for_each_number_of_hidden_units(
    paper, root, tmp_path, monkeypatch
):
    monkeypatch.setattr(ablation, "HIDDEN", (1, 3))
    figure = dataclasses.replace(find_figure(root, "10"), runs=("oct_resnet101",))
    rows = draw_one(paper, figure, tmp_path).rows
    assert [(row["recipe"], row["hidden"]) for row in rows] == [
        (r, h) for r in ("paper", "exact") for h in (1, 3)
    ]
    run = paper.run("oct_resnet101")
    (valid,), test = (run.cases(split) for split in ("valid", "test"))
    fitted = aux.fit(valid, hidden=3)
    expected = calibration.table([Cases(fitted(one.prediction), one.target) for one in test])
    assert rows[-1]["value"] == expected.uce


def test_a_figure_that_can_no_longer_be_drawn_is_removed(paper, monkeypatch, tmp_path):
    only = [f for f in read_figures(paper.root) if f.id in ("1", "C")]
    monkeypatch.setattr(produce, "read_figures", lambda _: only)
    monkeypatch.setattr(produce, "score_files", lambda _: {})
    for name in ("results_text", "deviations_text"):
        monkeypatch.setattr(produce, name, lambda _: "")
    here = copy.copy(paper)
    object.__setattr__(here, "root", shutil.copytree(paper.root, tmp_path / "paper"))
    stale = here.root / "figures" / f"{only[0].stem}.png"
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"of a result that is gone")
    produce.write_all(here, lambda _: None)
    assert not stale.exists()
    assert (stale.parent / f"{only[1].stem}.png").exists()


def test_crowded_bins_get_a_row_of_equal_count(paper, root, tmp_path, monkeypatch):
    figure = dataclasses.replace(find_figure(root, "21"), runs=("oct_resnet101",))
    plain = draw_one(paper, figure, tmp_path).rows
    assert {row["spacing"] for row in plain} == {"width"}
    assert "one bin of equal width" not in seen(paper, figure, ["oct_resnet101"])
    monkeypatch.setattr(_bins, "CROWDED", 0.0)
    rows = draw_one(paper, figure, tmp_path).rows
    assert list(rows[: len(plain)]) == list(plain)
    assert [(row["recipe"], row["spacing"]) for row in rows[len(plain) :]] == [("exact", "mass")] * 3
    assert "nearly all cases are in one bin of equal width" in seen(paper, figure, ["oct_resnet101"])


def test_what_ours_show_stands_below_what_the_paper_says(paper, root):
    figures = {figure.id: figure for figure in read_figures(root)}
    assert figures["2"].caption.startswith("The paper: The network overfits")
    assert figures["tails"].caption == figures["tails"].says
    said = seen(paper, figures["21"], ["oct_resnet101"])
    assert "OCT, ResNet-101: without recalibration the variance is too small, s = " in said
    factor = float(said.split("s = ")[1].split()[0])
    assert factor == pytest.approx(TRUE_FACTOR, rel=0.1)
    history = seen(paper, figures["2"], ["oct_resnet101"])
    assert (
        "the test MSE is 1.75 times that of training, the test variance 0.57 times the test MSE, and 1.00"
        in history
    )
    joined = ["boneage_densenet201_ensemble", "boneage_densenet201"]
    assert seen(paper, figures["7"], joined).count("CLAHE (moderate) 0.") == 2
    assert seen(paper, figures["8"], joined).count("AUSE 0.") == 2
    assert "the 99 % one" in seen(paper, figures["11"], ["oct_resnet101"])
    assert seen(paper, figures["C"], []) == ""


def test_every_figure_names_planned_runs_and_a_known_kind():
    paper = open_paper(PAPER)
    figures = read_figures(PAPER)
    assert [f.id for f in figures][:23] == [str(k) for k in range(1, 24)]
    for figure in figures:
        assert all(paper.about(name) for name in figure.runs)
        importlib.import_module(f"paper.drawing.{figure.kind}")
