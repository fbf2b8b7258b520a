"""init: what it sees in a folder and a table, what it proposes, what it asks, and what it refuses."""

import json
import shutil
import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from project_files import make_images, write_table

from truesigma.project.project import read_project
from truesigma.project.propose import Wishes, propose
from truesigma.project.survey import survey
from truesigma.project.template import recipe_text


def test_the_recipe_of_a_folder(place, run):
    words = ["--images", "scans", "--table", "labels.csv", "--target", "age", "--unit", "months"]
    code, out, err = run("init", *words, "--device", "cpu", "--json", "seen.json")
    assert code == 0, err
    assert "48 rows, columns id, age, patient, site" in err
    assert "images: {id}.png in scans, 48 of 48 found" in err
    assert "2-D, 1 channel, uint8, 32 x 32" in err
    assert "patients: patient, 24 in 48 rows" in err
    assert "splits: 28 train, 10 valid, 10 test, by patient" in out
    assert "next: truesigma run recipe.toml --dry-run" in out
    text = (place / "recipe.toml").read_text()
    keys = [line for line in text.splitlines() if " = " in line and not line.startswith("#")]
    assert len(keys) > 30
    assert all(" # " in line for line in keys)  # commented line by line
    stored = tomllib.loads(text)
    assert stored["data"] | {"csv": 0} == {
        "root": "scans", "csv": 0, "image": "{id}.png", "target": ["age"], "unit": ["months"], "group": "",
        "patient": "patient",
        "split": "", "valid": 0.2, "test": 0.2, "seed": 0, "size": 0, "dimensions": 2, "flip": True, "turn": False,
        "rotate": 10.0, "scale": 0.1, "shift": 2, "intensity": 0.1, "normalise": "set", "skip_broken": False,
        "memory": 8.0,
    }  # fmt: skip
    # What plans compete about is not in it.
    assert stored["network"] == {"likelihood": "gaussian", "variances": "one"}
    assert stored["train"] == {
        "plan": "race", "minutes": 10.0, "seed": 0, "precision": "fp32", "workers": 4,
    }  # fmt: skip
    project = read_project(place / "recipe.toml")
    assert project.options["csv"] == "../labels.csv"
    seen = json.loads((place / "seen.json").read_text())
    assert seen["image"]["shapes"] == [[1, 32, 32]]
    assert seen["candidates"] == ["age"]
    assert sum(seen["cases"].values()) == 48


def test_a_recipe_reads_back_as_it_was_proposed(place):
    """Every key of the file comes back, also names with quotes, umlauts and backslashes."""
    rows = make_images(place / "other", 40)
    odd = 'Größe "\\x"'
    write_table(place / "other" / "t.csv", [{**row, odd: k} for k, row in enumerate(rows)])
    seen = survey(place / "other" / "scans", place / "other" / "t.csv")
    wishes = Wishes(("age", odd), ("months", "mm"), members=3, likelihood="laplace")
    proposal = propose(seen, wishes, place / "r.toml", gpu=False)
    (place / "r.toml").write_text(recipe_text(proposal))
    again = read_project(place / "r.toml")
    assert again.tables() == proposal.project.tables()
    assert (again.root, again.output) == (proposal.project.root, "output")
    assert again.network.variances == "each"
    assert again.sample.method == "ensemble"
    assert again.sample.networks == 3


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_paths_are_found_in_many_ways(tmp_path, delimiter):
    rows = make_images(tmp_path, 12)

    def copy(row, *to):
        tmp_path.joinpath(*to[:-1]).mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "scans" / f"{row['id']}.png", tmp_path.joinpath(*to))

    def image(rows, images="scans", **more):
        path = write_table(tmp_path / "t.csv", rows, delimiter)
        found = survey(tmp_path / images, path, **more)
        return found.image, str(found.root.relative_to(tmp_path))

    assert image(rows) == ("{id}.png", "scans")
    assert image(rows, ".") == ("{id}.png", "scans")
    assert image([{"file": f"scans/{row['id']}.png", **row} for row in rows]) == ("file", ".")
    assert image([{"file": f"{row['id']}.png", **row} for row in rows]) == ("file", "scans")
    assert image(rows, image="{id}.png") == ("{id}.png", "scans")
    for row in rows:
        copy(row, "all", row["patient"], f"{row['id']}.png")
    assert image(rows, "all") == ("{patient}/{id}.png", "all")
    for row in rows:  # as in BIDS: the folder says whose it is, the file what it is
        copy(row, "bids", row["id"], "anat", "t1.png")
    assert image(rows, "bids") == ("{id}/anat/t1.png", "bids")
    (tmp_path / "bids" / rows[0]["id"] / "anat" / "t1.png").unlink()  # of the first row it is missing
    assert image(rows, "bids") == ("{id}/anat/t1.png", "bids")
    for row in rows:
        copy(row, "bids", row["id"], "anat", "t2.png")
    (tmp_path / "bids" / rows[0]["id"] / "anat" / "t2.png").unlink()
    with pytest.raises(ValueError, match=r"one of several images: .*t1.png, .*t2.png; choose with"):
        image(rows, "bids")
    for k, row in enumerate(rows):  # two columns in one name, as of slides and regions
        row |= {"slide": f"{100 + k // 3}", "region": str(k % 3)}
        copy(row, "regions", f"{row['slide']}_{row['region']}.png")
    assert image(rows, "regions") == ("{slide}_{region}.png", "regions")
    assert image(rows, "bids", image="{id}/anat/t2.png") == ("{id}/anat/t2.png", "bids")


