"""Bad input of train and predict is named, and the page about them runs."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from truesigma.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "tabel", "--root", ".", "-o", "x"], "no datasets plug-in is called 'tabel'"),
        (["train", "table", "--root", ".", "-o", "x", "--set", "data.size"], "has no value"),
        (["train", "table", "--root", ".", "-o", "x", "--set", "data.sise=3"], "did you mean 'size'"),
        (["train", "table", "--root", ".", "-o", "x", "--set", "data.size=big"], "size is 'big'"),
        (["train", "table", "--root", ".", "-o", "x"], "there is no file table.csv"),
        (["train", "table", "--root", ".", "-o", "x", "--time-limit", "soon"], "time limit is 'soon'"),
        (["train", "table", "--root", ".", "-o", "x", "--recipe", "papr"], "no recipe 'papr'"),
        (["predict", ".", "-o", "x.npz"], "is not a training run"),
        (["predict", "RUN", "--split", "tests", "-o", "x.npz"], "no split 'tests'; it has train, valid, test"),
        (["predict", "RUN", "-o", "x.txt"], "ends in '.txt'"),
        (["predict", "RUN", "-o", "nowhere/x.npz"], "does not exist"),
        (["train", "table", "--root", ".", "-o", "x", "--set", "train.bathc=3"], "did you mean 'batch'"),
        (["train", "table", "--root", ".", "-o", "x", "--set", "train.batch=big"], "expected a whole number"),
        (["train", "table", "--root", ".", "-o", "x", "--set", "trian.batch=8"], "did you mean 'train'"),
        (["predict", "RUN", "--set", "sample.mask=common", "-o", "x.npz"], "did you mean 'masks'"),
        (["predict", "RUN", "--deterministic", "--seed", "0", "-o", "x.npz"], "--seed has no meaning"),
        (["predict", "RUN", "-o", "x.npz", "--card", "c.json"], "truesigma apply"),
        (["predict", "RUN", "a.png", "-o", "x.csv"], "a.png is not a training run"),
        (["predict", "RUN", "--images", "a.png", "--split", "test", "-o", "x.csv"], "--split has no meaning"),
        (["predict", "RUN", "--images", "a.png", "-o", "x.csv"], "a.png (no such file)"),
        (["predict", "RUN", "--images", "a.png", "--card", "c.json", "-o", "x.csv"], "there is no file c.json"),
        (["predict", "RUN", "--root", "gone", "-o", "x.npz"], "the run's data is not in gone; say where it is now"),
        (["predict", "RUN", "--set", "data.unit=years", "-o", "x.npz"], "not the data that the run was trained on"),
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


@pytest.mark.slow
def test_the_page_about_it_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[3] / "docs" / "imaging.md"
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
