"""Figures are drawn from what there is, and say what is missing."""

import importlib
import json

import numpy as np
import pytest
from made_up_paper import PAPER

from truesigma.reproduce import open_paper
from truesigma.reproduce.figure import find_figure, read_figures
from truesigma.reproduce.produce import draw_one
from truesigma.reproduce.simulation import tip_voxel
from truesigma.reproduce.tables import FIELDS


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


def test_every_figure_names_planned_runs_and_a_known_kind():
    paper = open_paper(PAPER)
    figures = read_figures(PAPER)
    assert [f.id for f in figures][:23] == [str(k) for k in range(1, 24)]
    for figure in figures:
        assert all(paper.about(name) for name in figure.runs)
        importlib.import_module(f"truesigma.reproduce.figures.{figure.kind}")


def test_tip_of_the_simulated_needle():
    needle = pytest.importorskip("truesigma.imaging.needle")
    pose = np.random.default_rng(0).random((4, 6))
    largest = np.array(needle.LARGEST[:3])
    np.testing.assert_allclose(tip_voxel(pose), needle._tip(pose[:, :3] * largest))
