"""init and physical scale: every header is read, one scale is proposed where the target is a matter of mm, and why."""

import csv
import json
import os
import tomllib

import numpy as np
import pytest
from dicom_files import write_dicom
from PIL import Image
from project_files import asked, call, make_images, tiny, write_table

from truesigma.imaging.data.rows import check_alike, rows_of, spacings
from truesigma.imaging.data.source import Source
from truesigma.imaging.datasets import table
from truesigma.project.matching import list_images
from truesigma.project.project import read_project
from truesigma.project.propose import Wishes, propose
from truesigma.project.survey import survey
from truesigma.project.template import recipe_text


def ultrasound(folder, cases=40):
    """Pictures of 32 to 47 pixels, two of each patient; only the last one is large."""
    rng = np.random.default_rng(0)
    (folder / "scans").mkdir(parents=True)
    rows = []
    for k in range(cases):
        side = 90 if k == cases - 1 else 32 + k % 16
        Image.fromarray(rng.integers(0, 256, (side, side), dtype=np.uint8)).save(
            folder / "scans" / f"{k // 2:03}_{k % 2}HC.png"
        )
        spacing = rng.uniform(0.1, 0.3)
        rows.append(
            {
                "filename": f"{k // 2:03}_{k % 2}HC.png",
                "pixel size(mm)": f"{spacing:.4f}",
                "head circumference (mm)": f"{60 * spacing:.3f}",
            }
        )
    write_table(folder / "labels.csv", rows)
    return survey(folder / "scans", folder / "labels.csv")


def test_a_column_that_looks_like_a_pixel_size(tmp_path):
    seen = ultrasound(tmp_path)
    assert seen.candidates == ["head circumference (mm)"]
    assert len(seen.shapes) == 17  # of every image, not of a sample
    target = "head circumference (mm)"
    made = propose(seen, Wishes((target,), patient="^([0-9]+)_"), tmp_path / "r.toml", gpu=False)
    options = made.project.options
    assert (options["spacing"], options["unit"]) == ("pixel size(mm)", "mm")
    apart = np.array([float(row["pixel size(mm)"]) for row in seen.rows])
    largest = max(spacing * head.shape[1] for spacing, head in zip(apart, seen.heads))
    assert options["size"] * options["mm_per_pixel"] >= largest  # nothing is cropped
    assert options["mm_per_pixel"] == pytest.approx(max(np.median(apart), largest / 128), rel=0.1)
    assert "a target in mm is a matter of mm" in made.reasons["mm_per_pixel"]
    assert "mm in pixel size(mm)" in made.reasons["mm_per_pixel"]
    assert made.cases == {"train": 24, "valid": 8, "test": 8}
    assert not any("stretched" in note or "patient of its own" in note for note in made.notes)
    (tmp_path / "r.toml").write_text(recipe_text(made))
    assert read_project(tmp_path / "r.toml").options == options
    months = propose(seen, Wishes((target,), ("months",)), tmp_path / "r.toml", gpu=False)
    assert "mm_per_pixel" not in months.project.options
    assert any("set data.mm_per_pixel" in note for note in months.notes)


def in_pixels(folder, columns, cases=30):
    """What is seen of pictures of one size with columns of pixel sizes, functions of a random number in [0, 1)."""
    rng = np.random.default_rng(0)
    rows = [{**row, "hc_mm": row["age"]} for row in make_images(folder, cases)]
    for row in rows:
        row |= {name: of(rng.random()) for name, of in columns.items()}
    write_table(folder / "labels.csv", rows)
    return survey(folder / "scans", folder / "labels.csv")


