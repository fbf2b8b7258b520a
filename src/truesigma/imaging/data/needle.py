"""Simulated OCT of a bevelled needle tip in speckle, as sparse voxels of a 64 x 64 x 64 cube.

A volume that is mostly empty is a short list of bright voxels; the arg-max projections follow from the list alone, so
thousands of cases take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SIDE = 64
# Largest pose values, in mm and degrees, by which targets are divided.
LARGEST = (0.999612, 0.999535, 0.599804, 5.99884, 5.998696, 7.998165)
BEVEL, SHAFT, SPECKLE, STREAKS = 1600, 700, 240, 6  # points of each kind in a case, at most

# How the needle lies in the cube, as in the real set: columns are its directions across, out and along.
ALONG = np.array([0.73, 0.22, 0.65]) / np.linalg.norm([0.73, 0.22, 0.65])
ACROSS = np.array([-0.35, 0.93, 0.10]) - ALONG * (ALONG @ [-0.35, 0.93, 0.10])
LEAN = np.stack(
    [ACROSS / np.linalg.norm(ACROSS), np.cross(ALONG, ACROSS / np.linalg.norm(ACROSS)), ALONG], axis=1
)


@dataclass(frozen=True, eq=False)
class Voxels:
    """Bright voxels: place (case, point, 3) in 0..63, value (case, point) in 0..255, where 0 is none."""

    place: NDArray[np.int64]
    value: NDArray[np.int64]


def draw_voxels(pose: Floats, visibility: Floats, rng: np.random.Generator) -> Voxels:
    """The voxels that a needle at each pose lights up, with speckle.

    Arguments:
        pose: (case, 6) in mm and degrees, each up to `LARGEST`.
        visibility: (case,) in [0, 1]; the lower, the more of the needle is missing and the more speckle there is.
        rng: source of all randomness.

    Returns:
        Voxels, 2,540 points per case.

    >>> voxels = draw_voxels(np.zeros((2, 6)), np.ones(2), np.random.default_rng(0))
    >>> voxels.place.shape
    (2, 2540, 3)
    """
    cases = len(pose)
    dim = 1 - visibility[:, None]
    body = _needle(rng, cases) @ _turn(pose[:, 3:]).transpose(0, 2, 1) + _tip(pose[:, :3])[:, None]
    body += rng.normal(0, 0.3 + 0.5 * dim[..., None], body.shape)
    seen = rng.random(body.shape[:2]) > 0.05 + 0.6 * dim
    bright = 60 + 150 * visibility[:, None] * rng.random(body.shape[:2])
    specks = rng.random((cases, SPECKLE, 3)) * SIDE
    speck_seen = rng.random((cases, SPECKLE)) < 0.02 + 0.55 * dim
    # A saturated voxel throws a streak along the depth axis (1): many speckles share two of their coordinates.
    shared = rng.integers(0, STREAKS, (cases, SPECKLE))
    streak = np.take_along_axis(rng.random((cases, STREAKS, 3)) * [40, SIDE, 30], shared[..., None], 1)
    on_streak = rng.random((cases, SPECKLE, 1)) < 0.5
    specks = np.where(on_streak & np.array([True, False, True]), streak, specks)
    speck_bright = 20 + 60 * rng.random((cases, SPECKLE))
    place = np.floor(np.concatenate([body, specks], 1)).astype(np.int64)
    value = np.concatenate([seen * bright, speck_seen * speck_bright], 1).astype(np.int64)
    inside = ((place >= 0) & (place < SIDE)).all(-1)
    return Voxels(place.clip(0, SIDE - 1), value * inside)


def projections(voxels: Voxels) -> NDArray[np.uint8]:
    """The arg-max projections (case, 64, 64, 3) of the volumes that hold these voxels.

    Along each axis the brightest voxel of a column gives its position, the nearest of equally bright ones, and 0 where
    the column is empty, as arg max does.
    """
    cases = len(voxels.value)
    rows = np.arange(cases)[:, None]
    out = np.zeros((cases, SIDE, SIDE, 3), np.uint8)
    for axis in range(3):
        first, second = (voxels.place[..., k] for k in range(3) if k != axis)
        # Brightness and nearness in one number, so that one maximum per column decides both.
        key = voxels.value * SIDE + (SIDE - 1 - voxels.place[..., axis])
        best = np.zeros(cases * SIDE * SIDE, np.int64)
        column = (rows * SIDE + first) * SIDE + second
        np.maximum.at(best, column.ravel(), np.where(voxels.value > 0, key, 0).ravel())
        found = np.where(best > 0, SIDE - 1 - best % SIDE, 0)
        out[..., axis] = found.reshape(cases, SIDE, SIDE)
    return out


def _needle(rng: np.random.Generator, cases: int) -> Floats:
    """Points (case, point, 3) of a needle whose tip is at 0: the rim of its bevel, and the shaft behind it.

    Axes of the needle: across the bevel, out of the bevel, along the shaft towards the tip.
    """
    radius, length = 9.5, 46.0
    angle = rng.random((cases, BEVEL)) * 2 * np.pi
    rim = 1 - 0.42 * rng.random((cases, BEVEL))
    back = 0.5 * length * (1 - rim * np.cos(angle))
    bevel = np.stack([radius * rim * np.sin(angle), 0.12 * back, -back], -1)
    around = (rng.random((cases, SHAFT)) - 0.5) * np.pi
    behind = length + 26 * rng.random((cases, SHAFT)) - 12
    shaft = np.stack([radius * np.sin(around), 0.12 * length + 3 * np.cos(around), -behind], -1)
    return np.concatenate([bevel, shaft], 1)


def _tip(shift: Floats) -> Floats:
    """The place of the tip in the cube (case, 3), in voxels."""
    return np.array([45.0, 25.0, 31.0]) + shift / np.array(LARGEST[:3]) * np.array([12.0, 12.0, 12.0])


def _turn(degrees: Floats) -> Floats:
    """Rotations (case, 3, 3) from the needle to the cube: the pose's angles, enlarged to be seen, then the lean."""
    angle = np.radians(degrees - np.array(LARGEST[3:]) / 2) * np.array([2.5, 2.5, 4.0])
    turn = np.eye(3)[None].repeat(len(degrees), 0)
    for axis, (one, two) in enumerate([(1, 2), (2, 0), (0, 1)]):
        cos, sin = np.cos(angle[:, axis]), np.sin(angle[:, axis])
        step = np.eye(3)[None].repeat(len(degrees), 0)
        step[:, one, one], step[:, two, two], step[:, one, two], step[:, two, one] = cos, cos, -sin, sin
        turn = step @ turn
    return LEAN @ turn
