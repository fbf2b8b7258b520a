"""Numbers beside the image: standardised by the training cases, refused where they are missing, packed as planes."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from project_files import noise_images

from truesigma.imaging.data.augment import flip
from truesigma.imaging.data.dataset import batches
from truesigma.imaging.data.inputs import fit_inputs, inputs_from, leaving_planes, with_planes
from truesigma.imaging.data.rows import rows_of, targets
from truesigma.imaging.datasets import table

ROWS = [{"age": str(20 + 3 * k), "sex": "MF"[k % 2], "id": f"a{k}"} for k in range(12)]


def test_standardised_by_the_rows_it_was_fitted_on():
    inputs = fit_inputs(ROWS[:8], ["age", "sex"], "t.csv")
    ages = np.array([20 + 3 * k for k in range(8)], float)
    assert inputs.names == ("age", "sex=F", "sex=M")
    found = inputs.standardised(inputs.raw(ROWS, "t.csv"))
    assert found.dtype == torch.float32
    assert found[:8, 0].mean() == pytest.approx(0, abs=1e-6)
    expected = (20 + 3 * 11 - ages.mean()) / ages.std()
    assert float(found[11, 0]) == pytest.approx(expected)
    assert found[11, 1:].tolist() == [1, 0]
    assert inputs_from(inputs.to_list()) == inputs


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"age": ""}, r"the input age is missing in 1 of 12 rows \(row 3\)"),
        ({"age": "NaN"}, "the input age is missing in 1 of 12 rows"),
        ({"age": "old"}, "the input age is 'old'; expected numbers"),
        ({"sex": " "}, "the input sex is missing in 1 of 12"),
        ({"sex": "X"}, "the input sex is 'X', which no training case has; expected one of 'F', 'M'"),
    ],
)
def test_what_is_missing_or_unknown_is_an_error(cell, words):
    inputs = fit_inputs(ROWS, ["age", "sex"], "t.csv")
    rows = [{**row, **(cell if k == 2 else {})} for k, row in enumerate(ROWS)]
    with pytest.raises(ValueError, match=words):
        inputs.raw(rows, "t.csv")
    if "row 3" in words:  # of new images the name is said: a folder has not the order of the table
        with pytest.raises(ValueError, match=r"missing in 1 of 12 rows \(2\.png\)"):
            inputs.raw(rows, "t.csv", [f"{k}.png" for k in range(12)])


def test_what_cannot_be_an_input():
    with pytest.raises(ValueError, match="site is 'A' in all training cases"):
        fit_inputs([{**row, "site": "A"} for row in ROWS], ["site"], "t.csv")
    with pytest.raises(ValueError, match="id has 12 values in 12 training cases"):
        fit_inputs(ROWS, ["id"], "t.csv")
    with pytest.raises(ValueError, match="age is both target and input"):
        fit_inputs(ROWS, ["sex", "age"], "t.csv", ["age"])


def test_augmentation_leaves_them_alone():
    images, values = torch.rand(5, 2, 4, 6), torch.rand(5, 3)
    vary = leaving_planes(lambda x, y, g: flip(x, y, g, p=1.0), 3)
    varied, _ = vary(with_planes(images, values), torch.zeros(5, 1), torch.Generator())
    assert torch.equal(varied, with_planes(images.flip(-1), values))


def test_a_table_with_inputs(tmp_path):
    splits = ("train", "valid", "test")
    rows = [{"image": f"{k}.png", "target": k, "split": splits[k // 4]} for k in range(12)]
    rows = [{**row, "age": 20 + 3 * k, "sex": "MF"[k % 2]} for k, row in enumerate(rows)]
    noise_images(tmp_path, rows, (8, 6))
    data = table.load(str(tmp_path), inputs="age, sex")
    assert (len(data.inputs), data.channels) == (3, 1)
    batch = next(batches(data.splits["valid"], 3, prepare=data.prepare, order=torch.tensor([2, 0, 3])))
    assert batch.images.shape == (3, 4, 8, 6)
    assert torch.equal(batch.images[:, 1:, 5, 2], data.splits["valid"].inputs[[2, 0, 3]])
    assert torch.equal(batch.images[:, :1], data.prepare(data.splits["valid"].images)[[2, 0, 3]])
    for named, words in (
        ("weight", "has no column weight"),
        ("age,target", "target is both target and input"),
    ):
        with pytest.raises(ValueError, match=words):
            table.load(str(tmp_path), inputs=named)


def test_targets_far_from_all_others_are_warned_of():
    rows = [{"v": str(6 + k % 20), "w": str(2.0**k), "u": "0" if k else "1"} for k in range(40)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert targets(rows, ["v", "u"], "t.csv").shape == (40, 2)
        targets(rows[:20], ["w"], "t.csv")  # of many sizes, and none alone
    for codes in ({7: "1e9"}, {3: "-999", 9: "-999"}):
        coded = [{"v": codes.get(k, row["v"])} for k, row in enumerate(rows)]
        with pytest.warns(UserWarning, match=r"v is .* in all others") as warned:
            assert targets(coded, ["v"], "t.csv")[0] == 6
        said = str(warned[0].message)
        assert f"in {len(codes)} of 40 rows, and 6 to 25 in all others" in said
        assert all(f"{float(value):g} (row {k + 1})" in said for k, value in codes.items())


def test_a_target_in_other_words_is_no_input():
    """Months and years of one age; not a number that merely goes along with the target."""
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 200, 30)
    rows = [
        {"months": f"{a:.1f}", "years": f"{a / 12:.3f}", "height": f"{a + e:.1f}"}
        for a, e in zip(age, rng.normal(0, 5, 30))
    ]
    with warnings.catch_warnings(action="error"):
        fit_inputs(rows, ["height"], "t.csv", ["months"])
    with pytest.warns(UserWarning, match="years and the target months are one number"):
        fit_inputs(rows, ["years"], "t.csv", ["months"])


def test_the_row_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(f"image,age\na/1.png,5\n2.png,6\n{tmp_path.as_posix()}/b/4.png,7\n")
    monkeypatch.chdir(tmp_path)
    for here, name, age in (("a", "1.png", "5"), ("b", "4.png", "7")):
        (tmp_path / here).mkdir()
        monkeypatch.chdir(here)
        assert rows_of([Path(name)], tmp_path / "t.csv", "image", ["age"])[0]["age"] == age
        monkeypatch.chdir(tmp_path)
    files = [tmp_path / "x" / "2.png", tmp_path / "a" / "1.png"]
    assert [row["age"] for row in rows_of(files, tmp_path / "t.csv", "image", ["age"])] == ["6", "5"]
    with pytest.raises(ValueError, match=r"no row for 1 of 1 images: .*3\.png"):
        rows_of([tmp_path / "3.png"], tmp_path / "t.csv", "image", ["age"])
    with pytest.raises(ValueError, match=r"several files could be 2\.png"):
        rows_of([tmp_path / "2.png", tmp_path / "b" / "2.png"], tmp_path / "t.csv", "image", ["age"])
