"""What files say of themselves: the shape that reading gives, and the size of a pixel in mm."""

import numpy as np
import pytest
from dicom_files import write_dicom
from PIL import Image

from truesigma.files.disk import BadFile
from truesigma.files.headers import Header, read_header
from truesigma.files.images import read_image

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 255, (6, 4), dtype=np.uint8)


def alike(path):
    """The head says the shape that the pixels have."""
    head = read_header(path)
    assert head.shape == read_image(path).shape
    return head


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
def test_pictures_do_not_say_their_scale(tmp_path, ending):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(PIXELS).save(tmp_path / f"a.{ending}", dpi=(72, 72))
    Image.fromarray(PIXELS).save(tmp_path / f"turned.{ending}", exif=exif)
    Image.fromarray(np.stack([PIXELS] * 3, -1)).save(tmp_path / f"colour.{ending}")
    assert alike(tmp_path / f"a.{ending}") == Header((1, 6, 4), "uint8", ())
    assert alike(tmp_path / f"turned.{ending}").shape == (1, 4, 6)
    assert alike(tmp_path / f"colour.{ending}").shape == (3, 6, 4)


def test_deep_pictures_stacks_and_arrays(tmp_path):
    pages = [Image.fromarray(PIXELS)] * 5
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    Image.fromarray(PIXELS.astype(np.uint16)).save(tmp_path / "deep.png")
    np.save(tmp_path / "a.npy", np.zeros((3, 6, 5), np.float32))
    assert alike(tmp_path / "stack.tif").shape == (1, 5, 6, 4)
    assert alike(tmp_path / "deep.png").dtype == "uint16"
    assert alike(tmp_path / "a.npy") == Header((3, 6, 5), "float32", ())


@pytest.mark.parametrize(("unit", "scale"), [("mm", 1), ("micron", 1e-3), ("meter", 1e3), ("unknown", 1)])
def test_nifti_in_the_orientation_it_is_read_in(tmp_path, unit, scale):
    nibabel = pytest.importorskip("nibabel")
    # Stored as (y, z, x), with x to the left.
    grid = np.array([[0, 0, -0.5, 0], [2.0, 0, 0, 0], [0, 3.0, 0, 0], [0, 0, 0, 1]])
    image = nibabel.Nifti1Image(np.zeros((5, 7, 9), np.int16), grid)
    image.header.set_xyzt_units(unit if unit != "unknown" else None)
    nibabel.save(image, tmp_path / "a.nii.gz")
    head = alike(tmp_path / "a.nii.gz")
    assert head.shape == (1, 7, 5, 9)
    assert head.spacing == pytest.approx((3 * scale, 2 * scale, 0.5 * scale))
    assert head.dtype == "int16"


