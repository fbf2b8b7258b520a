"""What a recipe may say, and what stops a run before it has cost anything."""

import shutil

import pytest
from PIL import Image
from project_files import change


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('split = "valid"', 'split = "../valid"', "expected the name of a split"),
        ("epochs = 1 ", "epoch = 1 ", "train.epoch is not known; did you mean 'epochs'?"),
        ("epochs = 1 ", 'epochs = "1" ', "train.epochs is '1'; expected a whole number"),
        ("epochs = 1 ", "epochs = 0 ", "epochs is 0; expected a number from 1"),
        ("epochs = 1 ", "epochs = true ", "train.epochs is True; expected a whole number"),
        ("level = 0.9 ", "level = 90 ", "level"),
        ("epochs = 1 ", 'loss = "mae" ', "loss is 'mae'; expected one of nll, beta_nll, faithful, mse"),
        ("epochs = 1 ", 'schedule = "step" ', "schedule is 'step'; expected one of plateau, cosine"),
        ("[train]", "[training]", "training is not known; did you mean 'train'?"),
        ('root = "scans"', 'folder = "scans"', "[data] has no root"),
        ('split = "valid"', 'split = "test"', "the test split must stay unseen"),
        ('split = "valid"', 'split = "train"', "expected 'valid', or another split"),
        ('split = "valid"', 'split = "site9"', "has no split site9, only train, valid, test"),
        (
            'method = "dropout"',
            'method = "magic"',
            "sample.method is 'magic'; expected one of dropout, ensemble, augment",
        ),
        ('likelihood = "gaussian"', 'likelihood = "normal"', "expected one of gaussian, laplace"),
        ('recalibrate = "auto"', 'recalibrate = "sigmma"', "no recalibrate plug-in is called 'sigmma'"),
        ('compare = ["none", "aux"]', 'compare = "aux"', "report.compare is 'aux'; expected a list of texts"),
        ('patient = "patient"', 'patient = "ward"', "has no column ward; it has id, age, patient, site"),
        ('target = ["age"]', 'target = ["site"]', "no finite number in 48 targets: row 1, site 'A'"),
        ('image = "{id}.png"', 'image = "{patient}.png"', "more than one row names 24 images"),
        ("valid = 0.2 ", "valid = 0.0 ", "no cases for valid"),
        ("valid = 0.2 ", "share = 0.2 ", "table has no option 'share'"),
        ("size = 0 ", "size = [[1]] ", "data.size"),
        ("backbone = ", 'backbone = "vgg" # ', "no backbones plug-in is called 'vgg'"),
        ("[output]", "output", "is not a TOML file"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_trained(begun, run, old, new, message):
    change(begun / "recipe.toml", {old: new})
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert message in err.replace("\n", " ")
    assert not (begun / "output" / "runs" / "0" / "best.safetensors").exists()


def test_missing_and_broken_images_stop_a_run_and_are_all_named(begun, run):
    (begun / "scans" / "s003.png").unlink()
    (begun / "scans" / "s007.png").write_bytes(b"\x89PNG torn")
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert "2 of 48 images could not be read: s003.png (no such file); s007.png" in err
    change(begun / "recipe.toml", {"skip_broken = false": "skip_broken = true"})
    code, out, _ = run("run", "recipe.toml", "--device", "cpu", "--dry-run")
    assert code == 0
    assert "46" not in out.splitlines()[0]  # shares of 46 cases, counted below
    counts = [int(word.split()[1]) for word in out.splitlines()[0].removeprefix("cases: ").split(", ")]
    assert sum(counts) == 46


def test_images_of_another_size_say_what_to_do(begun, run):
    Image.new("L", (40, 40)).save(begun / "scans" / "s001.png")
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert "s001.png (has shape (1, 40, 40), the others (1, 32, 32); a size makes them equal)" in err


def test_a_folder_of_something_else_is_left_alone(begun, run):
    (begun / "output" / "runs").mkdir(parents=True)
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert "take another folder" in err
    shutil.rmtree(begun / "output")
    (begun / "output").write_text("a file")
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert (code, "expected a folder to write to" in err) == (2, True)


def test_one_case_is_too_few_to_recalibrate_on(begun, run):
    change(begun / "recipe.toml", {'patient = "patient"': 'patient = ""', "valid = 0.2 ": "valid = 0.02 "})
    code, _, err = run("run", "recipe.toml", "--device", "cpu")
    assert code == 2
    assert "too few cases to recalibrate on or to test: test 10, valid 1" in err
