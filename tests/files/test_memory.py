"""Nothing inflates: what a file says about itself is checked against one limit before it is unpacked."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from dicom_files import write_dicom

from truesigma.files.disk import BadFile
from truesigma.files.images import read_image
from truesigma.files.store import read

SIDE = 100  # pixels of an image's side; a volume has as many slices
BYTES = SIDE**3


def nifti(path, slope=0.5):
    nib = pytest.importorskip("nibabel")
    image = nib.Nifti1Image(np.zeros((SIDE,) * 3, np.uint8), np.eye(4))
    image.header.set_slope_inter(slope, 1.0)
    nib.save(image, path)


def tiff(path):
    """Pages that all share one packed strip."""
    side, data, link = 4 * SIDE, bytearray(b"II*\0\0\0\0\0"), 4
    strip = zlib.compress(bytes(side * side))
    data += strip
    for _ in range(10):
        struct.pack_into("<I", data, link, len(data))
        sizes = {256: side, 257: side, 258: 8, 259: 8, 262: 1, 273: 8, 277: 1, 278: side, 279: len(strip)}
        data += struct.pack("<H", len(sizes))
        for tag, number in sizes.items():
            data += struct.pack("<HHII", tag, 4, 1, number)
        link = len(data)
        data += bytes(4)
    path.write_bytes(data)


def rescaled(path):
    write_dicom(path, np.zeros((SIDE, SIDE, SIDE), np.uint16), RescaleSlope=2, RescaleIntercept=-1)


def deep(path):
    pytest.importorskip("tifffile").imwrite(
        path, np.zeros((4 * SIDE, 4 * SIDE, 3), np.uint16), photometric="rgb", compression="zlib"
    )


FILES = {"a.nii.gz": nifti, "a.tif": tiff, "b.dcm": rescaled, "b.tif": deep}


def peak(look):
    """What it gives, and the most memory that was allocated meanwhile."""
    tracemalloc.start()
    try:
        return look(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", FILES)
def test_an_image_is_refused_before_it_is_unpacked(tmp_path, name, monkeypatch):
    FILES[name](tmp_path / name)
    read_image(tmp_path / name)  # what it takes to import is no part of it
    image, most = peak(lambda: read_image(tmp_path / name))
    assert most < 3 * image.nbytes
    if name == "b.dcm":  # which is as large on the disk
        return
    monkeypatch.setenv("TRUESIGMA_UNPACK_LIMIT", str(0.9 * image.nbytes / 1e9))

    def refused():
        with pytest.raises(BadFile, match=rf"{name} has .* MB and unpacks to .* more than the limit"):
            read_image(tmp_path / name)

    assert peak(refused)[1] < max(1e6, 0.5 * image.nbytes)


def test_a_table_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    zeros = np.zeros(1 << 20)
    table = pa.table({"target": zeros, "location": zeros, "scale": zeros + 1})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 1e6
    monkeypatch.setenv("TRUESIGMA_UNPACK_LIMIT", "0.02")
    with pytest.raises(BadFile, match=r"a\.parquet has .* limit of 0.02 GB.*UNPACK_LIMIT=1"):
        read(tmp_path / "a.parquet")
