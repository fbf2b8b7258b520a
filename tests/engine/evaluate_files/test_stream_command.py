"""The command on sets of files."""

import json
from pathlib import Path

import numpy as np
import pytest
from file_sets import QUICK, command, make, volumes, write_parts

import truesigma as ts


def test_the_command_takes_lists_globs_and_repeats(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sets = [make(k, 90, group=["x", "y", "z"] * 30) for k in range(3)]
    for k, cases in enumerate(sets):
        write_parts(cases, tmp_path, f"s{k}_", 3)
    listed = [
        "--calibration", "s0_0.npz", "s0_1.npz", "s0_2.npz", "--test", "s1_0.npz", "s1_1.npz", "s1_2.npz",
    ]  # fmt: skip
    assert (
        command("evaluate", *listed, "--test", "s2_*.npz", "--recalibrate", "none,sigma", "--json", "r.json")
        == 0
    )
    stored = json.loads(Path("r.json").read_text())
    expected = ts.evaluate(sets[0], sets[1:], recalibrations=QUICK)
    for ours, theirs in zip(stored["rows"], expected.rows):
        assert ours["value"] == pytest.approx(theirs["value"], rel=1e-10)
    assert stored["data"]["test"][1]["files"] == 3
    assert stored["cases"] == {"calibration": 90, "test": 90, "repeats": 2}
    assert command("evaluate", *listed, "--recalibrate", "none,sigma", "--by-group", "--json", "g.json") == 0
    assert sorted(json.loads(Path("g.json").read_text())["groups"]) == ["x", "y", "z"]
    assert "by group" in capsys.readouterr().out
    assert command("calibrate", "--calibration", "s0_*.npz", "--out", "card.json") == 0
    card = json.loads(Path("card.json").read_text())
    assert card["recalibration"]["factor"] == pytest.approx(
        expected.recalibrations["sigma"].factor, rel=1e-12
    )
    assert card["data"]["cases"] == 90
    assert command("apply", "card.json", "s1_0.npz", "--out", "new.npz") == 0
    assert (
        command("evaluate", "--calibration", "s0_*.npz", "--test", "s0_*.npz", "--recalibrate", "none") == 0
    )
    assert "fitted on and scored" in capsys.readouterr().err


def test_a_set_is_named_once_and_never_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for k in range(4):
        ts.write(make(k, 30), f"s{k}.npz")
    Path("list.txt").write_text("s2.npz\ns3.npz\n")
    before = Path("s3.npz").read_bytes()
    evaluate = ["evaluate", "--calibration", "s0.npz", "--recalibrate", "none"]
    for test in ("s[23].npz", "list.txt"):
        assert command(*evaluate, "--test", test, "--json", "s3.npz") == 2
        assert "s3.npz is read by this command" in capsys.readouterr().err
    for out in (["-o", "c.json", "--json", "s3.npz"], ["-o", "s3.json"]):
        Path("s3.json").unlink(missing_ok=True)
        Path("s3.json").symlink_to("s3.npz")
        assert command("calibrate", "--calibration", "s*.npz", *out) == 2
        assert "is read by this command" in capsys.readouterr().err
    assert Path("s3.npz").read_bytes() == before
    assert command(*evaluate, "--calibration", "s1.npz", "--test", "s2.npz") == 2
    assert "--calibration is given more than once" in capsys.readouterr().err
    assert command(*evaluate, "--test=s2.npz", "s3.npz", "--json", "r.json") == 0
    assert json.loads(Path("r.json").read_text())["cases"]["test"] == 60


def test_a_group_has_a_line_of_its_own_for_each_choice_of_one_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for k in range(2):
        ts.write(make(k, 60, group=["x", "y"] * 30), f"s{k}.npz")
    chosen = ["--recalibrate", "sigma,sigma:part=aleatoric", "--metrics", "rmse,nll"]
    given = ["--calibration", "s0.npz", "--test", "s1.npz"]
    assert command("evaluate", *given, *chosen, "--by-group", "--json", "g.json") == 0
    rows = json.loads(Path("g.json").read_text())["groups"]["x"]
    total, aleatoric = (f"{row['value']:.4g}" for row in rows if row["metric"] == "nll")
    assert total != aleatoric
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("x ")]
    assert [line[-1] for line in lines] == [total, aleatoric]


def test_a_repeat_that_is_none_is_doubted(tmp_path, capsys):
    """One file, and several; patients whose targets are the same in every repeat are as they should be."""
    one, many = tmp_path / "a.npz", write_parts(make(1, 40), tmp_path, "b", 2)
    ts.write(make(0, 40), one)
    for files in ([tmp_path / "b0.npz"], [many]):
        code = command(
            "evaluate", "--calibration", one, "--test", *files, "--test", *files, "--metrics", "rmse"
        )
        assert (code, "of test set 2 are in an earlier one, too" in capsys.readouterr().err) == (0, True)
    volumes(tmp_path, ".npy", 0, 3)
    for k, name in ((k, name) for k in range(3) for name in ("location", "aleatoric", "epistemic")):
        np.save(tmp_path / f"again_p{k}_{name}.npy", np.load(tmp_path / f"s0_p{k}_{name}.npy"))
    for start in ("s0", "again"):
        parts = ("location", "aleatoric", "epistemic")
        rows = [
            ",".join([f"{start}_p{k}_{n}.npy" for n in parts] + [f"s0_p{k}_target.npy"]) for k in range(3)
        ]
        (tmp_path / f"{start}.csv").write_text("\n".join([",".join((*parts, "target")), *rows]))
    sets = ("--test", tmp_path / "s0.csv", "--test", tmp_path / "again.csv")
    assert command("evaluate", "--calibration", tmp_path / "s0.csv", *sets, "--metrics", "rmse") == 0
    assert "are in an earlier one" not in capsys.readouterr().err