def test_nifti_of_one_slice_and_one_that_contradicts_itself(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(
        nibabel.Nifti1Image(np.zeros((5, 7, 1), np.uint8), np.diag([2.0, 3, 4, 1])), tmp_path / "a.nii"
    )
    assert alike(tmp_path / "a.nii").spacing == (3.0, 2.0)
    wrong = nibabel.Nifti1Image(np.zeros((5, 7, 9), np.uint8), np.diag([2.0, 3, 4, 1]))
    wrong.header["pixdim"][1:4] = 1
    wrong.header.set_sform(np.diag([2.0, 3, 4, 1]), code=1)
    nibabel.save(wrong, tmp_path / "b.nii")
    with pytest.raises(ValueError, match=r"b\.nii: .* 1 x 1 x 1 by pixdim"):
        read_header(tmp_path / "b.nii")


def test_dicom_slices_by_their_places(tmp_path):
    pixels = RNG.integers(0, 99, (6, 4)).astype(np.uint16)
    (tmp_path / "series").mkdir()
    for k in range(3):
        path = tmp_path / "series" / f"{k}.dcm"
        write_dicom(path, pixels, number=k, place=[0, 0, 10 - 2.5 * k], PixelSpacing=[0.7, 0.4])
    assert alike(tmp_path / "series") == Header((1, 3, 6, 4), "uint16", (2.5, 0.7, 0.4))
    assert alike(tmp_path / "series" / "0.dcm").spacing == (0.7, 0.4)
    write_dicom(tmp_path / "series" / "9.dcm", pixels, number=9, place=[0, 0, 40.0], PixelSpacing=[0.7, 0.4])
    with pytest.raises(ValueError, match=r"slices are 2\.5 to 30 mm apart, as if some were missing"):
        read_header(tmp_path / "series")


def test_other_places_where_dicom_says_it(tmp_path):
    pydicom = pytest.importorskip("pydicom")
    pixels = np.zeros((6, 4), np.uint8)
    write_dicom(tmp_path / "none.dcm", pixels)
    write_dicom(tmp_path / "xray.dcm", pixels, ImagerPixelSpacing=[0.2, 0.2])
    region = pydicom.Dataset()
    region.PhysicalUnitsXDirection = region.PhysicalUnitsYDirection = 3
    region.PhysicalDeltaX, region.PhysicalDeltaY = 0.02, 0.03
    write_dicom(tmp_path / "us.dcm", pixels, SequenceOfUltrasoundRegions=[region])
    write_dicom(tmp_path / "us2.dcm", pixels, SequenceOfUltrasoundRegions=[region, region])
    frames = np.zeros((3, 6, 4), np.uint8)
    write_dicom(tmp_path / "frames.dcm", frames, PixelSpacing=[0.7, 0.4], SpacingBetweenSlices=5)
    write_dicom(tmp_path / "film.dcm", frames, PixelSpacing=[0.7, 0.4])
    found = {path.stem: alike(path).spacing for path in tmp_path.iterdir()}
    assert found == {
        "none": (),
        "xray": (0.2, 0.2),
        "us": pytest.approx((0.3, 0.2)),
        "us2": (),
        "frames": (5.0, 0.7, 0.4),
        "film": (),
    }


def group(**sequences):
    """A functional group of an enhanced DICOM file: what it says, by the sequence that says it."""
    pydicom = pytest.importorskip("pydicom")
    made = pydicom.Dataset()
    for name, said in sequences.items():
        item = pydicom.Dataset()
        for key, value in said.items():
            setattr(item, key, value)
        setattr(made, name, [item])
    return made


@pytest.mark.parametrize("common", [True, False])
def test_an_enhanced_dicom_file_says_it_of_each_frame(tmp_path, common):
    frames = np.zeros((4, 6, 8), np.uint16)
    apart = {"PixelMeasuresSequence": {"PixelSpacing": [0.6, 0.4], "SliceThickness": 9}}
    flat = {"PlaneOrientationSequence": {"ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}}
    places = [{"PlanePositionSequence": {"ImagePositionPatient": [0, 0, -3 * k]}} for k in range(4)]
    if common:
        shared, each = [group(**apart, **flat)], [group(**place) for place in places]
    else:
        shared, each = [], [group(**apart, **flat, **place) for place in places]
    more = {"SharedFunctionalGroupsSequence": shared} if shared else {}
    write_dicom(tmp_path / "e.dcm", frames, PerFrameFunctionalGroupsSequence=each, **more)
    assert read_header(tmp_path / "e.dcm").spacing == (3.0, 0.6, 0.4)
    each[1].PlanePositionSequence[0].ImagePositionPatient = [0, 0, 1]
    write_dicom(tmp_path / "e.dcm", frames, PerFrameFunctionalGroupsSequence=each, **more)
    with pytest.raises(BadFile, match=r"slices are 1 to 6 mm apart"):
        read_header(tmp_path / "e.dcm")
    if not common:
        each[2].PixelMeasuresSequence[0].PixelSpacing = [0.6, 0.6]
        del each[3].PlanePositionSequence
        write_dicom(tmp_path / "e.dcm", frames, PerFrameFunctionalGroupsSequence=each)
        assert read_header(tmp_path / "e.dcm").spacing == ()


def test_frames_of_an_enhanced_dicom_file_are_sorted_and_rescaled_like_slices(tmp_path):
    frames = np.arange(4, dtype=np.uint16)[:, None, None] + np.zeros((4, 6, 8), np.uint16)
    flat = {"PlaneOrientationSequence": {"ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}}
    measures = {"PixelMeasuresSequence": {"PixelSpacing": [1, 1]}}
    depth, slope = [6, 0, 9, 3], [1, 10, 100, 1000]
    each = [
        group(
            **flat,
            **measures,
            PlanePositionSequence={"ImagePositionPatient": [0, 0, z]},
            PixelValueTransformationSequence={"RescaleSlope": a, "RescaleIntercept": -5},
        )
        for z, a in zip(depth, slope)
    ]
    write_dicom(tmp_path / "e.dcm", frames, PerFrameFunctionalGroupsSequence=each)
    expected = [a * k - 5 for _, k, a in sorted(zip(depth, range(4), slope))]
    found = read_image(tmp_path / "e.dcm")
    np.testing.assert_array_equal(
        found, np.array(expected, float)[None, :, None, None] + np.zeros((1, 4, 6, 8))
    )
    assert read_header(tmp_path / "e.dcm").spacing == (3.0, 1.0, 1.0)
    (tmp_path / "series").mkdir()
    for k, (z, a) in enumerate(zip(depth, slope)):
        said = {"RescaleSlope": a, "RescaleIntercept": -5, "PixelSpacing": [1, 1]}
        write_dicom(tmp_path / "series" / f"{k}.dcm", frames[k], number=k, place=[0, 0, z], **said)
    np.testing.assert_array_equal(read_image(tmp_path / "series"), found)
    del each[2].PlanePositionSequence  # a frame without a place: all stay as they are stored
    write_dicom(tmp_path / "e.dcm", frames, PerFrameFunctionalGroupsSequence=each)
    assert read_image(tmp_path / "e.dcm")[0, :, 0, 0].tolist() == [-5, 5, 195, 2995]
