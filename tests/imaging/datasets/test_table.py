"""Any folder with a table: file kinds, splits that keep groups whole, scaling by training, broken files, streaming."""

import re
import shutil
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from truesigma.imaging.data.dataset import Picked, batches
from truesigma.imaging.data.folder import BrokenFiles
from truesigma.imaging.data.folds import Fold
from truesigma.imaging.data.prepare import as_stored
from truesigma.imaging.datasets import table


def make_table(root, lines, name="table.csv"):
    root.mkdir(exist_ok=True)
    (root / name).write_text("\n".join(lines) + "\n")


def make_folder(root, cases=12, *, header="image,target,split,group", seed=0):
    """Grey PNG of 8 x 6; half of the cases train, a quarter each valid and test; three cases per patient."""
    rng = np.random.default_rng(seed)
    root.mkdir(exist_ok=True)
    where = ["train"] * (cases // 2) + ["valid"] * (cases // 4) + ["test"] * (cases // 4)
    lines = [header]
    for k in range(cases):
        Image.fromarray(rng.integers(0, 256, (8, 6), dtype=np.uint8)).save(root / f"{k}.png")
        values = {"image": f"{k}.png", "target": str(3 + 0.5 * k), "split": where[k], "group": f"p{k // 3}"}
        values |= {"second": str(-k)}
        lines.append(",".join(values[column] for column in header.split(",")))
    make_table(root, lines)
    return root


def test_scaling_by_the_training_cases(tmp_path):
    data = table.load(str(make_folder(tmp_path / "t")), unit="mm")
    assert {key: len(split) for key, split in data.splits.items()} == {"train": 6, "valid": 3, "test": 3}
    assert (float(data.offset), float(data.factor)) == (3.0, 2.5)
    assert float(data.splits["train"].target.min()) == 0
    assert float(data.splits["train"].target.max()) == 1
    assert data.in_unit(data.splits["test"].target).flatten().tolist() == pytest.approx([7.5, 8.0, 8.5])
    assert float(data.splits["test"].target.max()) > 1  # beyond the training range, and said so
    prepared = data.prepare(data.splits["train"].images)
    assert float(prepared.mean()) == pytest.approx(0, abs=1e-5)
    assert float(prepared.std(correction=0)) == pytest.approx(1, abs=1e-5)
    assert data.unit == ("mm",)
    assert data.splits["train"].group == ("p0", "p0", "p0", "p1", "p1", "p1")


def test_two_targets_and_other_column_names(tmp_path):
    root = make_folder(tmp_path / "t", header="image,target,second")
    data = table.load(str(root), target="target,second", unit="mm,deg")
    assert (data.outputs, data.unit) == (2, ("mm", "deg"))
    assert all(split.group is None for split in data.splits.values())
    assert data.splits["train"].target.shape == (6, 2)
    with pytest.raises(ValueError, match=r"has no column age; it has image, target, second"):
        table.load(str(root), target="age")
    with pytest.raises(ValueError, match="has no column fold"):
        table.load(str(root), split="fold")
    with pytest.raises(ValueError, match="2 outputs, but 3 units"):
        table.load(str(root), target="target,second", unit="a,b,c")


def test_a_group_that_straddles_is_named(tmp_path):
    root = make_folder(tmp_path / "t")
    lines = (root / "table.csv").read_text().splitlines()
    lines[1] = lines[1].replace("p0", "p3")
    make_table(root, lines)
    with pytest.raises(ValueError, match=r"1 of 4 groups.*'p3' in test and train"):
        table.load(str(root))


def test_other_spellings_and_more_splits(tmp_path):
    root = make_folder(tmp_path / "t")
    text = (
        (root / "table.csv")
        .read_text()
        .replace("valid", "Validation")
        .replace("11.png,8.5,test", "11.png,8.5,shifted")
    )
    make_table(root, [line.replace("p3", "p9") if "shifted" in line else line for line in text.splitlines()])
    assert set(table.load(str(root)).splits) == {"train", "valid", "test", "shifted"}
    make_table(root, text.replace("Validation", "shifted").splitlines())
    with pytest.raises(ValueError, match="no cases for valid"):
        table.load(str(root), group="split")


def test_broken_files_are_named_counted_and_can_be_left_out(tmp_path):
    root = make_folder(tmp_path / "t", 24)
    (root / "0.png").unlink()
    (root / "5.png").write_bytes(b"no picture")
    Image.new("L", (3, 3)).save(root / "7.png")
    Image.new("RGB", (6, 8)).save(root / "8.png")
    Image.fromarray(np.zeros((8, 6), np.uint16)).save(root / "9.png")
    with pytest.raises(BrokenFiles) as error:
        table.load(str(root))
    text = str(error.value)
    assert text.startswith("5 of 24 images could not be read: 0.png (no such file); 5.png")
    assert "7.png (has shape (1, 3, 3), the others (1, 8, 6); a size makes them equal)" in text
    assert "9.png (has more than 8 bits" in text
    with pytest.warns(UserWarning, match=r"5 of 24 images left out: 0\.png, 5\.png, 7\.png"):
        data = table.load(str(root), skip_broken=True)
    assert sum(len(split) for split in data.splits.values()) == 19


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["image,target"], "a header but no rows"),
        (["image,target", "0.png,", "1.png,nan", "2.png,x"], r"no finite number in 3 targets: row 1"),
        (
            ["image;target", "0.png;1,5", "", "1.png;2.5"],  # which of the two is it?
            r"row 1, target '1,5'\. .*with a point",
        ),
        (["image,target", "0.png,1", "", "1.png,x"], "row 2, target 'x'. Correct them, or take"),
        (["image,target", "0.png,1", "1.png,1", "2.png,1", "3.png,1"], "all training targets are equal"),
        (["image,target", "0.png,1", "1.png,2"], "no cases for .*need more than 2 cases"),
    ],
)
def test_bad_tables(tmp_path, lines, message):
    root = make_folder(tmp_path / "t")
    make_table(root, lines)
    with pytest.raises(ValueError, match=message):
        table.load(str(root))
    with pytest.raises(ValueError, match=r"there is no file .*none\.csv"):
        table.load(str(root), csv="none.csv")


