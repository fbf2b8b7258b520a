"""Image files of every kind, written here and read back; folders and zips; the complaints about broken ones."""

import sys

import numpy as np
import pytest
from dicom_files import write_dicom
from PIL import Image

from truesigma.files.headers import read_header
from truesigma.files.images import channel_first, is_image, is_series, read_image
from truesigma.imaging.data.folder import BrokenFiles, complain, tried
from truesigma.imaging.data.prepare import as_stored

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)


@pytest.mark.parametrize("ending", ["png", "tif", "bmp"])
def test_pictures(tmp_path, ending):
    Image.fromarray(GREY).save(tmp_path / f"grey.{ending}")
    Image.fromarray(COLOUR).save(tmp_path / f"colour.{ending}")
    assert np.array_equal(read_image(tmp_path / f"grey.{ending}"), GREY[None])
    assert np.array_equal(read_image(tmp_path / f"colour.{ending}"), COLOUR.transpose(2, 0, 1))


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_pictures_stand_upright(tmp_path, ending):
    """Orientation 6: stored lying on the left side, as a camera held upright does."""
    upright = np.zeros((40, 24), np.uint8)
    upright[:8] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(upright)).save(tmp_path / f"a.{ending}", exif=exif)
    found = read_image(tmp_path / f"a.{ending}")
    assert found.shape == (1, 40, 24)
    assert np.abs(found[0].astype(int) - upright).mean() < 4


