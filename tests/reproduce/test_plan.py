"""The plan: every run of the grid, and nothing it does not know."""

import pytest
from made_up_paper import PAPER

from truesigma.reproduce import open_paper


def test_plan_names_every_run_of_the_grid(paper):
    names = {e.name for e in paper.plan.experiments}
    for data_set in ("breastpathq", "boneage", "endovis", "oct"):
        assert {f"{data_set}_{n}" for n in ("resnet101", "densenet201", "efficientnet_b4")} <= names
    assert all(len(set(e.members)) == 5 for e in paper.plan.ensembles)
    seeds = [paper.plan.find(name).seed for name in paper.plan.ensembles[0].members]
    assert len(set(seeds)) == 5


def test_plan_refuses_what_it_does_not_know(tmp_path):
    text = (PAPER / "experiments.toml").read_text()
    (tmp_path / "experiments.toml").write_text(text.replace("step = 1", "stepp = 1", 1))
    with pytest.raises(ValueError, match="sets stepp"):
        open_paper(tmp_path)
    (tmp_path / "experiments.toml").write_text(text.replace("oct_densenet201_seed4", "oct_densenet201_seed3"))
    with pytest.raises(ValueError, match="more than once"):
        open_paper(tmp_path)


def test_absent_folder_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"no experiments.toml in .* --root DIR"):
        open_paper(tmp_path / "none")