def test_streaming_gives_what_memory_gives(tmp_path):
    root = make_folder(tmp_path / "t", 24)
    whole, streamed = table.load(str(root)), table.load(str(root), memory=1e-9)
    assert isinstance(streamed.splits["train"].images, Picked)
    assert streamed.channels == 1
    assert streamed.prepare.mean == pytest.approx(whole.prepare.mean)
    for key, split in whole.splits.items():
        for one, two in zip(
            batches(split, 4, prepare=whole.prepare),
            batches(streamed.splits[key], 4, prepare=streamed.prepare),
        ):
            assert torch.allclose(one.images, two.images)
            assert torch.equal(one.target, two.target)
    names = streamed.splits["test"].name
    for name in names[1:3]:
        (root / name).write_bytes(b"broken since")
    with pytest.raises(BrokenFiles, match=rf"2 of 24 images .*{names[1]}.*{names[2]}"):
        list(batches(streamed.splits["test"], 4))
    with pytest.warns(UserWarning, match="2 of 24 images left out"):
        assert len(table.load(str(root), memory=1e-9, skip_broken=True).splits["test"]) == len(names) - 2
    (root / "3.png").unlink()
    with pytest.raises(BrokenFiles, match=r"1 of 24 images could not be read: 3\.png"):
        table.load(str(root), memory=1e-9)


def volumes(cases=8, shape=(4, 5, 6), seed=0):
    return np.random.default_rng(seed).normal(100, 20, (cases, *shape)).astype(np.float32)


def volume_table(root, names):
    make_table(root, ["image,target", *(f"{name},{k}" for k, name in enumerate(names))])


def check_volumes(root, values, **options):
    """Every volume comes back, wherever the split put it, and training is normalised."""
    data = table.load(str(root), **options)
    rows = [line.split(",")[0] for line in (root / "table.csv").read_text().split()[1:]]
    for split in data.splits.values():
        for k, name in enumerate(split.name):
            assert split.images[k].numpy() == pytest.approx(values[rows.index(name)][None], rel=1e-4)
    assert float(data.prepare(data.splits["train"].images).mean()) == pytest.approx(0, abs=1e-3)
    return data


def test_npy_volumes(tmp_path):
    values = volumes()
    for k, value in enumerate(values):
        np.save(tmp_path / f"{k}.npy", value)
    volume_table(tmp_path, [f"{k}.npy" for k in range(8)])
    data = check_volumes(tmp_path, values, dimensions=3)  # else the first axis, 4 long, would be channels
    assert data.splits["train"].shape == (1, 4, 5, 6)
    small = table.load(str(tmp_path), size=4, dimensions=3)
    assert small.splits["train"].shape == (1, 4, 4, 4)
    np.save(tmp_path / "3.npy", np.full((4, 5, 6), np.nan, np.float32))
    with pytest.raises(BrokenFiles, match=r"3\.npy \(holds values that are not finite\)"):
        table.load(str(tmp_path), dimensions=3)