def test_columns_that_may_be_groups(tmp_path):
    """A patient always; a group only with so many values that it cannot be a kind of treatment."""
    rows = make_images(tmp_path, 24)

    def group(name, values):
        table = [{"id": row["id"], "age": row["age"], name: value} for row, value in zip(rows, values)]
        return survey(tmp_path / "scans", write_table(tmp_path / "t.csv", table)).patient

    assert group("Patient ID", [k // 8 for k in range(24)]) == "Patient ID"
    assert group("slide", [k // 2 for k in range(24)]) == "slide"
    assert group("group", ["placebo", "drug"] * 12) == ""
    assert group("subject", [""] * 24) == ""
    assert group("subject", ["", *(k // 2 for k in range(23))]) == "subject"
    assert group("site", [k // 2 for k in range(24)]) == ""


def test_volumes_and_sizes(tmp_path):
    (tmp_path / "v").mkdir()
    rng = np.random.default_rng(0)
    rows = [{"id": f"v{k}", "volume": k} for k in range(12)]
    for k, row in enumerate(rows):
        np.save(tmp_path / "v" / f"{row['id']}.npy", rng.normal(size=(20 + k % 3, 24, 40)).astype(np.float32))
    seen = survey(tmp_path / "v", write_table(tmp_path / "t.csv", rows))
    assert (seen.dimensions, seen.channels, seen.dtype, len(seen.shapes)) == (3, 1, "float32", 3)
    made = propose(seen, Wishes(("volume",)), tmp_path / "r.toml", gpu=True)
    assert made.project.network.backbone == "small3d"
    assert made.project.options["size"] == 24
    assert made.project.options["dimensions"] == 3
    assert any("differ in size, and each is stretched to 24 pixels" in note for note in made.notes)
    pictures = make_images(tmp_path / "p", 12, side=300)
    seen = survey(tmp_path / "p" / "scans", write_table(tmp_path / "p.csv", pictures))
    made = propose(seen, Wishes(("age",)), tmp_path / "r.toml", gpu=True)
    assert made.project.network.backbone == "resnet101"
    assert made.project.options["size"] == 256
    assert not any("differ in size" in note for note in made.notes)
    assert made.project.train.precision == "bf16"
    assert propose(seen, Wishes(("age",)), tmp_path / "r.toml", gpu=False).project.network.backbone == "small"


def test_a_split_column_is_used(tmp_path):
    rows = make_images(tmp_path, 12)
    said = ["train"] * 6 + ["val"] * 2 + ["Calibration"] * 2 + ["test"] * 2
    path = write_table(tmp_path / "t.csv", [{**row, "split": word} for row, word in zip(rows, said)])
    seen = survey(tmp_path / "scans", path)
    assert seen.split == "split"
    made = propose(seen, Wishes(("age",)), tmp_path / "r.toml", gpu=False)
    assert made.cases == {"train": 6, "valid": 2, "test": 2, "calibration": 2}
    assert made.project.calibrate.split == "calibration"
    assert made.project.options["split"] == "split"
    torn = [{**row, "split": word} for row, word in zip(rows, ["train", "test"] * 5 + ["valid"] * 2)]
    seen = survey(tmp_path / "scans", write_table(tmp_path / "t.csv", torn))
    with pytest.raises(ValueError, match="more than one split"):
        propose(seen, Wishes(("age",)), tmp_path / "r.toml", gpu=False)


def test_a_split_column_with_other_words_is_not_followed_without_a_word(tmp_path):
    rows = make_images(tmp_path, 12)
    said = ["Trainingsdaten"] * 6 + ["Validierung"] * 3 + ["Testdaten"] * 3
    path = write_table(tmp_path / "t.csv", [{**row, "split": word} for row, word in zip(rows, said)])
    seen = survey(tmp_path / "scans", path)
    note = "split says Testdaten, Trainingsdaten, Validierung, not train, valid and test: it is not followed"
    made = propose(seen, Wishes(("age",)), tmp_path / "r.toml", gpu=False)
    assert [text.startswith(note) for text in made.notes].count(True) == 1
    made = propose(seen, Wishes(("age",), split=""), tmp_path / "r.toml", gpu=False)
    assert not any(text.startswith(note) for text in made.notes)


def test_names_that_are_not_those_of_the_files_are_shown_beside_them(tmp_path):
    """Excel takes zeros away, Windows writes upper-case endings, macOS splits accents: none of that is guessed."""
    rows = make_images(tmp_path, 12)
    path = write_table(tmp_path / "t.csv", [{**row, "id": f"S{k:03}.PNG"} for k, row in enumerate(rows)])
    with pytest.raises(ValueError, match=r"'S000\.PNG', .* is called 's000\.png'"):
        survey(tmp_path / "scans", path)
    for k, row in enumerate(rows):
        name = unicodedata.normalize("NFD", f"ü{k}.png")
        (tmp_path / "scans" / f"{row['id']}.png").rename(tmp_path / "scans" / name)
    path = write_table(tmp_path / "t.csv", [{**row, "id": f"ü{k}.png"} for k, row in enumerate(rows)])
    with pytest.raises(ValueError, match="Some look alike, but store their accents in two ways"):
        survey(tmp_path / "scans", path)


def test_missing_and_broken_images_are_said(place, run):
    (place / "scans" / "s003.png").unlink()
    (place / "scans" / "s000.png").write_bytes(b"no image")
    code, out, err = run("init", "--images", "scans", "--target", "age", "--device", "cpu")
    assert code == 0, err
    assert "47 of 48 found" in err
    assert "missing: 1 image, s003.png" in err
    assert "cannot be read: s000.png" in err
    assert "missing or broken: 2 images" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "age"], "no images were given"),
        (["--images", "nowhere", "--target", "age"], "there is no folder nowhere"),
        (["--images", "scans"], "the columns of numbers in labels.csv are age: give one as --target"),
        (["--images", "scans", "--target", "height"], "has no column height; it has id, age, patient, site"),
        (["--images", "scans", "--target", "site"], "no finite number in 48 targets: row 1, site 'A'"),
        (["--images", "scans", "--target", "age", "--group", "hospital"], "has no column hospital"),
        (["--images", "scans", "--target", "age", "--table", "no.csv"], "there is no file"),
        (["--images", "scans", "--target", "age", "--image", "{id}.tif"], "none of the images"),
        (["--images", "scans", "--target", "age", "--unit", "a", "--unit", "b"], "2 units for 1 target;"),
        (["--images", "scans", "--target", "age", "-o", "recipe.json"], "should end in .toml"),
        (
            ["--images", "scans", "--target", "age", "--set", "network.likelihood=cauchy"],
            "expected one of gaussian, laplace",
        ),
    ],
)
def test_what_is_missing_is_named(place, run, words, message):
    code, _, err = run("init", *words, "--device", "cpu")
    assert code == 2
    assert message in err.replace("\n", " ")
    assert not (place / "recipe.toml").exists()


def test_a_recipe_is_not_overwritten(begun, run):
    recipe = begun / "recipe.toml"
    before = recipe.read_text()
    code, _, err = run("init", "--images", "scans", "--target", "age", "--device", "cpu")
    assert code == 2
    assert "exists already; --force overwrites it" in err
    assert recipe.read_text() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: [{**row, "id": "s001"} if k < 2 else row for k, row in enumerate(rows)],
            "names 1 image: s001.png",
        ),
        (lambda rows: [{**row, "patient": "p1"} for row in rows], "no cases for"),
        (lambda rows: [{"name": "x", "age": row["age"]} for row in rows], "no column of"),
    ],
)
def test_bad_tables(place, run, change, message):
    rows = make_images(place / "more", 12)
    write_table(place / "t.csv", change(rows))
    code, _, err = run(
        "init", "--images", "more/scans", "--table", "t.csv", "--target", "age", "--device", "cpu"
    )
    assert code == 2
    assert message in err


def test_the_unit_and_the_scale_are_taken_from_the_name(place, run):
    """A length in mm is not squeezed, but it can be."""
    rows = make_images(place / "more", 12)
    rows = [{**row, "length_mm": row["age"], "spacing": 1 + k} for k, row in enumerate(rows)]
    write_table(place / "t.csv", rows)
    given = ["--images", "more/scans", "--table", "t.csv", "--target", "length_mm", "--set", "data.size=32"]
    for more, scaled in ([], True), (["--set", "data.mm_per_pixel=0"], False):
        code, _, err = run("init", *given, *more, "--device", "cpu", "--force")
        assert code == 0, err
        options = read_project(place / "recipe.toml").options
        assert options["unit"] == "mm"
        assert ("mm_per_pixel" in options, options["size"]) == (scaled, 32)


def test_units_with_commas_between(tmp_path, place, run):
    rows = [
        {**row, "length": row["age"], "spacing": 1 + k}
        for k, row in enumerate(make_images(tmp_path / "more"))
    ]
    write_table(place / "t.csv", rows)
    words = [
        "init", "--images", "more/scans", "--table", "t.csv", "--target", "length,age", "--device", "cpu",
    ]  # fmt: skip
    assert run(*words, "--unit", "mm,years")[0] == 0
    options = read_project(place / "recipe.toml").options
    assert options["unit"] == "mm,years"
    assert options["spacing"] == "spacing"
    assert "3 units for 2 targets" in run(*words, "--unit", "mm,mm,years", "--force")[2]


@pytest.mark.parametrize("column", ["patient", "split"])
def test_a_gap_in_what_keeps_cases_apart_is_refused(column, tmp_path, monkeypatch, run):
    """One empty cell must not turn a split by patient, or one's own, into one by chance."""
    monkeypatch.chdir(tmp_path)
    rows = make_images(tmp_path, 24)
    words = ["train", "valid", "test"]
    rows = [{**row, "patient": f"P{k // 2}", "split": words[k // 2 % 3]} for k, row in enumerate(rows)]
    rows[5][column] = ""
    write_table(tmp_path / "t.csv", rows)
    given = ["init", "--images", "scans", "--table", "t.csv", "--target", "age", "--set", "train.epochs=2"]
    code, _, err = run(*given)
    assert (code, f"'{column}' is empty in 1 row, the first is row 6" in err) == (2, True)
    without = ["--patient", ""] if column == "patient" else ["--set", "data.split="]
    assert run(*given, *without)[0] == 0


def test_a_site_is_no_patient(tmp_path, monkeypatch, run):
    """Beside a column of patients a group is only looked at apart; without one every image is a patient of its own."""
    monkeypatch.chdir(tmp_path)
    rows = [{**row, "scanner": "AB"[k % 2]} for k, row in enumerate(make_images(tmp_path, 48))]
    write_table(tmp_path / "t.csv", rows)
    given = ["init", "--images", "scans", "--table", "t.csv", "--target", "age", "--group", "scanner"]
    code, out, _ = run(*given)
    assert (code, "by patient" in out) == (0, True)
    written = tomllib.loads(Path("recipe.toml").read_text(encoding="utf-8"))["data"]
    assert (written["patient"], written["group"]) == ("patient", "scanner")
    assert "28 train, 10 valid, 10 test" in run(*given, "--patient", "", "--force")[1]