@pytest.mark.parametrize(
    ("columns", "spacing", "unit"),
    [
        ({"pixel size (um)": lambda u: 500 + 400 * u}, "pixel size (um)", 0.001),
        ({"µm_per_px": lambda u: 500 + 400 * u}, "µm_per_px", 0.001),
        ({"mpp": lambda u: 500 + 400 * u}, "mpp", 0.001),
        ({"PixelSizeCM": lambda u: 0.05 + 0.04 * u}, "PixelSizeCM", 10.0),
        ({"pixel_width": lambda u: 0.5, "pixel_height": lambda u: 1 + u}, "pixel_height,pixel_width", 1.0),
        ({"SpacingX": lambda u: 0.5, "SpacingY": lambda u: 1 + u}, "SpacingY,SpacingX", 1.0),
        ({"spacing": lambda u: 0.5, "spacing_y": lambda u: 1 + u}, "spacing_y,spacing", 1.0),
    ],
)
def test_columns_of_pixel_sizes_by_axis_and_unit(tmp_path, columns, spacing, unit):
    seen = in_pixels(tmp_path, columns)
    assert seen.candidates == ["age", "hc_mm"]
    options = propose(seen, Wishes(("hc_mm",)), tmp_path / "r.toml", gpu=False).project.options
    assert options["spacing"] == spacing
    said = np.array([[float(row[name]) * unit for name in spacing.split(",")] for row in seen.rows])
    middle = np.median(said, axis=0)
    got = np.array(str(options["mm_per_pixel"]).split(","), float)
    assert (got >= 0.999 * middle).all()
    assert (got <= 1.11 * middle).all()
    image = next((tmp_path / "scans").iterdir())
    row = rows_of([image], tmp_path / "labels.csv", "{id}.png", [])
    np.testing.assert_allclose(
        spacings(row, spacing, "t")[0], [float(row[0][c]) * unit for c in spacing.split(",")]
    )


def test_a_size_that_is_given_keeps_the_scale(tmp_path):
    """Squeezed to the size, a length could no longer be seen; without a unit the named column says enough."""
    seen = in_pixels(tmp_path, {"pixel size": lambda u: 0.5 + u})
    for wishes in (Wishes(("hc_mm",), size="24"), Wishes(("age",), size="24", spacing="pixel size")):
        options = propose(seen, wishes, tmp_path / "r.toml", gpu=False).project.options
        assert (options["size"], options["spacing"]) == (24, "pixel size")
        largest = 32 * max(float(row["pixel size"]) for row in seen.rows)
        assert largest <= 24 * options["mm_per_pixel"] <= 1.11 * largest
    given = propose(seen, Wishes(("age",), size="24", mm_per_pixel="2"), tmp_path / "r.toml", gpu=False)
    assert given.project.options["spacing"] == "pixel size"  # the files do not say it
    for wishes in (
        Wishes(("age",), size="24"),
        Wishes(("hc_mm",), size="0"),
        Wishes(("hc_mm",), size="24", mm_per_pixel="0"),
    ):
        assert "mm_per_pixel" not in propose(seen, wishes, tmp_path / "r.toml", gpu=False).project.options


def test_a_target_that_is_a_pixel_size_does_not_scale_the_images(tmp_path):
    seen = in_pixels(
        tmp_path, {"pixel size (mm)": lambda u: 0.5 + u, "dx": lambda u: 1 + u, "dy": lambda u: 1 + u}
    )
    made = propose(seen, Wishes(("pixel size (mm)",)), tmp_path / "r.toml", gpu=False)
    assert made.project.options["spacing"] == "dy,dx"  # another that says it
    assert any(
        note.startswith("pixel size (mm) is called like the size of pixels, and is") for note in made.notes
    )
    seen = in_pixels(tmp_path / "alone", {"pixel size (mm)": lambda u: 0.5 + u})
    made = propose(seen, Wishes(("pixel size (mm)",)), tmp_path / "r.toml", gpu=False)
    assert not {"spacing", "mm_per_pixel"} & set(made.project.options)
    assert any("nothing says how large the pixels of 30 images are" in note for note in made.notes)
    with pytest.raises(ValueError, match=r"flat is the same in all rows of .*; there is nothing to learn"):
        propose(
            in_pixels(tmp_path / "flat", {"flat": lambda _: 3}),
            Wishes(("flat",)),
            tmp_path / "r.toml",
            gpu=False,
        )
    both = "is both target and spacing: images would be resampled by what is to be predicted"
    with pytest.raises(ValueError, match=both):
        propose(seen, Wishes(("pixel size (mm)",), spacing="pixel size (mm)"), tmp_path / "r.toml", gpu=False)
    options = {"csv": "../labels.csv", "image": "{id}.png", "mm_per_pixel": 1, "size": 32}
    with pytest.raises(ValueError, match=both):
        table.load(
            str(tmp_path / "alone" / "scans"), target="pixel size (mm)", spacing="pixel size (mm)", **options
        )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "nothing says how large the pixels of 30 images are: a target in mm needs it"),
        ({"pixel size": lambda u: "" if u < 0.9 else 1 + u}, "pixel size is called like the size of"),
        ({"dx": lambda u: 1 + u}, "dx is called like the size of pixels, and does"),
        ({"pixel size": lambda u: 1.0}, ""),
    ],
)
def test_why_no_scale_is_proposed_is_said(tmp_path, columns, words):
    made = propose(in_pixels(tmp_path, columns), Wishes(("hc_mm",)), tmp_path / "r.toml", gpu=False)
    assert "mm_per_pixel" not in made.project.options
    assert (
        any(words in note for note in made.notes)
        if words
        else not any("a target in" in note for note in made.notes)
    )


