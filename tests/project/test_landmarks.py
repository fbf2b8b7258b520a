"""Columns that are the coordinates of points in the images, and columns that only look so."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from project_files import write_table

import truesigma as ts
from truesigma.project.landmarks import distances
from truesigma.project.stages import point_errors
from truesigma.project.survey import survey

SIDES = ((60, 40), (90, 70))  # width and height of every other image


def seen(folder, columns, cases=40):
    """A survey of images of two sizes, with columns made of random numbers in 0 to 1 and of the sides."""
    rng = np.random.default_rng(0)
    (folder / "scans").mkdir()
    rows = []
    for k in range(cases):
        width, height = SIDES[k % 2]
        Image.new("L", (width, height)).save(folder / "scans" / f"{k}.png")
        rows.append({"file": f"{k}.png"} | columns(lambda: float(rng.random()), width, height))
    return survey(folder / "scans", write_table(folder / "t.csv", rows))


def points(x, y):
    """One point anywhere in the image."""
    return lambda u, width, height: {x: u() * (width - 1), y: u() * (height - 1)}


NAMES = [
    ("x", "y"),
    ("tip_x", "tip_y"),
    ("x_tip", "y_tip"),
    ("tipX", "tipY"),
    ("x7 (px)", "y7 (px)"),
    ("Lesion X", "Lesion Y"),
]


@pytest.mark.parametrize(("x", "y"), NAMES)
def test_a_point_within_the_sides_is_found_by_its_columns(tmp_path, x, y):
    (point,) = seen(tmp_path, points(x, y)).landmarks()
    assert (point.columns, point.unit) == ((x, y), "px")


def age(u):
    return round(20 + 15 * u())


def box(u, width, height):
    x, y = u() * width / 2, u() * height / 2
    return {"x": x, "y": y, "w": u() * width / 2, "h": u() * height / 2}


def corners(u, width, height):
    return {"x1": u() * 20, "y1": u() * 20, "x2": 21 + u() * 19, "y2": 21 + u() * 15}


OTHERS = {
    "words that end in x": lambda u, w, h: {"max": u() * w, "may": u() * h},
    "a dose": lambda u, w, h: {"x-ray dose": u() * w, "y-ray dose": u() * h},
    "ages by two readers": lambda u, w, h: {"age_x": age(u), "age_y": age(u)},
    "one quantity of two tables": lambda u, w, h: dict.fromkeys(("months_x", "months_y"), age(u)),
    "grades": lambda u, w, h: {"finding_x": round(3 * u()), "finding_y": round(3 * u())},
    "shares of the sides": lambda u, w, h: {"x": u(), "y": u()},
    "boxes": box,
    "corners of boxes": corners,
    "no y": lambda u, w, h: {"x": u() * w},
    "outside": lambda u, w, h: {"x": 3 * u() * w, "y": u() * h},
    "y and x exchanged": lambda u, w, h: {"x": u() * h, "y": u() * w},
    "a place in the world": lambda u, w, h: {"x": u() * w, "y": u() * h, "z": u() * h},
    "another unit": lambda u, w, h: {"x_cm": u() * w, "y_cm": u() * h},
    "mm without a scale": lambda u, w, h: {"x_mm": u() * w, "y_mm": u() * h},
}  # fmt: skip


@pytest.mark.parametrize("columns", OTHERS.values(), ids=OTHERS)
def test_what_is_no_place_in_the_image_is_none(tmp_path, columns):
    assert seen(tmp_path, columns).landmarks() == ()


def test_the_size_of_the_images_makes_no_box_of_a_point(tmp_path):
    found = seen(tmp_path, lambda u, w, h: {**points("x", "y")(u, w, h), "width": w, "height": h})
    assert [one.columns for one in found.landmarks()] == [("x", "y")]


@pytest.mark.parametrize(("factor", "unit"), [(1.0, "px"), (0.2, "mm")])
def test_the_unit_is_the_one_in_which_points_fill_the_images(tmp_path, factor, unit):
    def columns(u, width, height):
        place = points("x", "y")(u, width, height)
        return {name: factor * value for name, value in place.items()} | {"pixel_size_mm": 0.2}

    found = seen(tmp_path, columns)
    assert [one.unit for one in found.landmarks()] == [unit]
    assert f"points: in {unit}, point (x, y)" in found.lines()
    said = [one.unit for one in found.landmarks(["x", "y"], ["px"])]
    assert said == (["px"] if unit == "px" or factor > 0.1 else [])


def test_what_a_mirror_exchanges(tmp_path):
    names = ("leftEye", "rightEye", "nose", "mouth_l", "mouth_r", "ear_l")

    def columns(u, width, height):
        return {
            key: value
            for name in names
            for key, value in points(f"{name}_x", f"{name}_y")(u, width, height).items()
        }

    found = seen(tmp_path, columns).landmarks()
    opposite = {one.name: one.opposite for one in found}
    assert opposite == {
        "left Eye": "right Eye", "right Eye": "left Eye", "nose": "nose", "mouth l": "mouth r", "mouth r": "mouth l",
        "ear l": "",
    }  # fmt: skip


def test_points_in_volumes(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    rng = np.random.default_rng(0)
    (tmp_path / "scans").mkdir()
    rows = []
    for k in range(12):
        image = nibabel.Nifti1Image(np.zeros((20, 24, 10), np.int16), np.diag([0.5, 0.5, 3.0, 1]))
        nibabel.save(image, tmp_path / "scans" / f"{k}.nii.gz")
        place = dict(zip(("hook_z", "hook_x", "hook_y"), rng.random(3) * (29, 9.5, 11.5)))
        rows.append({"file": f"{k}.nii.gz", **place})
    (point,) = survey(tmp_path / "scans", write_table(tmp_path / "t.csv", rows)).landmarks()
    assert (point.columns, point.unit, point.name) == (("hook_x", "hook_y", "hook_z"), "mm", "hook")


@pytest.mark.parametrize("axes", [2, 3])
def test_errors_of_points_are_distances(axes):
    names = [f"{point}_{axis}" for axis in "zyx"[3 - axes :] for point in ("tip", "hook")]
    coordinates = [f"{point}_{axis}" for point in ("hook", "tip") for axis in "xyz"[:axes]]
    error = np.random.default_rng(0).normal(size=(7, 2 * axes))
    found = distances(error, names, coordinates, axes)
    for point in ("hook", "tip"):
        own = [k for k, name in enumerate(names) if name.startswith(point)]
        expected = [sum(row[k] ** 2 for k in own) ** 0.5 for row in error.tolist()]
        np.testing.assert_allclose(found[point], expected)
    assert list(found) == ["hook", "tip"]


@pytest.mark.parametrize(
    ("coordinates", "mixed", "found"), [("x,y", False, [5.0]), ("", False, None), ("x,y", True, None)]
)
def test_a_run_says_distances_of_points_alone(coordinates, mixed, found):
    cases = ts.Cases(
        ts.Prediction([[1.0, 2.0]], scale=[[1.0, 1.0]]), [[4.0, 6.0]], names=("x", "y"), unit="px"
    )
    work = SimpleNamespace(
        project=SimpleNamespace(options={"coordinates": coordinates}),
        units=SimpleNamespace(mixed=mixed),
        test=cases,
        data=SimpleNamespace(splits={"test": np.zeros((1, 8, 8))}),
    )
    errors = point_errors(work)
    assert errors == ({} if found is None else {"point": found})
