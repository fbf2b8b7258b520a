"""The plan: every run of the grid, and nothing it does not know."""

import dataclasses

import pytest
from made_up_paper import PAPER

from paper import open_paper


def test_plan_names_every_run_of_the_grid(paper):
    names = {e.name for e in paper.plan.experiments}
    for data_set in ("breastpathq", "boneage", "endovis", "oct"):
        assert {f"{data_set}_{n}" for n in ("resnet101", "densenet201", "efficientnet_b4")} <= names
    assert all(len(set(e.members)) == 5 for e in paper.plan.ensembles)
    seeds = [paper.plan.find(name).seed for name in paper.plan.ensembles[0].members]
    assert len(set(seeds)) == 5


def test_a_second_seed_is_planned_like_the_first():
    plan = open_paper(PAPER).plan
    found = 0
    for one in plan.experiments:
        for other in plan.seeds(one):
            again = dataclasses.replace(other, name=one.name, seed=one.seed, step=one.step)
            assert again == dataclasses.replace(one, seen=other.seen), (one.name, other.name)
            found += one.seed == 0 != other.seed
    assert found == 3


def test_committed_runs_were_trained_as_planned():
    paper = open_paper(PAPER)
    runs = [(one, paper.run(one.name)) for one in paper.plan.experiments if paper.has(one.name)]
    assert runs
    for one, run in runs:
        if not run.full_length and one.variant == "":
            continue  # a shorter one, until the planned one has been run
        used = {**run.about["recipe"]["network"], **run.about["recipe"]["train"]}
        assert {key: used.get(key) for key in one.train} == dict(one.train), one.name


def test_plan_refuses_what_it_does_not_know(tmp_path):
    text = (PAPER / "experiments.toml").read_text()
    (tmp_path / "experiments.toml").write_text(text.replace("step = 1", "stepp = 1", 1))
    with pytest.raises(ValueError, match=r"stepp is not known; did you mean .step"):
        open_paper(tmp_path)
    (tmp_path / "experiments.toml").write_text(
        text.replace("oct_densenet201_member5", "oct_densenet201_member4")
    )
    with pytest.raises(ValueError, match="more than once"):
        open_paper(tmp_path)


def test_what_is_left_out_says_why_and_is_planned(tmp_path):
    """It is not called "not yet run": nothing waits for it."""
    paper = open_paper(PAPER)
    waiting = [one for one in paper.plan.everything if (paper.reason(one) or "").startswith("not yet run")]
    assert {one.data_set for one in waiting} <= {"boneage"}
    for name in paper.plan.left_out:
        assert (paper.reason(paper.about(name)) or "left out, because ").startswith("left out, because ")
    assert (
        paper.plan.why_left_out("oct_densenet201_member3") == paper.plan.left_out["oct_densenet201_ensemble"]
    )
    assert paper.plan.why_left_out("boneage_densenet201_member3") is None
    text = (PAPER / "experiments.toml").read_text()
    (tmp_path / "experiments.toml").write_text(text.replace("[left_out]", '[left_out]\nnobody = "left out"'))
    with pytest.raises(ValueError, match="leaves out nobody, which are not planned"):
        open_paper(tmp_path)