def dicoms(folder, spacings, side=16):
    """DICOM images with these mm between their pixels, None for those that do not say it, and a table of lengths."""
    (folder / "v").mkdir()
    for k, mm in enumerate(spacings):
        said = {} if mm is None else {"PixelSpacing": [mm, mm]}
        write_dicom(folder / "v" / f"{k}.dcm", np.full((side, side), k, np.uint16), uid=f"1.{k}", **said)
    rows = [{"id": k, "length_mm": 9 + k, "max": 2 + k} for k in range(len(spacings))]
    return survey(folder / "v", write_table(folder / "t.csv", rows))


def test_a_few_images_of_unknown_scale_do_not_switch_it_off(tmp_path):
    seen = dicoms(tmp_path, [None if k in (3, 7) else 0.5 + k / 40 for k in range(20)])
    with pytest.raises(ValueError, match=r"2 of 20 images do not say .* 3.dcm, 7.dcm"):
        propose(seen, Wishes(("length_mm",)), tmp_path / "r.toml", gpu=False)
    without = propose(seen, Wishes(("length_mm",), mm_per_pixel="0"), tmp_path / "r.toml", gpu=False)
    assert "mm_per_pixel" not in without.project.options
    column = {"pixel size": lambda u: "" if u < 0.1 else 1 + u}
    with pytest.raises(ValueError, match=r"of 30 images do not say in pixel size"):
        propose(in_pixels(tmp_path / "c", column), Wishes(("hc_mm",)), tmp_path / "r.toml", gpu=False)


def test_an_image_with_pixels_of_quite_another_size_is_named(tmp_path):
    seen = dicoms(tmp_path, [700 if k == 7 else 0.7 + k / 100 for k in range(20)])
    lone = r"1 of 20 images have pixels of another size than the rest, of about 0\.8 mm: 7.dcm \(700 mm\)"
    with pytest.raises(ValueError, match=lone):
        propose(seen, Wishes(("length_mm",)), tmp_path / "r.toml", gpu=False)
    options = {"csv": "../t.csv", "image": "{id}.dcm", "target": "length_mm", "size": 16, "patient": ""}
    with pytest.raises(ValueError, match=lone):
        table.load(str(tmp_path / "v"), mm_per_pixel=0.7, **options)
    table.load(str(tmp_path / "v"), **options)  # squeezed, they are all alike


def test_an_overview_with_large_pixels_is_no_mistake():
    """It shows as much as the others do."""
    check_alike(["a", "b"], [(100, 100)] * 2, [(0.1,), (10.0,)])  # which of the two would be the mistake?
    check_alike(list("abcde"), [(100, 100)] * 4 + [(10, 10)], [(0.1,)] * 4 + [(1.0,)])


@pytest.mark.parametrize(
    ("target", "unit", "scale"),
    [
        ("hc", "widths", 0),
        ("widths", "", 0),
        ("hc", "", 0),
        ("age", "", 0.1),
        ("bone", "months", 0.1),
        ("dose", "", 0.1),
    ],
)
def test_only_what_is_no_size_is_learned_from_enlarged_images(tmp_path, target, unit, scale):
    """`widths` was not known for a size, and enlarged images made its error half as large again."""
    seen = in_pixels(tmp_path, {target: lambda u: u})
    made = propose(seen, Wishes((target,), (unit,)), tmp_path / "r.toml", gpu=False)
    assert made.project.options["scale"] == scale


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_folder_of_images_may_be_a_link(tmp_path, monkeypatch):
    """`..` of a link is the folder around its target: `scans/../labels.csv` is not there."""
    home, disk = tmp_path / "home", tmp_path / "disk" / "deep"
    write_table(tmp_path / "labels.csv", make_images(disk))
    home.mkdir()
    (tmp_path / "labels.csv").rename(home / "labels.csv")
    (home / "scans").symlink_to(disk / "scans")
    monkeypatch.chdir(home)
    assert call("--quiet", "init", *asked(), "-o", "recipe.toml") == 0
    project = read_project("recipe.toml")
    assert project.root == "scans"
    (home / "around").symlink_to(home)
    assert len(list_images(home)) == 48
    for root in (
        project.folder,
        project.folder.resolve(),
    ):  # as `run` reads it, and as what it trained does later
        assert len(Source("table", str(root), project.options).load().splits["test"]) > 5


