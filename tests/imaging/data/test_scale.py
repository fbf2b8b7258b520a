"""One scale for all images: resampled against a loop, and a disc that is as large in mm whatever its pixels."""

import numpy as np
import pytest
import torch
from PIL import Image

from truesigma.imaging.data.prepare import resampled
from truesigma.imaging.datasets import table

RNG = np.random.default_rng(0)


def slow(image, spacing, after, size):
    """Pixel by pixel in 2-D: the weighted mean of neighbours, triangles around the centre of the new pixel."""
    out = np.full((len(image), *size), image.min(), np.float64)
    shape = image.shape[1:]
    for i in range(size[0]):
        for j in range(size[1]):
            centre = [
                (shape[a] - 1) / 2 + ((i, j)[a] - (size[a] - 1) / 2) * after[a] / spacing[a] for a in (0, 1)
            ]
            if any(c < -0.5 or c > n - 0.5 for c, n in zip(centre, shape)):
                continue
            total, weight = 0.0, 0.0
            for r in range(shape[0]):
                for s in range(shape[1]):
                    near = [
                        max(0, 1 - abs(p - c) / max(1, after[a] / spacing[a]))
                        for a, (p, c) in enumerate(zip((r, s), centre))
                    ]
                    total, weight = total + np.prod(near) * image[:, r, s], weight + np.prod(near)
            out[:, i, j] = total / weight
    return out


@pytest.mark.parametrize(
    ("after", "size"), [((1.0, 1.0), (7, 5)), ((2.0, 0.4), (5, 9)), ((0.3, 3.0), (20, 3))]
)
def test_resampling_is_the_loop(after, size):
    image = RNG.normal(size=(2, 8, 6))
    assert np.allclose(
        resampled(image, (0.8, 1.1), after, size), slow(image, (0.8, 1.1), after, size), atol=1e-5
    )


def test_downwards_it_is_what_torch_does_with_antialiasing():
    image = RNG.normal(size=(1, 12, 20)).astype(np.float32)
    theirs = torch.nn.functional.interpolate(
        torch.from_numpy(image)[None], (6, 5), mode="bilinear", antialias=True
    )
    assert np.allclose(resampled(image, (1, 1), (2, 4), (6, 5)), theirs[0].numpy(), atol=1e-5)


@pytest.mark.parametrize(("spacing", "after"), [(1.95, 1.3), (1.95, 1.95), (0.3, 0.9), (0.1, 0.7)])
def test_both_borders_are_alike_whatever_rounding_does(spacing, after):
    """A pixel whose centre is on the border is inside, at either end, also where the mm are off by their last digit."""
    for count in (10, 33):
        image = np.random.default_rng(0).uniform(1, 9, (1, count, count)).astype(np.float32)
        made = resampled(image, (spacing,) * 2, (after,) * 2, (48, 48))
        turned = resampled(image[:, ::-1], (spacing,) * 2, (after,) * 2, (48, 48))
        np.testing.assert_allclose(turned[:, ::-1], made, rtol=1e-5)
        near = resampled(image, (spacing * (1 - 1e-9),) * 2, (after,) * 2, (48, 48))
        np.testing.assert_allclose(near, made, rtol=1e-5)


def test_nothing_to_do_leaves_the_pixels_alone():
    image = RNG.integers(0, 255, (1, 5, 6, 7), dtype=np.uint8)
    assert np.array_equal(resampled(image, (2, 1, 1), (2, 1, 1), (5, 6, 7)), image)
    padded = resampled(image, (2, 1, 1), (2, 1, 1), (7, 4, 9))
    assert np.array_equal(padded[:, 1:6, :, 1:8], image[:, :, 1:5])
    assert (padded[:, 0] == image.min()).all()


def disc(radius, spacing, side):
    """A disc of so many mm."""
    at = (np.arange(side) - (side - 1) / 2) * spacing
    return ((np.hypot(at[:, None], at) < radius) * 200).astype(np.uint8)


