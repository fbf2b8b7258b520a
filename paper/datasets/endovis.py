"""EndoVis 2015 instrument tracking: endoscopic frames with the pixel position of the right instrument (two outputs).

Where to get it: endovissub-instrument.grand-challenge.org (frames, after registration). The paper's own labels, one
`Right_Instrument_Pose.txt` per video, are not in its repository: the format below is that of the challenge.

Layout: one folder per video, below train, valid and test, or directly below root::

    root/train/<video>/0001.png, 0002.png, ...        frames of 720 x 576, any image ending
    root/train/<video>/Right_Instrument_Pose.txt      one line per frame: x y ..., in pixels from the top left
    root/valid/<video>/...    root/test/<video>/...

Line k belongs to frame k, counted from 1 (the number at the end of the file name). Lines with a negative x or y, where
the instrument is not in view, are left out. Without the folders train, valid and test the videos are split by a seed,
each one whole; the published split (4483/2248/2253 frames) is not known by video. Frames are halved to 288 x 360
(rows x columns), targets are (x / 720, y / 576), and `group` holds the video.
"""

import io
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

sys.path.append(str(Path(__file__).parents[2]))  # where `paper` is, if `truesigma` was given this file

from paper.archive import Archive, open_archive
from paper.jitter import jitter
from truesigma.imaging import DataSet, Normalise, Split, by_group, chain, flip

TITLE = "EndoVis 2015 instrument tracking"
SOURCE = "https://endovissub-instrument.grand-challenge.org"
LICENCE = "EndoVis 2015 challenge terms: research use, registration needed"
CITATION = (
    "Bodenstedt et al.: Comparative evaluation of instrument segmentation and tracking methods in minimally invasive "
    "surgery. arXiv:1805.02475, 2018."
)
WIDTH, HEIGHT = 720, 576
SPLITS = ("train", "valid", "test")
IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")
LABELS = "Right_Instrument_Pose.txt"


def load(root: str, *, scale: float = 0.5, valid: float = 0.25, test: float = 0.25, seed: int = 0) -> DataSet:
    """EndoVis 2015: the instrument's pixel position in an endoscopic frame.

    Arguments:
        root: folder or zip of videos, below train, valid and test or all together.
        scale: images are resized to (576, 720) * scale.
        valid, test: shares of the frames, where the folders do not say.
        seed: for the split by video, where the folders do not say.

    Returns:
        DataSet of uint8 images (3, 288, 360) and two targets, x and y in pixels.
    """
    archive = open_archive(root)
    names, points = labelled_frames(archive)
    videos = tuple(str(PurePosixPath(name).parent) for name in names)
    index = split_videos(names, videos, valid, test, seed)
    with ThreadPoolExecutor() as pool:
        images = np.stack(list(pool.map(partial(frame, archive, scale=scale), names)))
    target = torch.from_numpy((points / [WIDTH, HEIGHT]).astype(np.float32))
    parts = {
        split: Split(
            torch.from_numpy(images[at]),
            target[at],
            tuple(names[k] for k in at),
            tuple(videos[k] for k in at),
        )
        for split, at in index.items()
    }
    # The published flip mirrors y; x is the coordinate along a row. Pixel x becomes pixel 719 - x.
    mirrored = partial(flip, mirror=0, total=(WIDTH - 1) / WIDTH)
    colour = partial(jitter, brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1, p=0.5)
    factor = torch.tensor([float(WIDTH), float(HEIGHT)])
    return DataSet(
        "endovis", parts, Normalise(), chain(mirrored, colour), ("px", "px"), torch.zeros(2), factor
    )


def labelled_frames(archive: Archive) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The frames in which the instrument is in view, video by video, and its position (case, 2) as (x, y)."""
    labels = [name for name in archive.names if PurePosixPath(name).name == LABELS]
    if not labels:
        raise ValueError(f"{archive.root} holds no {LABELS}; expected one in the folder of every video")
    names: list[str] = []
    points: list[tuple[float, float]] = []
    for label in labels:
        video = str(PurePosixPath(label).parent)
        numbered = frames(archive, video)
        for line, text in enumerate(archive.read(label).decode().splitlines(), start=1):
            if not text.strip():
                continue
            try:
                x, y = (float(word) for word in text.split()[:2])
            except ValueError:
                raise ValueError(f"{label}, line {line} is {text!r}; expected numbers: x y ...") from None
            if x < 0 or y < 0:
                continue
            if not (x < WIDTH and y < HEIGHT):
                raise ValueError(f"{label}, line {line}: ({x}, {y}) lies outside {WIDTH} x {HEIGHT} pixels")
            # A missing frame keeps its published name, so that the error can name it.
            names.append(numbered.get(line, f"{video}/{line:04}.png"))
            points.append((x, y))
    if not names:
        raise ValueError(f"{archive.root}: no frame shows the instrument; all positions are negative")
    return tuple(names), np.array(points)


def read(path: str, *, scale: float = 0.5) -> torch.Tensor:
    """One frame as this data set stores it: uint8 (3, 288, 360)."""
    return torch.from_numpy(resized(Image.open(path), scale).copy())


def split_videos(
    names: tuple[str, ...], videos: tuple[str, ...], valid: float, test: float, seed: int
) -> dict[str, NDArray[np.int64]]:
    """Split by the folders train, valid and test if there are any; otherwise whole videos, by the seed."""
    top = np.array([name.split("/")[0] for name in names])
    if set(SPLITS) & set(top):
        index = {split: np.flatnonzero(top == split) for split in SPLITS}
        remedy = "lay videos out below each of the folders train, valid and test"
    else:
        index = by_group(videos, valid=valid, test=test, seed=seed)
        remedy = f"{len(set(videos))} videos are too few for the shares asked for"
    empty = [split for split, rows in index.items() if not len(rows)]
    if empty or sum(len(rows) for rows in index.values()) < len(names):
        raise ValueError(f"no frames for {', '.join(empty) or 'some folders'}: {remedy}")
    return index


def frame(archive: Archive, name: str, *, scale: float) -> NDArray[np.uint8]:
    """One frame of the archive as this data set stores it."""
    try:
        return resized(Image.open(io.BytesIO(archive.read(name))), scale)
    except (OSError, KeyError, ValueError) as problem:
        raise ValueError(f"{name} cannot be read ({problem}); fetch the frames from {SOURCE}") from None


def frames(archive: Archive, video: str) -> dict[int, str]:
    """Image files of a video by the number at the end of their names."""
    numbered = {}
    for name in archive.names:
        number = re.search(r"(\d+)$", PurePosixPath(name).stem)
        if number and name.startswith(f"{video}/") and name.lower().endswith(IMAGES):
            numbered[int(number[1])] = name
    return numbered


def resized(image: Image.Image, scale: float) -> NDArray[np.uint8]:
    """A frame as uint8 (3, row, column), smaller by `scale`."""
    if image.size != (WIDTH, HEIGHT):
        raise ValueError(f"has {image.size[0]} x {image.size[1]} pixels; expected {WIDTH} x {HEIGHT}")
    small = image.convert("RGB").resize((int(WIDTH * scale), int(HEIGHT * scale)), Image.Resampling.BILINEAR)
    return np.asarray(small).transpose(2, 0, 1)
