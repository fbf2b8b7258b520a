"""Kinds of images that others write: read as tifffile, nibabel and pydicom read them, or refused as what they are."""

import numpy as np
import pytest
from dicom_files import write_dicom
from PIL import Image

from truesigma.files.disk import BadFile
from truesigma.files.headers import read_header
from truesigma.files.images import is_image, read_image

RNG = np.random.default_rng(0)


def both(path):
    """The pixels of a file, whose header says the same of them."""
    image, header = read_image(path), read_header(path)
    assert (header.shape, header.dtype) == (image.shape, str(image.dtype))
    return image


@pytest.mark.parametrize("packed", [None, "zlib"])
@pytest.mark.parametrize("dtype", ["int8", "uint32", "uint64", "int16", "float16", "float32", "float64"])
def test_numbers_of_a_tiff(tmp_path, dtype, packed):
    tifffile = pytest.importorskip("tifffile")
    pixels = RNG.normal(size=(3, 5, 7)).astype(dtype)
    if "int" in dtype:
        pixels = np.frombuffer(RNG.bytes(pixels.nbytes), dtype).reshape(pixels.shape)  # of their whole range
    tifffile.imwrite(tmp_path / "a.tif", pixels[0], compression=packed)
    tifffile.imwrite(tmp_path / "b.tif", pixels, compression=packed, photometric="minisblack")
    assert np.array_equal(both(tmp_path / "a.tif"), pixels[None, 0])
    assert np.array_equal(both(tmp_path / "b.tif"), pixels[None])


def test_larger_is_brighter_where_white_is_0(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for dtype in ("uint8", "uint16"):
        pixels = RNG.integers(0, 200, (5, 7)).astype(dtype)
        tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="miniswhite")
        assert np.array_equal(both(tmp_path / "a.tif"), np.iinfo(dtype).max - pixels[None])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_pages_stand_upright(tmp_path, orientation):
    """As Pillow turns the same picture of another type."""
    tifffile = pytest.importorskip("tifffile")
    pixels = RNG.integers(0, 99, (5, 7))
    for name, dtype in (("a", "uint8"), ("b", "uint64")):
        turned = [(274, "H", 1, orientation, True)]
        tifffile.imwrite(tmp_path / f"{name}.tif", pixels.astype(dtype), extratags=turned)
    assert np.array_equal(both(tmp_path / "b.tif"), both(tmp_path / "a.tif"))


def test_a_thumbnail_is_no_slice(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    pixels = RNG.integers(0, 255, (6, 8), dtype=np.uint8)
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(pixels)
        file.write(pixels[::2, ::2], subfiletype=1)
    assert np.array_equal(both(tmp_path / "a.tif"), pixels[None])


def test_lost_pages_are_said(tmp_path):
    """A page that points nowhere: readers of TIFF give those before it, and no error."""
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(
        tmp_path / "a.tif", np.zeros((3, 6, 8), np.uint8), photometric="minisblack", metadata=None
    )
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        place = file.pages[1].offset.to_bytes(4, "little")
    content = (tmp_path / "a.tif").read_bytes()
    assert content.count(place) == 1
    (tmp_path / "a.tif").write_bytes(content.replace(place, b"\0\0\0\x70"))
    for look in (read_image, read_header):
        with pytest.raises(BadFile, match=r"a\.tif: pages are lost"):
            look(tmp_path / "a.tif")


def test_what_only_looks_like_a_volume_is_refused(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    stack = RNG.integers(0, 255, (3, 2, 6, 8), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "h.tif", stack, imagej=True, metadata={"axes": "ZCYX"})
    tifffile.imwrite(tmp_path / "z.tif", stack[:, 0], imagej=True, metadata={"axes": "ZYX"})
    first, *others = [Image.fromarray(one) for one in stack[:, 0]]
    first.save(tmp_path / "a.png", save_all=True, append_images=others)
    first.save(tmp_path / "a.webp", save_all=True, append_images=others, lossless=True)
    assert np.array_equal(both(tmp_path / "z.tif"), stack[None, :, 0])
    for name, words in {
        "h.tif": r"an ImageJ hyperstack \(2 channels, 3 slices, 1 frames\)",
        "a.png": "an animation of 3 pictures",
        "a.webp": "an animation of 3 pictures",
    }.items():
        for look in (read_image, read_header):
            with pytest.raises(BadFile, match=f"{name}: {words}"):
                look(tmp_path / name)


def test_nifti_of_vectors_of_colours_and_in_two_files(tmp_path):
    nib = pytest.importorskip("nibabel")
    voxels = RNG.integers(0, 99, (4, 5, 6), dtype=np.int16)
    upright = voxels.transpose(2, 1, 0)[None]
    nib.save(nib.Nifti1Image(voxels[..., None, None], np.eye(4)), tmp_path / "a.nii")
    nib.save(
        nib.Nifti1Image(np.stack([voxels, voxels + 1], -1)[..., None, :], np.eye(4)), tmp_path / "b.nii.gz"
    )
    nib.save(nib.Nifti1Pair(voxels, np.eye(4)), tmp_path / "c.hdr")
    assert np.array_equal(both(tmp_path / "a.nii"), upright)
    assert np.array_equal(both(tmp_path / "b.nii.gz"), np.concatenate([upright, upright + 1]))
    assert np.array_equal(both(tmp_path / "c.hdr"), upright)
    assert np.array_equal(both(tmp_path / "c.img"), upright)
    assert [is_image(tmp_path / f"c.{end}") for end in ("hdr", "img")] == [True, False]
    colours = RNG.integers(0, 255, (4, 5, 6, 3), dtype=np.uint8)
    stored = colours.view([("R", "u1"), ("G", "u1"), ("B", "u1")])[..., 0]
    nib.save(nib.Nifti1Image(stored, np.eye(4)), tmp_path / "d.nii.gz")
    assert np.array_equal(both(tmp_path / "d.nii.gz"), colours.transpose(3, 2, 1, 0))


def test_a_slope_without_an_intercept_is_ignored_as_pydicom_ignores_it(tmp_path):
    pixels = RNG.integers(0, 99, (5, 7), dtype=np.uint16)
    write_dicom(tmp_path / "a.dcm", pixels, RescaleSlope=2)
    with pytest.warns(UserWarning, match="RescaleSlope without a RescaleIntercept"):
        assert np.array_equal(both(tmp_path / "a.dcm"), pixels[None])
