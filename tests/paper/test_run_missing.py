"""What is missing is run where its data is, by the command too, which says where it looked."""

import json

import pytest
from made_up_paper import fake_paper, main_until_exit

from paper import open_paper, training


def test_what_is_missing_is_run_where_its_data_is(paper, tmp_path, monkeypatch):
    """A figure or a table asks for its own runs: those of its ensembles too, and none that is there already."""
    for name in ("boneage", "breastpathq"):
        (tmp_path / name).mkdir()
    asked, said = [], []
    monkeypatch.setattr(
        training, "run_planned", lambda paper, name, data, **options: asked.append((name, options))
    )
    names = ["breastpathq_densenet201_ensemble", "oct_densenet201"]
    done = training.run_missing(paper, tmp_path, said.append, names=names, runs=tmp_path)
    members = [f"breastpathq_densenet201_member{n}" for n in range(1, 6)]
    assert done == [name for name, _ in asked] == members
    assert asked[0][1] == {"seconds": None, "runs": tmp_path}
    assert said[0].startswith("oct_densenet201: no oct below")
    assert training.run_missing(paper, tmp_path, said.append, names=names, seconds=0) == []
    assert said[-1] == "breastpathq_densenet201_member5: the time is up"
    training.run_missing(paper, tmp_path, said.append, names=["boneage_densenet201"])
    assert said[-1] == "boneage_densenet201: resuming"  # it has a result, of a training that was not finished
    asked.clear()
    training.run_missing(paper, tmp_path, said.append)  # all of the plan
    left_out = [line for line in said if "left out, because " in line]
    assert [line.partition(":")[0] for line in left_out][-5:] == members
    assert not set(members) & {name for name, _ in asked}


@pytest.mark.parametrize("hours", ["-1", "nan", "inf"])
def test_hours_are_a_number_of_hours(root, capsys, hours):
    assert main_until_exit(["table1", "--root", str(root), "--hours", hours]) == 2
    assert f"--hours is {hours}" in capsys.readouterr().err


def test_command_writes_json_alone_to_stdout(root, capsys):
    main_until_exit(["table2", "--root", str(root), "--json", "-"])
    out = capsys.readouterr()
    assert {"rows"} == set(json.loads(out.out))
    assert "Negative log-likelihood" in out.err
    main_until_exit(["status", "--root", str(root)])
    assert (
        "oct_densenet201, oct_densenet201_short, oct_densenet201_one_pass: not yet run: step 1"
        in capsys.readouterr().out
    )


def test_command_says_where_it_looked(tmp_path, capsys):
    assert main_until_exit(["table1", "--root", str(tmp_path)]) == 2
    assert "--root" in capsys.readouterr().err


def test_a_run_of_the_plan_is_trained_and_read_back(tmp_path):
    pytest.importorskip("torch")
    root = fake_paper(tmp_path / "paper", [])
    text = (root / "experiments.toml").read_text()
    small = text.replace(
        "options = { cases = 2200, train = 200 }", "options = { cases = 40, train = 16, valid = 12 }"
    )
    assert small != text
    (root / "experiments.toml").write_text(small)
    arguments = ["run", "simulated_small", "--root", str(root), "--data", str(tmp_path / "data")]
    (tmp_path / "data").mkdir()
    code = main_until_exit(
        [*arguments, "--runs", str(tmp_path / "runs"), "--epochs", "2", "--device", "cpu", "--quiet"]
    )
    assert code == 0
    run = open_paper(root).run("simulated_small")
    assert run.about["epochs"] == 2
    assert run.arrays["test.residual"].shape == (5, 25, 12, 6)
    assert not any(str(tmp_path) in path.read_text() for path in run.folder.glob("*.json"))
