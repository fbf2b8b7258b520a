"""DICOM files for tests, as a scanner writes them."""

import pytest


def write_dicom(path, pixels, *, uid="1.2.3", number=1, place=None, photometric="MONOCHROME2", **more):
    pydicom = pytest.importorskip("pydicom")
    meta = pydicom.dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    meta.MediaStorageSOPInstanceUID = f"{uid}.{number}"
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    piece = pydicom.dataset.FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    colour = pixels.ndim == 3 and pixels.shape[-1] == 3
    frames = 0 if colour or pixels.ndim == 2 else len(pixels)
    piece.SeriesInstanceUID, piece.InstanceNumber = uid, number
    piece.Rows, piece.Columns = pixels.shape[1:] if frames else pixels.shape[:2]
    if frames:
        piece.NumberOfFrames = frames
    piece.SamplesPerPixel, piece.PhotometricInterpretation = (3, "RGB") if colour else (1, photometric)
    if colour:
        piece.PlanarConfiguration = 0
    piece.BitsAllocated = piece.BitsStored = 8 * pixels.itemsize
    piece.HighBit = piece.BitsStored - 1
    piece.PixelRepresentation = int(pixels.dtype.kind == "i")
    if place is not None:
        piece.ImagePositionPatient, piece.ImageOrientationPatient = place, [1, 0, 0, 0, 1, 0]
    for key, value in more.items():
        setattr(piece, key, value)
    piece.PixelData = pixels.tobytes()
    piece.save_as(path, enforce_file_format=True)