def test_nifti_volumes(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    values = volumes()
    for k, value in enumerate(values):
        image = nibabel.Nifti1Image(value.transpose(2, 1, 0), np.eye(4))
        nibabel.save(image, tmp_path / f"{k}.nii.gz")
    volume_table(tmp_path, [f"{k}.nii.gz" for k in range(8)])
    check_volumes(tmp_path, values)


def test_paths_from_several_columns(tmp_path):
    root = make_folder(tmp_path / "t", header="image,target,split,group")
    lines = (root / "table.csv").read_text().splitlines()
    rows = [line.replace(".png", "").replace(",", ";") for line in lines]
    (root / "table.csv").write_text("\n".join(rows) + "\n\n")  # semicolons, and an empty line at the end
    data = table.load(str(root), image="{image}.png")
    assert data.splits["train"].name[:2] == ("0.png", "1.png")
    for k in range(12):
        (root / f"p{k // 3}").mkdir(exist_ok=True)
        (root / f"{k}.png").rename(root / f"p{k // 3}" / f"{k}.png")
    data = table.load(str(root), image="{group}/{image}.png")
    assert data.splits["test"].name == ("p3/9.png", "p3/10.png", "p3/11.png")
    with pytest.raises(ValueError, match="has no column patient; it has image, target, split, group"):
        table.load(str(root), image="{patient}/{image}.png")


def test_no_split_and_no_group_can_be_asked_for(tmp_path):
    root = make_folder(tmp_path / "t")
    data = table.load(str(root), split="", group="")
    assert all(split.group is None for split in data.splits.values())
    assert len(data.splits["train"]) == 6
    assert data.splits["train"].name != tuple(f"{k}.png" for k in range(6))  # drawn by the seed


def test_an_image_that_is_read_may_be_written_to(tmp_path):
    """A NIfTI that is mapped from disk may not, and torch warns of that."""
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(nibabel.Nifti1Image(np.ones((4, 5, 6), np.float32), np.eye(4)), tmp_path / "a.nii")
    with warnings.catch_warnings(action="error"):
        for size in (0, 3):
            table.read(str(tmp_path / "a.nii"), size=size)
    assert as_stored(np.broadcast_to(np.float32(1), (1, 4, 4))).flags.writeable


def test_copies_of_a_picture_are_named(tmp_path):
    """One that was trained on and is tested on under another name; not if a patient says so, nor a blank one."""
    root = make_folder(tmp_path / "t")
    shutil.copy(root / "0.png", root / "11.png")
    shutil.copy(root / "1.png", root / "2.png")
    for k in (3, 10):
        Image.new("L", (6, 8)).save(root / f"{k}.png")
    with pytest.warns(UserWarning, match=r"has two names: 0\.png \(train\) and 11\.png \(test\)\. What"):
        table.load(str(root))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1.png,3.5", "0.png,3.5", "more than one row names 1 image: 0.png; keep one row for each image"),
        ("1.png,3.5", "./0.png,3.5", "more than one row names 1 image: 0.png"),
        ("1.png,3.5", "1.png,inf", "no finite number in 1 target: row 2, target 'inf'. Correct them, or"),
        ("1.png,3.5", ",3.5", "no image is named in 1 row, the first is row 2"),
        ("1.png,3.5,train,p0", "1.png,3.5,train,", "'group' is empty in 1 row, the first is row 2"),
        ("1.png,3.5,train,p0", "1.png,3.5,,p0", "'split' is empty in 1 row"),
        ("1.png,3.5,train,p0", "1.png,3,5,train,p0", "row 2 .*has 5 cells under 4 columns"),
        ("image,target,split", "image,target,target", "has more than one column target"),
    ],
)
def test_rows_that_say_too_little_or_too_much(tmp_path, old, new, message):
    root = make_folder(tmp_path / "t")
    text = (root / "table.csv").read_text()
    assert old in text
    (root / "table.csv").write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        table.load(str(root))


