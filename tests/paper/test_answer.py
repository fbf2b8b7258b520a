"""The first screen: full-length and short runs told apart by the rule, and sentences that follow the numbers."""

import json

import numpy as np
import pytest
from made_up_paper import TRUE_FACTOR, fake_paper

from paper import open_paper
from paper.claims import training
from paper.drawing.overfitting import epochs_of
from paper.pages.answer import answer_text, lines
from paper.runs import Run

PAIR = ["breastpathq_efficientnet_lite2", "breastpathq_efficientnet_lite2_random"]


@pytest.fixture
def root(tmp_path):
    return fake_paper(tmp_path / "paper", ["oct_resnet101", "boneage_resnet101_short", *PAIR], cases=60)


def change(root, name, **values):
    path = root / "results" / name / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def calm(root, name, more):
    """Add so much to the logarithm of every variance of a run."""
    path = root / "results" / name / "draws.npz"
    with np.load(path) as stored:
        arrays = {
            key: value + np.float16(more * key.endswith("log_variance")) for key, value in stored.items()
        }
    np.savez(path, **arrays)


PLATEAU = {"schedule": "plateau", "patience": 20, "epochs": 500}


@pytest.mark.parametrize(
    ("changed", "schedule", "full"),
    [
        ({"plateaus": 2, "best_epoch": 30}, PLATEAU, True),
        ({"plateaus": 2, "best_epoch": 31}, PLATEAU, False),  # 19 epochs back
        ({"plateaus": 1, "best_epoch": 10}, PLATEAU, False),
        ({"plateaus": 2, "best_epoch": 45, "finished": True}, PLATEAU, True),  # ended at its lowest rate
        ({"plateaus": 2, "best_epoch": 45, "finished": True}, {**PLATEAU, "epochs": 50}, False),
        ({"plateaus": 3, "best_epoch": 10}, {**PLATEAU, "patience": 12}, False),
        ({"plateaus": 0, "best_epoch": 10, "finished": True}, {**PLATEAU, "schedule": "cosine"}, False),
    ],
)
def test_what_full_length_means(changed, schedule, full):
    about = {"epochs": 50, "finished": False, "recipe": {"train": schedule}, **changed}
    assert Run("one", None, about).full_length == full


def test_short_runs_are_shown_apart(root):
    change(root, "boneage_resnet101_short", best_epoch=45)
    paper = open_paper(root)
    found = [line for line in lines(paper) if line.regime != "theirs"]
    assert [line.full for line in found] == [True, True, True, False]
    assert all(line.too_sure for line in found)
    assert found[0].scores.factor == pytest.approx(TRUE_FACTOR, rel=0.25)
    text = answer_text(paper)
    assert "**Are networks too sure? Yes, in all 3.**" in text
    assert "none have it below 1 by as much, and 0 neither." in text
    after = [line.scores.held[1] for line in found if line.full]
    near = sum(abs(held - 0.9) <= 0.02 for held in after)
    assert near < 3
    assert f"**Does one factor repair it? {f'In {near} of 3' if near else 'No, in none'}, at 90 %" in text
    kept = [line.overfitted for line in found if line.full]
    assert kept == pytest.approx([TRUE_FACTOR**2] * 3, rel=0.6)
    shown = sorted(line.shape[1] for line in found if line.full)
    assert f"the 99 % ones {100 * shown[0]:.1f} % to {100 * shown[-1]:.1f} %." in text
    assert "networks on EndoVis the 90 % intervals hold: DenseNet-201 95.7 % → 92.4 %" in text
    assert "So few say nothing of others." in text
    assert "nother seed" not in text  # there is none
    assert "Those that overfit" not in text  # nobody is there to compare them with


def test_a_run_that_ended_by_chance_is_shown_and_not_counted(tmp_path):
    name = "breastpathq_densenet201_chance"
    root = fake_paper(tmp_path / "paper", ["oct_resnet101", name], cases=60)
    path = root / "results" / name / "history.csv"
    best = json.loads(path.with_name("run.json").read_text())["best_epoch"]
    rows = [row.split(",") for row in path.read_text().splitlines()]
    rows[best][rows[0].index("valid_mse")] = "-0.1"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    text = answer_text(open_paper(root))
    assert text.count("epochs, kept by an estimate below 0") == 1
    apart = text.partition("### Runs that ended by chance")[2]
    assert apart.count("| BreastPathQ, DenseNet-201 ") == text.count("| BreastPathQ, DenseNet-201 ") == 1
    assert "With them 2 of 2 would be too sure." in text


def test_draws_that_call_a_huge_variance_are_named(root):
    folder = root / "results" / "oct_resnet101"
    with np.load(folder / "draws.npz") as stored:
        arrays = dict(stored)
    assert "What it does not repair" not in answer_text(open_paper(root))
    arrays["test.log_variance"][0, 0, :6] = 5.0  # one draw of 6 of the 60 cases
    np.savez(folder / "draws.npz", **arrays)
    text = answer_text(open_paper(root))
    assert "OCT, ResNet-101 (full-length, 50 epochs) in 10.0 %. The UCE averages" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row.count(" †") for row in rows if "†" in row or "OCT, ResNet-101" in row] == [2]


def test_epochs_without_a_look_at_the_test_split_are_passed_over(root):
    folder = root / "results" / "oct_resnet101"
    rows = (folder / "history.csv").read_text().splitlines()
    names = rows[0].split(",")
    for epoch in range(1, len(rows)):
        if epoch % 5 and epoch != 25:
            cells = rows[epoch].split(",")
            rows[epoch] = ",".join("" if n.startswith("test") else c for n, c in zip(names, cells))
    (folder / "history.csv").write_text("\n".join(rows) + "\n")
    run = open_paper(root).run("oct_resnet101")
    x, factor = epochs_of(run)
    assert len(x) == 10
    np.testing.assert_allclose(x, factor, rtol=1e-4)
    assert training.unbiased_epoch(run) % 5 == 0
    assert np.isfinite(run.gap("test_variance"))


def test_too_large_a_variance_is_named(root):
    calm(root, "oct_resnet101", 3)
    assert "1 has it below 1 by as much" in answer_text(open_paper(root))