def make_discs(root, *, column="pixel size(mm)"):
    """Discs of one radius in pixels of 0.1 to 0.3 mm: by their pixels alone nobody could tell."""
    rows = [f"image,target,{column}"]
    for k in range(24):
        spacing, radius = 0.1 + 0.2 * RNG.random(), 3 + 2 * RNG.random()
        Image.fromarray(disc(radius, spacing, int(2 * radius / spacing) + 4 + k)).save(root / f"{k}.png")
        rows.append(f"{k}.png,{np.pi * radius**2:.4f},{spacing:.5f}")
    (root / "table.csv").write_text("\n".join(rows))
    return root


def test_an_area_in_mm_is_that_of_the_pixels(tmp_path):
    options = {"spacing": "pixel size(mm)", "unit": "mm2", "group": "", "split": ""}
    with pytest.warns(UserWarning, match=r"images are larger than size x mm_per_pixel, 12\.8 mm"):
        data = table.load(str(make_discs(tmp_path)), mm_per_pixel=0.2, size=64, **options)
    for split in data.splits.values():
        area = (split.images.float() / 200).sum((1, 2, 3)) * 0.2**2
        wanted = data.in_unit(split.target)[:, 0]
        assert ((area - wanted).abs() / wanted < 0.02).all()
    squeezed = table.load(str(tmp_path), size=64, **options).splits["train"]
    share = (squeezed.images.float() / 200).mean((1, 2, 3))
    assert abs(np.corrcoef(share, squeezed.target[:, 0])[0, 1]) < 0.9  # the size of a pixel is lost


def test_a_case_without_spacing_is_named(tmp_path):
    make_discs(tmp_path)
    with pytest.raises(ValueError, match=r"does not say how large its pixels are.*0\.png"):
        table.load(str(tmp_path), mm_per_pixel=0.2, size=64)
    text = (tmp_path / "table.csv").read_text().splitlines()
    text[5] = text[5].rpartition(",")[0] + ",0"
    (tmp_path / "table.csv").write_text("\n".join(text))
    with pytest.raises(ValueError, match=r"not a number above 0 in 1 row: row 5"):
        table.load(str(tmp_path), mm_per_pixel=0.2, size=64, spacing="pixel size(mm)")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mm_per_pixel": 0.2}, "mm_per_pixel needs a size"),
        ({"mm_per_pixel": -1, "size": 8}, "mm_per_pixel is -1; expected a number above 0"),
        ({"mm_per_pixel": "a", "size": 8}, "mm_per_pixel is 'a'; expected a number above 0"),
        ({"size": 7.5}, "size is 7.5; expected whole numbers"),
        ({"size": "8,8,8", "mm_per_pixel": 1, "spacing": 1}, "size has 3 numbers, the image 2 axes"),
        ({"size": 8, "mm_per_pixel": 1, "spacing": "width"}, "has no column width"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        table.load(str(make_discs(tmp_path)), **options)


def test_nifti_says_its_own_scale_and_streams(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    rows = ["image,target"]
    for k in range(8):
        sizes = np.array([1.0, 0.5, 2.0]) * RNG.uniform(0.8, 1.2, 3)
        inside = np.zeros((20, 40, 10), np.int16)
        inside[5:15, 10:30, 3:7] = 100
        nibabel.save(nibabel.Nifti1Image(inside, np.diag([*sizes, 1])), tmp_path / f"{k}.nii.gz")
        rows.append(f"{k}.nii.gz,{10 * 20 * 4 * sizes.prod():.3f}")
    (tmp_path / "table.csv").write_text("\n".join(rows))
    options = {"mm_per_pixel": "1,0.5,0.5", "size": "26,52,60", "unit": "mm3"}
    data = table.load(str(tmp_path), **options)
    assert data.splits["train"].shape == (1, 26, 52, 60)
    for split in data.splits.values():
        volume = (split.images / 100).sum((1, 2, 3, 4)) * 0.25
        assert torch.allclose(volume, data.in_unit(split.target)[:, 0], rtol=0.02)
    streamed = table.load(str(tmp_path), **options, memory=0)
    assert torch.equal(streamed.splits["test"].images[0], data.splits["test"].images[0])
    name = data.splits["test"].name[0]
    assert torch.equal(
        table.read(str(tmp_path / name), mm_per_pixel="1,0.5,0.5", size="26,52,60"),
        data.splits["test"].images[0],
    )