def test_patients_are_kept_whole_beside_groups(tmp_path):
    """The site may be in every split, the patient in one."""
    root = make_folder(tmp_path / "t", 48, header="image,target,group")
    lines = (root / "table.csv").read_text().splitlines()
    rows = [f"{line},{'AB'[k % 2]}" for k, line in enumerate(lines[1:])]
    (root / "table.csv").write_text("\n".join([f"{lines[0]},site", *rows]) + "\n")
    data = table.load(str(root), patient="group", group="site")
    whose = [set(split.patient) for split in data.splits.values()]
    assert len(set.union(*whose)) == sum(map(len, whose)) == 16
    assert all(set(split.group) == {"A", "B"} for split in data.splits.values())
    assert data.splits["train"].together == data.splits["train"].patient


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("7", "7.0", "007"), "1 name of 'group' may be spelt in several ways: '7' and '7.0' and '007'."),
        (("P 01", "p1", "Q2", "q2", "r3", "R3"), "3 names of 'group' .*: 'P 01' and 'p1'"),
        (("7", "70", "700", "0", "1.5", "1.05", "1.2.0", "1.2"), ""),
    ],
)
def test_names_that_may_be_one_patient_are_said_and_not_merged(tmp_path, names, said):
    root = make_folder(tmp_path / "t", 48, header="image,target")
    lines = (root / "table.csv").read_text().splitlines()
    rows = [f"{line},{names[k % len(names)]}" for k, line in enumerate(lines[1:])]
    make_table(root, [f"{lines[0]},group", *rows])
    with warnings.catch_warnings(record=True) as heard:
        data = table.load(str(root))
    assert {name for split in data.splits.values() for name in split.group} == set(names)
    assert len(heard) == bool(said)
    assert re.search(said, "".join(str(one.message) for one in heard))


def test_several_columns_are_looked_at_apart(tmp_path):
    """Each is a group of its own, in every split and in what is predicted; the patient says who belongs together."""
    root = make_folder(tmp_path / "t", 48, header="image,target,group")
    lines = (root / "table.csv").read_text().splitlines()
    rows = [f"{line},{'AB'[k % 2]},{'fm'[k % 3 > 0]}" for k, line in enumerate(lines[1:])]
    (root / "table.csv").write_text("\n".join([f"{lines[0]},site,sex", *rows]) + "\n")
    with pytest.raises(ValueError, match="site, sex, which are looked at apart, and no patient says"):
        table.load(str(root), group="site,sex")
    data = table.load(str(root), patient="group", group="site, sex")
    apart = data.splits["test"].apart
    assert list(apart) == ["site", "sex"]
    assert (set(apart["site"]), set(apart["sex"])) == ({"A", "B"}, {"f", "m"})
    by_name = {line.split(",")[0]: tuple(line.split(",")[3:]) for line in rows}
    assert list(zip(*apart.values())) == [by_name[name] for name in data.splits["test"].name]
    assert Fold(0, 3).of(data).splits["held"].columns == ("site", "sex")


@pytest.mark.parametrize("unit", ["px", "mm"])
def test_points_in_images_of_many_sizes_stay_where_they_are_seen(tmp_path, unit):
    rng = np.random.default_rng(0)
    lines = ["image,tip_x,tip_y,apart,split"]
    for k in range(24):
        rows, columns = rng.integers(20, 41, 2)
        x, y, apart = rng.uniform(4, columns - 5), rng.uniform(4, rows - 5), rng.uniform(0.5, 1.5)
        across, down = np.arange(columns) - x, np.arange(rows) - y
        image = 255 * np.exp(-(across**2 + down[:, None] ** 2) / 8)
        Image.fromarray(image.astype(np.uint8)).save(tmp_path / f"{k}.png")
        by = 1.0 if unit == "px" else apart
        lines.append(f"{k}.png,{by * x},{by * y},{apart},{['train', 'valid', 'test'][k % 3]}")
    make_table(tmp_path, lines)
    spacing = {"px": "1", "mm": "apart"}[unit]
    options = {"csv": "table.csv", "target": "tip_x,tip_y", "coordinates": "tip_x,tip_y", "spacing": spacing}
    varied = {"rotate": 30.0, "scale": 0.2, "shift": 3}
    data = table.load(str(tmp_path), **options, **varied, size="96,112", mm_per_pixel=0.6)
    assert data.places is not None
    split = data.splits["train"]
    images = split.images.float()

    def centres(images):
        weight = images * (images > 40)
        total = weight.sum((1, 2, 3))
        return torch.stack(
            [
                (weight.sum((1, 2)) @ torch.arange(112.0)) / total,
                (weight.sum((1, 3)) @ torch.arange(96.0)) / total,
            ],
            1,
        )

    def pixels(target):
        return torch.tensor(data.places.offset) + torch.tensor(data.places.factor) * target

    assert (centres(images) - pixels(split.target)).abs().max() < 0.1
    images, target = data.augment(images, split.target, torch.Generator().manual_seed(0))
    inside = ((pixels(target) > 12) & (pixels(target) < 84)).all(1)
    assert inside.sum() > 3
    assert (centres(images) - pixels(target))[inside].abs().max() < 0.3
    with pytest.raises(ValueError, match="not squeezed"):
        table.load(str(tmp_path), **options, size=64)


def test_half_is_what_published_weights_expect(tmp_path):
    prepare = table.load(str(make_folder(tmp_path)), normalise="half").prepare
    assert prepare(torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)).flatten().tolist() == [
        -1.0,
        1.0,
    ]