def test_other_modes(tmp_path):
    deep = RNG.integers(0, 65536, (5, 7), dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(deep.astype(np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(COLOUR).convert("RGBA").save(tmp_path / "rgba.png")
    Image.fromarray(GREY).convert("LA").save(tmp_path / "la.png")
    Image.fromarray(GREY > 100).save(tmp_path / "bits.png")
    Image.fromarray(COLOUR).convert("P").save(tmp_path / "palette.png")
    assert np.array_equal(read_image(tmp_path / "deep.png"), deep[None])
    assert read_image(tmp_path / "deep.png").dtype == np.uint16
    assert np.array_equal(read_image(tmp_path / "float.tif"), deep[None].astype(np.float32))
    assert np.array_equal(read_image(tmp_path / "rgba.png"), COLOUR.transpose(2, 0, 1))
    assert np.array_equal(read_image(tmp_path / "la.png"), GREY[None])
    assert np.array_equal(read_image(tmp_path / "bits.png"), np.where(GREY > 100, 255, 0)[None])
    assert read_image(tmp_path / "palette.png").shape == (3, 5, 7)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("packed", "predictor"), [(None, None), ("zlib", None), ("zlib", 2)])
def test_a_tiff_of_16_bit_colours_keeps_them_all(tmp_path, order, packed, predictor):
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    how = {"photometric": "rgb", "byteorder": order, "compression": packed, "predictor": predictor}
    for shape in ((40, 37, 3), (40, 37, 4), (2, 40, 37, 3)):  # the last of two pages
        pixels = RNG.integers(0, 65536, shape, dtype=np.uint16)
        for tile in (None, (16, 16)):
            tifffile.imwrite(path, pixels, tile=tile, **how)
            assert np.array_equal(read_image(path), np.moveaxis(pixels, -1, 0)[:3])
            assert read_header(path).dtype == "uint16"
    tifffile.imwrite(path, np.moveaxis(pixels[0], -1, 0), planarconfig="separate", **how)
    assert np.array_equal(read_image(path), np.moveaxis(pixels[0], -1, 0))  # stored plane by plane


def test_tiff_stack_is_a_volume(tmp_path):
    pages = RNG.integers(0, 256, (4, 5, 7), dtype=np.uint8)
    first, *others = [Image.fromarray(page) for page in pages]
    first.save(tmp_path / "stack.tif", save_all=True, append_images=others)
    assert np.array_equal(read_image(tmp_path / "stack.tif"), pages[None])
    with pytest.raises(ValueError, match="3-D, expected 2-D"):
        read_image(tmp_path / "stack.tif", dimensions=2)


@pytest.mark.parametrize(
    ("shape", "dimensions", "expected"),
    [
        ((5, 6), 0, (1, 5, 6)),
        ((3, 5, 6), 0, (3, 5, 6)),
        ((5, 6, 3), 2, (3, 5, 6)),
        ((5, 6, 3), 3, (1, 5, 6, 3)),
        ((9, 5, 6), 0, (1, 9, 5, 6)),
        ((9, 5, 6, 3), 0, (3, 9, 5, 6)),
        ((1, 9, 5, 6), 3, (1, 9, 5, 6)),
    ],
)
def test_where_the_channels_are(shape, dimensions, expected):
    assert channel_first(np.zeros(shape), dimensions).shape == expected


@pytest.mark.parametrize(
    ("shape", "dimensions"), [((5,), 0), ((3, 5, 3), 0), ((9, 5, 6), 2), ((2, 9, 5, 6), 0)]
)
def test_unclear_channels_are_refused(shape, dimensions):
    with pytest.raises(ValueError, match="array has shape"):
        channel_first(np.zeros(shape), dimensions)


def test_nifti_is_turned_scaled_and_squeezed(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    data = RNG.integers(-50, 50, (4, 5, 6)).astype(np.int16)
    flipped = np.diag([-1.0, 1, 1, 1])  # x runs from right to left
    nibabel.save(nibabel.Nifti1Image(data, np.eye(4)), tmp_path / "plain.nii")
    nibabel.save(nibabel.Nifti1Image(data[::-1], flipped), tmp_path / "flipped.nii.gz")
    nibabel.save(nibabel.Nifti1Image(data[:, :, :1], np.eye(4)), tmp_path / "flat.nii")
    nibabel.save(nibabel.Nifti1Image(np.stack([data, -data], -1), np.eye(4)), tmp_path / "two.nii")
    scaled = nibabel.Nifti1Image(data, np.eye(4))
    scaled.header.set_slope_inter(2.0, 1.0)
    nibabel.save(scaled, tmp_path / "scaled.nii")
    expected = data.transpose(2, 1, 0)[None]
    assert np.array_equal(read_image(tmp_path / "plain.nii"), expected)
    assert np.array_equal(read_image(tmp_path / "flipped.nii.gz"), expected)
    assert np.array_equal(read_image(tmp_path / "flat.nii"), expected[:, 0])
    assert np.array_equal(read_image(tmp_path / "two.nii"), np.concatenate([expected, -expected]))
    stored = nibabel.load(tmp_path / "scaled.nii").get_fdata().transpose(2, 1, 0)[None]
    assert read_image(tmp_path / "scaled.nii") == pytest.approx(stored)
    (tmp_path / "broken.nii").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="broken"):
        read_image(tmp_path / "broken.nii")


def test_dicom_values(tmp_path):
    pixels = RNG.integers(0, 4096, (5, 7)).astype(np.uint16)
    write_dicom(tmp_path / "a.dcm", pixels)
    write_dicom(tmp_path / "ct.dcm", pixels, RescaleSlope=2, RescaleIntercept=-1000)
    write_dicom(tmp_path / "inverted.dcm", GREY, photometric="MONOCHROME1")
    write_dicom(tmp_path / "colour.dcm", COLOUR)
    write_dicom(tmp_path / "frames.dcm", np.stack([GREY, GREY // 2]))
    assert np.array_equal(read_image(tmp_path / "a.dcm"), pixels[None])
    assert np.array_equal(read_image(tmp_path / "ct.dcm"), 2.0 * pixels[None] - 1000)
    assert np.array_equal(read_image(tmp_path / "inverted.dcm"), 255 - GREY[None].astype(int))
    assert np.array_equal(read_image(tmp_path / "colour.dcm"), COLOUR.transpose(2, 0, 1))
    assert np.array_equal(read_image(tmp_path / "frames.dcm"), np.stack([GREY, GREY // 2])[None])
    (tmp_path / "broken.dcm").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="broken"):
        read_image(tmp_path / "broken.dcm")


def test_dicom_series_is_sorted_by_place(tmp_path):
    folder = tmp_path / "series"
    folder.mkdir()
    for k, z in enumerate([5.0, -5.0, 0.0]):
        write_dicom(folder / f"{k}.dcm", np.full((4, 6), int(z) + 10, np.uint8), number=k, place=[0, 0, z])
    assert read_image(folder)[0, :, 0, 0].tolist() == [5, 10, 15]
    write_dicom(folder / "3.dcm", np.full((4, 6), 25, np.uint8), number=3, place=[0, 0, 15.0])
    with pytest.warns(UserWarning, match=r"series: slices are 5 to 10 mm apart, as if some were missing"):
        assert read_image(folder)[0, :, 0, 0].tolist() == [5, 10, 15, 25]
    write_dicom(folder / "9.dcm", np.zeros((4, 6), np.uint8), uid="9.9")
    with pytest.raises(ValueError, match="more than one series"):
        read_image(folder)


def test_dicom_without_an_ending(tmp_path):
    """As they come from archives: known by their first bytes; what is called otherwise is not looked into."""
    folder = tmp_path / "series"
    folder.mkdir()
    for k in range(3):
        write_dicom(folder / f"IM000{k}", np.full((4, 6), k, np.uint8), number=k, place=[0, 0, k])
    (folder / "DIRFILE").write_text("no image")
    (folder / "notes.txt").write_bytes(b"\0" * 128 + b"DICM")
    assert read_image(folder)[0, :, 0, 0].tolist() == [0, 1, 2]
    assert read_image(folder / "IM0001").shape == (1, 4, 6)
    write_dicom(folder / "1.2.840.113", GREY, uid="1.2.3", number=9)
    assert {path.name for path in folder.iterdir() if is_image(path)} == {
        "IM0000",
        "IM0001",
        "IM0002",
        "1.2.840.113",
    }
    assert is_image(folder)
    assert is_series(folder)
    assert not is_image(tmp_path)
    with pytest.raises(ValueError, match="unknown ending ''"):
        read_image(folder / "DIRFILE")


def test_missing_extras_say_what_to_install(tmp_path, monkeypatch):
    for name, file in (("nibabel", "a.nii"), ("pydicom", "a.dcm")):
        (tmp_path / file).write_bytes(b"")
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=r"pip install truesigma\[medical\]"):
            read_image(tmp_path / file)


def test_what_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "a.xyz").write_text("")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_image(tmp_path / "none.png")
    with pytest.raises(ValueError, match=r"unknown ending '\.xyz'"):
        read_image(tmp_path / "a.xyz")
    for content, words in (
        (b"", r"b\.png cannot be read \(the file is empty\)"),
        (b"hello", "content is not that of an image"),
    ):
        (tmp_path / "b.png").write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_image(tmp_path / "b.png")
    Image.new("L", (3000, 1000)).save(tmp_path / "b.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ValueError, match="more pixels than Pillow opens; save it smaller"):
        read_image(tmp_path / "b.png")
    with pytest.raises(ValueError, match="dimensions=4"):
        read_image(tmp_path / "a.xyz", dimensions=4)


def test_resizing_keeps_kind_and_mean():
    image = RNG.integers(0, 256, (2, 16, 24), dtype=np.uint8)
    small = as_stored(image, (8, 8))
    assert small.shape == (2, 8, 8)
    assert small.dtype == np.uint8
    assert small.mean() == pytest.approx(image.mean(), abs=3)
    volume = RNG.normal(size=(1, 8, 12, 16))
    ramp = np.broadcast_to(
        np.arange(16.0), volume.shape
    )  # whose value at the new pixels' centres is their place
    assert as_stored(ramp, (4, 4, 4))[0, 2, 2, 1:3] == pytest.approx([5.5, 9.5], abs=1e-5)
    assert as_stored(volume, (20, 20, 20)).shape == (1, 20, 20, 20)
    assert as_stored(volume).dtype == np.float32


def test_every_failure_is_reported_in_order():
    def read(row):
        if row % 3 == 0:
            raise FileNotFoundError(row)

    broken = tried(read, 30)
    assert list(broken) == [*range(0, 30, 3)]
    names = [str(k) for k in range(33)]
    with pytest.raises(BrokenFiles, match=r"11 of 33 images.*0 \(no such file\).*and 1 more\. Do it"):
        complain(broken | {31: "odd"}, names, remedy="Do it.")
    complain({}, names, remedy="")


def test_programming_errors_are_not_taken_for_broken_files():
    with pytest.raises(ZeroDivisionError):
        tried(lambda row: 1 / row, 1)
