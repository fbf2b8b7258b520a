"""train, predict and ensemble as a user types them, on small images and on real OCT projections."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import truesigma as ts
from truesigma.cli import main
from truesigma.imaging import launch
from truesigma.imaging.checkpoint import read_state

SMALL = ["--backbone", "small", "--epochs", "2", "--batch", "8", "--device", "cpu"]


def command(*words):
    """A command for a process of its own."""
    code = "from truesigma.cli import main; main()"
    return [sys.executable, "-c", code, *map(str, words)]


def environment():
    source = str(Path(ts.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """So small networks are quicker so, and do not wait for each other where tests run in parallel."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with images, a table, and two trained runs."""
    folder = tmp_path_factory.mktemp("place")
    ages = folder / "ages"
    ages.mkdir()
    rng = np.random.default_rng(0)
    rows = ["file,months,width,split,patient"]
    for k in range(40):
        level, size = rng.uniform(40, 200), int(rng.integers(4, 28))
        pixels = np.clip(level + rng.normal(0, 20, (32, 32)), 0, 255).astype(np.uint8)
        pixels[:size] //= 2
        Image.fromarray(pixels).save(ages / f"{k:02d}.png")
        split = ("train", "valid", "test")[min(k // 14, 2)]
        rows.append(f"{k:02d}.png,{level + rng.normal(0, 5):.3f},{size},{split},p{k // 2}")
    (ages / "table.csv").write_text("\n".join(rows) + "\n")
    for seed in ("0", "1"):
        train(folder, f"run{seed}", "--seed", seed)
    return folder


def train(folder, out, *more, target="months"):
    options = {"image": "file", "target": target, "group": "patient", "unit": "months"}
    words = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    with pytest.raises(SystemExit) as stopped:
        main(["--quiet", "train", "table", "--root", str(folder / "ages"), *words, *SMALL, "-o", str(folder / out)]
             + [str(word) for word in more])  # fmt: skip
    assert not stopped.value.code


def test_from_images_to_intervals_of_new_images(place, run, tmp_path):
    for split in ("valid", "test"):
        code, out, err = run("predict", place / "run0", "--split", split, "-o", tmp_path / f"{split}.npz")
        assert code == 0, err
        assert "x 25 draws, in months; written to" in out
    test = ts.read(tmp_path / "test.npz")
    assert (test.unit, test.draws.mean.shape) == ("months", (25, 12, 1))
    assert test.id[0] == "28.png"
    assert test.group[0] == "p14"
    code, out, err = run("evaluate", "--calibration", tmp_path / "valid.npz", "--test", tmp_path / "test.npz")
    assert code == 0, err
    card = tmp_path / "card.json"
    assert run("calibrate", "--calibration", tmp_path / "valid.npz", "-o", card)[0] == 0
    new, images = tmp_path / "new.csv", place / "ages"
    code, out, err = run(
        "predict", place / "run0", "--images", images / "30.png", images / "31.png", "--card", card,
        "--level", "0.5,0.9", "-o", new, "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert code == 0, err
    frame = pd.read_csv(new)
    assert list(frame["id"]) == ["30.png", "31.png"]
    assert list(frame["unit"]) == ["months"] * 2
    assert (frame["lower_90"] < frame["lower_50"]).all()
    half = 1.6448536 * np.sqrt(frame["aleatoric"] + frame["epistemic"])
    np.testing.assert_allclose(frame["upper_90"], frame["location"] + half, rtol=1e-5)
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["cases"] == 2
    assert result["card"]["file"] == "card.json"
    # the same image, the same network: with its card the scale is the factor times the one without
    assert run("predict", place / "run0", "--images", images / "30.png", images / "31.png", "-o", new)[0] == 0
    factor = json.loads(card.read_text())["recalibration"]["factor"]
    np.testing.assert_allclose(frame["scale"], factor * pd.read_csv(new)["scale"], rtol=1e-4)


def test_a_folder_of_images(place, run, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(place / "ages", folder)
    words = ["ensemble", place / "run0", "--images", folder, "-o"]  # quicker than draws
    code, _, err = run(*words, tmp_path / "all.parquet")
    assert code == 0, err
    assert "40 new images, 1 members each" in err
    assert "without a --card these intervals are the network's own" in err
    assert len(ts.read(tmp_path / "all.parquet")) == 40
    (folder / "07.png").write_bytes(b"no image")
    (folder / "08.png").write_bytes(b"")
    code, _, err = run(*words, tmp_path / "some.csv")
    assert code == 2
    assert "2 of 40 images could not be read" in err
    assert "07.png" in err
    assert not (tmp_path / "some.csv").exists()
    code, _, err = run(*words, tmp_path / "some.csv", "--skip-broken")
    assert code == 0
    assert "2 images could not be read and are left out: 07.png, 08.png" in err
    assert len(pd.read_csv(tmp_path / "some.csv")) == 38


def test_repeats_have_seeds_one_apart(place, run, tmp_path):
    base = ["predict", place / "run0", "--split", "valid", "--draws", "4"]
    assert run(*base, "--repeat", "2", "--seed", "5", "-o", tmp_path / "v.npz")[0] == 0
    assert run(*base, "--seed", "6", "-o", tmp_path / "six.npz")[0] == 0
    one, two, six = (ts.read(tmp_path / name).draws.mean for name in ("v-0.npz", "v-1.npz", "six.npz"))
    np.testing.assert_array_equal(two, six)
    assert (one != two).any()
    assert not (tmp_path / "v.npz").exists()


def test_tables_and_moments_and_scaled(place, run, tmp_path):
    base = ["predict", place / "run0", "--split", "test", "--draws", "4"]
    assert run(*base, "-o", tmp_path / "d.npz")[0] == 0
    code, _, err = run(*base, "-o", tmp_path / "m.csv")
    assert code == 0
    assert "tables hold no draws" in err
    assert run(*base, "--moments", "-o", tmp_path / "m.npz")[0] == 0
    assert run(*base, "--scaled", "-o", tmp_path / "s.npz")[0] == 0
    kept, table, moments, scaled = (ts.read(tmp_path / name) for name in ("d.npz", "m.csv", "m.npz", "s.npz"))
    assert moments.draws is None
    for other in (table, moments):
        np.testing.assert_allclose(
            np.ravel(other.prediction.scale), np.ravel(kept.prediction.scale), rtol=1e-4
        )
    assert scaled.unit == "scaled"
    about = json.loads((place / "run0" / "recipe.json").read_text())["data"]
    np.testing.assert_allclose(
        kept.target, np.array(about["offset"]) + np.array(about["factor"]) * scaled.target, rtol=1e-6
    )


def test_ensemble(place, run, tmp_path):
    runs = [place / "run0", place / "run1"]
    code, out, err = run("ensemble", *runs, "--split", "test", "-o", tmp_path / "e.npz", "--json", "-")
    assert code == 0, err
    result = json.loads(out)
    assert (result["members"], result["cases"]) == (2, 12)
    joined = ts.read(tmp_path / "e.npz")
    assert joined.draws.mean.shape == (2, 12, 1)
    for k, folder in enumerate(runs):
        assert run("ensemble", folder, "--split", "test", "-o", tmp_path / "one.npz")[0] == 0
        np.testing.assert_array_equal(ts.read(tmp_path / "one.npz").draws.mean[0], joined.draws.mean[k])
    image = place / "ages" / "28.png"
    code, _, err = run(
        "ensemble", *runs, "--images", image, place / "ages" / "29.png", "-o", tmp_path / "e.csv"
    )
    assert code == 0, err
    frame = pd.read_csv(tmp_path / "e.csv")
    np.testing.assert_allclose(frame["location"], joined.prediction.location[:2, 0], rtol=1e-5)


def test_networks_of_different_data_are_no_ensemble(place, run, tmp_path):
    train(place, "width", target="width")
    code, _, err = run(
        "ensemble", place / "run0", place / "width", "--split", "test", "-o", tmp_path / "e.npz"
    )
    assert code == 2
    assert "cannot be one ensemble: offset is" in err


def test_train_says_what_it_does_and_goes_on(place, run, tmp_path):
    columns = ["image=file", "target=months,width", "unit=months,px"]
    base = ["train", "table", "--root", place / "ages", *(word for c in columns for word in ("--option", c))]
    base += ["--variances", "each", "--likelihood", "laplace", "--head-dropout", "0.3"]
    words = [*base, *SMALL, "-o", tmp_path / "run"]
    code, out, err = run(*words, "--json", tmp_path / "t.json")
    assert code == 0, err
    assert "ages: 14 train, 14 valid, 12 test cases; images 1 x 32 x 32, 2 outputs in months, px" in err
    assert (
        "small, 0.36 million parameters; recipe exact: 2 epochs, batch 8, adam 0.0003; laplace, fp32" in err
    )
    assert "a new run" in err
    assert "epoch 2/2" in err
    assert "finished after 2 epochs" in out
    result = json.loads((tmp_path / "t.json").read_text())
    assert result["finished"]
    assert result["recipe"]["network"]["head_dropout"] == {"small": 0.3, "other": 0.3}
    before = read_state(tmp_path / "run" / "last.safetensors")[0]
    more = [word if word != "2" else "3" for word in words]
    code, out, err = run(*more)
    assert code == 0, err
    assert "going on after epoch 2" in err
    assert "epoch 3/3" in err
    code, out, err = run(*more)
    assert "all 3 epochs are there" in err
    after = read_state(tmp_path / "run" / "last.safetensors")[0]
    assert any(not torch.equal(before[name], after[name]) for name in before)
    for change, message in (
        (["--seed", "4"], "a run with seed = 0, now 4"),
        (["--option", "size=64"], "a run with options = "),
        (["--pretrained"], "a run with start = "),
    ):
        code, _, err = run(*more, *change)
        assert code == 2
        assert message in err
        assert "overwrite it" in err
    code, out, err = run(*words, "--seed", "4", "--no-resume")
    assert code == 0
    assert "a new run" in err
    cases = tmp_path / "c.npz"
    code, _, err = run("predict", tmp_path / "run", "--draws", "3", "-o", cases)
    assert code == 0
    assert "outputs are in months, px; scores that average over outputs mix them" in err
    assert ts.read(cases).prediction.law == ts.Laplace()


def test_files_of_ones_own_work_as_names_do(place, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    skeletons = Path(__file__).parents[2] / "docs" / "skeletons"
    for name in ("dataset.py", "backbone.py"):
        shutil.copy(skeletons / name, tmp_path / name)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "images.npy", rng.integers(0, 255, (30, 32, 32), dtype=np.uint8))
    np.save(tmp_path / "radius.npy", rng.uniform(1, 16, 30))
    code, _, err = run(
        "train",
        "dataset.py",
        "--root",
        ".",
        "--backbone",
        "backbone.py",
        "--epochs",
        "1",
        "--device",
        "cpu",
        "-o",
        "own",
    )
    assert code == 0, err
    monkeypatch.chdir(place)  # paths were recorded whole
    code, _, err = run("predict", tmp_path / "own", "--draws", "3", "-o", tmp_path / "own.npz")
    assert code == 0, err
    assert len(ts.read(tmp_path / "own.npz")) == 10
    code, _, err = run("predict", tmp_path / "own", "--images", place / "ages", "-o", tmp_path / "own.csv")
    assert code == 2
    assert "has no read(path, ...)" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "tabel", "--root", ".", "-o", "x"], "no datasets plug-in is called 'tabel'"),
        (["train", "table", "--root", ".", "-o", "x", "--option", "size"], "'size' has no value"),
        (["train", "table", "--root", ".", "-o", "x", "--option", "sise=3"], "table has no option 'sise'"),
        (["train", "table", "--root", ".", "-o", "x", "--option", "size=big"], "table:size is 'big'"),
        (["train", "table", "--root", ".", "-o", "x"], "table.csv: no such file"),
        (["train", "table", "--root", ".", "-o", "x", "--time-limit", "soon"], "time limit is 'soon'"),
        (["train", "table", "--root", ".", "-o", "x", "--recipe", "papr"], "no recipe 'papr'"),
        (["predict", ".", "-o", "x.npz"], "is no training run"),
        (["predict", "RUN", "--split", "tests", "-o", "x.npz"], "no split 'tests'; it has train, valid, test"),
        (["predict", "RUN", "-o", "x.txt"], "ends in '.txt'"),
        (["predict", "RUN", "-o", "nowhere/x.npz"], "does not exist"),
        (["predict", "RUN", "-o", "x.npz", "--repeat", "0"], "repeat is 0"),
        (["predict", "RUN", "-o", "x.npz", "--card", "c.json"], "truesigma apply"),
        (["predict", "RUN", "a.png", "-o", "x.csv"], "expected --images before"),
        (["predict", "RUN", "--images", "a.png", "--split", "test", "-o", "x.csv"], "--split has no meaning"),
        (["predict", "RUN", "--images", "a.png", "-o", "x.csv"], "a.png (no such file)"),
        (["predict", "RUN", "--images", "a.png", "--card", "c.json", "-o", "x.csv"], "there is no file c.json"),
        (["predict", "RUN", "--root", "gone", "-o", "x.npz"], "gone/table.csv: no such file"),
        (["predict", "RUN", "--option", "unit=years", "-o", "x.npz"], "another data set"),
        (["predict", "RUN", "--device", "cuda:x", "-o", "x.npz"], "expected auto, cpu, cuda"),
    ],
)  # fmt: skip
def test_bad_input_is_named(place, run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*[place / "run0" if word == "RUN" else word for word in words])
    assert code == 2, err
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("x*"))