def test_patients_by_pattern_and_a_patient_that_is_none(tmp_path):
    seen = ultrasound(tmp_path)
    wishes = ("head circumference (mm)",)
    for patient in ("([0-9]+_[0-9])HC", "filename"):
        made = propose(seen, Wishes(wishes, patient=patient), tmp_path / "r.toml", gpu=False)
        assert any(f"every image has a patient of its own by {patient}" in note for note in made.notes)
    with pytest.raises(ValueError, match=r"1 patient by .* too few to split"):
        propose(seen, Wishes(wishes, patient="(_)"), tmp_path / "r.toml", gpu=False)
    for patient, words in (
        ("(x+)_", r"40 of 40 images have no group by the pattern '\(x\+\)_': 000_0HC.png"),
        ("(", "is not a regular expression"),
        ("([0-9])([0-9])", "should have one pair of parentheses"),
        ("{clinic}", "has no column clinic"),
    ):
        with pytest.raises(ValueError, match=words):
            propose(seen, Wishes(wishes, patient=patient), tmp_path / "r.toml", gpu=False)


@pytest.mark.parametrize(("depth", "rotate"), [(1.0, 10.0), (3.0, 0.0)])
def test_voxels_longer_than_wide_are_not_turned_as_they_are(tmp_path, depth, rotate):
    """Turned in voxels of 3 x 1 x 1 mm, a length would change; resampled, images are turned in mm."""
    nibabel = pytest.importorskip("nibabel")
    (tmp_path / "v").mkdir()
    for k in range(30):
        volume = nibabel.Nifti1Image(np.full((16, 16, 16), k, np.uint8), np.diag([1, 1, depth, 1]))
        nibabel.save(volume, tmp_path / "v" / f"{k}.nii")
    seen = survey(
        tmp_path / "v", write_table(tmp_path / "t.csv", [{"id": k, "length_mm": k} for k in range(30)])
    )
    as_they_are = propose(seen, Wishes(("length_mm",)), tmp_path / "r.toml", gpu=False)
    assert as_they_are.project.options["rotate"] == rotate
    assert ("pixels are longer than wide" in as_they_are.reasons.get("rotate", "")) == (not rotate)
    resampled = Wishes(("length_mm",), mm_per_pixel="3,1,1", size="16")
    assert propose(seen, resampled, tmp_path / "r.toml", gpu=False).project.options["rotate"] == 10.0


def test_what_the_user_says_is_taken(place, run):
    words = [*asked(), "--set", "data.inputs=site", "--device", "cpu"]
    sets = "--set data.mm_per_pixel=0.5 --set data.spacing=0.4 --set data.size=24,32"
    code, _, err = run("init", *words, *sets.split())
    assert code == 0, err
    data = tomllib.loads((place / "recipe.toml").read_text())["data"]
    assert (data["size"], data["mm_per_pixel"], data["spacing"]) == ([24, 32], 0.5, 0.4)
    assert data["inputs"] == ["site"]
    for more, wrong in (
        (["--set", "data.mm_per_pixel=0.5"], "data.mm_per_pixel needs data.size"),
        (["--set", "data.inputs=height"], "has no column height"),
        (["--set", "data.inputs=site,age"], "age is both target and input"),
        (["--set", "data.inputs=id"], "id has 48 values in 48 training cases"),
        (["--set", "data.inputs=site,patient"], "patient says who belongs together, and cannot be an input"),
        (["--set", "train.epochs=0"], "train.epochs is 0; expected at least 1"),
        (["--patient", "(s)"], "1 patient by '(s)' is too few to split"),
        (["--set", "network.backbone=restnet18"], "do you mean timm:resnet18"),
        (["--set", "network.backbone=timm:restnet18"], "close to it: resnet18"),
        (["--set", "network.backbone=mine.py"], "there is no file"),
    ):
        code, _, err = run("init", *words, *more, "-o", "other.toml")
        assert code != 0
        assert wrong in err


def test_from_init_to_new_images_with_scale_and_inputs(tmp_path, monkeypatch):
    """What was done is in the card: epochs, dropout, hashes, spacing; new images take their columns from a csv."""
    rows = make_images(tmp_path)
    rng = np.random.default_rng(0)
    write_table(tmp_path / "labels.csv", [{**row, "mm": f"{rng.uniform(0.9, 1.1):.3f}"} for row in rows])
    monkeypatch.chdir(tmp_path)
    words = [*asked(), "--unit", "months", "--set", "train.epochs=2"]
    scale = [
        "--set", "data.mm_per_pixel=1", "--set", "data.size=32", "--set", "data.spacing=mm", "--set",
        "data.inputs=site",
    ]  # fmt: skip
    assert call("--quiet", "init", *words, *scale, "--device", "cpu") == 0
    tiny(tmp_path / "recipe.toml")
    assert call("--quiet", "run", "recipe.toml", "--device", "cpu") == 0
    card = json.loads((tmp_path / "output" / "card.json").read_text())
    assert not {"network", "train"} & set(card["choices"])
    (made,) = card["data"]["network"]
    done = len((tmp_path / "output" / "runs" / "0" / "history.csv").read_text().splitlines()) - 1
    assert made["train"]["epochs"] == done
    assert 1 <= made["train"]["kept epoch"] <= done
    assert {"learning_rate", "warm_up", "stop", "loss"} < set(made["train"])
    assert not {"patience", "factor", "floor", "momentum"} & set(made["train"])  # of a plateau, and of SGD
    assert made["dropout"] == {"before heads": 0.1, "in backbone": [0.2]}
    assert {key: made["options"][key] for key in ("mm_per_pixel", "size", "spacing", "inputs")} == {
        "mm_per_pixel": 1, "size": 32, "spacing": "mm", "inputs": "site",
    }  # fmt: skip
    assert made["inputs"] == [{"name": "site", "levels": ["A", "B"]}]
    assert set(card["data"]["hashes"]) == {"train", "valid", "test"}
    new = ["output/runs/0", "--images", "scans", "--card", "output/card.json", "--device", "cpu"]
    assert call("--quiet", "predict", *new, "--table", "labels.csv", "-o", "new.csv") == 0
    found = {row["id"]: float(row["location"]) for row in csv.DictReader((tmp_path / "new.csv").open())}
    for row in csv.DictReader((tmp_path / "output" / "predictions.csv").open()):
        assert found[row["id"]] == pytest.approx(float(row["location"]), rel=1e-4)
    ship = ["export", "output/runs/0", "--card", "output/card.json", "-o", "m.onnx", "--json", "m.json"]
    assert call("--quiet", *ship) == 0
    shipped = json.loads((tmp_path / "m.json").read_text())
    assert json.loads(shipped["metadata"]["network"]) == [made]  # the same
    assert shipped["input"] == ["case", 1, "height", "width"]
    assert len(shipped["known"]) == 3
    assert shipped["difference_in_unit"] < 0.01


def test_a_category_that_no_training_case_has_is_said_by_init(tmp_path):
    rows = make_images(tmp_path)
    for row, split in zip(rows, ["train"] * 30 + ["valid"] * 8 + ["test"] * 10):
        row |= {"split": split, "patient": row["id"], "site": "C" if split == "valid" else row["site"]}
    seen = survey(tmp_path / "scans", write_table(tmp_path / "labels.csv", rows))
    with pytest.raises(ValueError, match=r"the input site is 'C', which no training case has"):
        propose(seen, Wishes(("age",), inputs=("site",)), tmp_path / "r.toml", gpu=False)
    propose(seen, Wishes(("age",), inputs=("site",), folds=5), tmp_path / "r.toml", gpu=False)


def test_groups_apart_where_every_image_is_alone(place, run):
    """What init counts is what run splits: without a patient in the recipe, the site would be taken for one."""
    words = [*asked(), "--patient", "", "--group", "site", "--device", "cpu", "--set", "train.epochs=1"]
    code, out, err = run("init", *words)
    assert code == 0, err
    assert "splits: 28 train, 10 valid, 10 test, by {id}.png" in out
    assert "no patient: if several images are of one" in out
    project = read_project(place / "recipe.toml")
    assert (project.options["patient"], project.options["group"]) == ("{id}.png", "site")
    data = table.load(str(place / "scans"), **project.options)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 28, "valid": 10, "test": 10}
    assert set(data.splits["test"].group) == {"A", "B"}