def test_ctrl_c_says_how_to_go_on(place, run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "train", interrupted)
    code, _, err = run(
        "train", "table", "--root", place / "ages", "--option", "image=file", "--option", "target=months",
        *SMALL, "-o", tmp_path / "x",
    )  # fmt: skip
    assert code == 130
    assert "the same command goes on" in err


@pytest.mark.slow
def test_the_page_about_it_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "imaging.md"
    names, printed = {}, ""
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        if kind == "text":
            assert printed.split() == block.split()
        elif kind == "python":
            exec(compile(block, page.name, "exec"), names)
        for line in block.splitlines() if kind == "sh" else ():
            if line.startswith("truesigma "):
                with pytest.raises(SystemExit) as stopped:
                    main(shlex.split(line)[1:])
                assert not stopped.value.code, line
        printed = capsys.readouterr().out
    assert len(pd.read_csv("new.csv")) == 3


@pytest.mark.slow
def test_two_processes(place, tmp_path):
    words = [
        "train",
        "table",
        "--root",
        place / "ages",
        "--option",
        "image=file",
        "--option",
        "target=months",
    ]
    program = tmp_path / "truesigma"  # processes start each other by the program's path
    program.write_text("from truesigma.cli import main\nmain()\n")
    done = subprocess.run(
        [sys.executable, str(program), *map(str, words), *SMALL, "--devices", "2", "-o", str(tmp_path / "two")],
        env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished after 2 epochs") == 1
    assert done.stderr.count("a new run") == 1


@pytest.mark.slow
def test_real_oct_from_projections_to_intervals_of_raw_volumes(real_data, run, tmp_path):
    """Train, be killed, go on, predict, evaluate, calibrate, and predict raw volumes with the card."""
    root = real_data / "oct"

    def words(out, epochs=2):
        options = ["--root", root, "--option", "size=64", "--backbone", "small", "--device", "cpu"]
        return command("train", "oct", *options, "--epochs", epochs, "--seed", "3", "-o", tmp_path / out)

    process = subprocess.Popen(words("killed"), env=environment(), stderr=subprocess.DEVNULL)
    last, deadline = tmp_path / "killed" / "last.safetensors", time.monotonic() + 300
    while not last.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert read_state(last)[1]["epoch"] == 1
    done = subprocess.run(words("killed"), env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (
        "oct: 2450 train, 850 valid, 850 test cases; images 3 x 64 x 64, 6 outputs in mm, deg" in done.stderr
    )
    assert "going on after epoch 1" in done.stderr
    assert subprocess.run(words("whole"), env=environment(), capture_output=True).returncode == 0
    one, two = (read_state(tmp_path / name / "last.safetensors")[0] for name in ("killed", "whole"))
    assert all(torch.equal(one[name], two[name]) for name in two)

    folder = tmp_path / "killed"
    for split in ("valid", "test"):
        file = tmp_path / f"{split}.npz"
        code, _, err = run("predict", folder, "--split", split, "--draws", "5", "-o", file)
        assert code == 0, err
    code, _, err = run(
        "evaluate", "--calibration", tmp_path / "valid.npz", "--test", tmp_path / "test.npz", "--recalibrate",
        "none,sigma", "--metrics", "coverage,rmse", "--json", tmp_path / "e.json",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "e.json").read_text())["rows"]
    held = {
        row["recalibration"]: row["value"]
        for row in rows
        if row["metric"] == "coverage" and row["level"] == 0.9
    }
    assert abs(held["sigma"] - 0.9) < 0.05
    card = tmp_path / "card.json"
    assert run("calibrate", "--calibration", tmp_path / "valid.npz", "-o", card)[0] == 0
    raw = tmp_path / "raw.csv"
    code, _, err = run("predict", folder, "--images", root / "raw", "--card", card, "--draws", "5", "-o", raw)
    assert code == 0, err
    frame = pd.read_csv(raw)
    assert len(frame) == 50
    assert list(frame["unit"].unique()) == ["mm, mm, mm, deg, deg, deg"]
    poses = [np.load(root / "raw" / name)["pos"] for name in frame["id"]]
    inside = [
        (frame[f"lower_90_{j}"] <= pose) & (pose <= frame[f"upper_90_{j}"])
        for j, pose in enumerate(np.transpose(poses))
    ]
    assert 0.75 < np.mean(inside) <= 1.0

    # without dropout a raw volume of the test split is predicted as its projection is
    assert run("ensemble", folder, "--split", "test", "-o", tmp_path / "member.npz")[0] == 0
    assert run("ensemble", folder, "--images", root / "raw", "-o", tmp_path / "member.csv")[0] == 0
    member, single = ts.read(tmp_path / "member.npz"), pd.read_csv(tmp_path / "member.csv").set_index("id")
    row = {name: k for k, name in enumerate(member.id)}
    shared = [name for name in single.index if name in row]
    assert shared
    columns = [f"location_{j}" for j in range(6)]
    np.testing.assert_allclose(
        single.loc[shared, columns],
        member.prediction.location[[row[name] for name in shared]],
        rtol=1e-4,
        atol=1e-5,
    )
