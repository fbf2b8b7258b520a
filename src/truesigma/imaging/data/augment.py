"""Random variations of a whole batch at once, on its own device.

Every function takes (images, target, generator, *, options) and returns (images, target) of the same
shapes. Each case draws its own variation; nothing loops over cases and nothing waits for the device, so the
cost is a few kernels per batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]


def chain(*steps: Step) -> Step:
    """Make one augmentation that applies the given ones in turn; `chain()` changes nothing.

    >>> images, target = chain()(torch.ones(1, 1, 2, 2), torch.zeros(1, 1), torch.Generator())
    >>> float(images.sum())
    4.0
    """

    def augment(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        for step in steps:
            images, target = step(images, target, generator)
        return images, target

    return augment


def flip(
    images: Tensor,
    target: Tensor,
    generator: torch.Generator,
    *,
    axis: int = -1,
    p: float = 0.5,
    mirror: int | None = None,
    total: float = 1.0,
    places: Places | None = None,
) -> tuple[Tensor, Tensor]:
    """Mirror each case along one axis with probability p.

    y[mirror] -> total - y[mirror] where the image was mirrored and the target holds a coordinate along that
    axis.

    Arguments:
        images: (case, channel, *space).
        target: (case, output).
        axis: the axis to mirror; -1 is left-right.
        mirror: the output that is a coordinate along this axis; None: no output is.
        total: the sum of a coordinate and its mirror image.
        places: outputs that are coordinates in pixels, instead of one scaled to `total`.

    >>> images, target = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[0.25, 0.75]])
    >>> flip(images, target, torch.Generator(), p=1.0, mirror=0)
    (tensor([[[[2., 1.]]]]), tensor([[0.7500, 0.7500]]))
    """
    chosen = torch.rand(len(images), generator=generator, device=images.device) < p
    last = images.shape[axis] - 1
    images = torch.where(_per_case(chosen, images), images.flip(axis), images)
    if mirror is not None:
        outputs = torch.arange(target.shape[1], device=target.device)
        target = torch.where(chosen[:, None] & (outputs == mirror), total - target, target)
    if places is not None:
        along = torch.arange(len(places.points[0]), device=target.device) == -1 - axis
        target = places.moved(target, lambda at: torch.where(chosen[:, None] & along, last - at, at))
    return images, target


def transpose(
    images: Tensor, target: Tensor, generator: torch.Generator, *, p: float = 0.5
) -> tuple[Tensor, Tensor]:
    """Swap rows and columns of each (square) case with probability p.

    >>> images, _ = transpose(torch.tensor([[[[1, 2], [3, 4]]]]), torch.zeros(1, 1), torch.Generator(), p=1.0)
    >>> images.tolist()
    [[[[1, 3], [2, 4]]]]
    """
    if images.shape[-1] != images.shape[-2]:
        raise ValueError(
            f"images have shape {tuple(images.shape)}; transposing needs square ones: pad or resize them"
        )
    chosen = torch.rand(len(images), generator=generator, device=images.device) < p
    return torch.where(_per_case(chosen, images), images.transpose(-1, -2), images), target


def warp(
    images: Tensor,
    target: Tensor,
    generator: torch.Generator,
    *,
    rotate: float = 0.0,
    scale: float = 0.0,
    shift: float = 0.0,
    pixel: tuple[float, ...] = (),
    places: Places | None = None,
) -> tuple[Tensor, Tensor]:
    """Turn, enlarge and shift each case by amounts of its own; what comes in from outside is 0.

    Arguments:
        images: (case, channel, *space), 2-D or 3-D; 0 is their mean, as they are normalised.
        rotate: degrees, at most; volumes turn about each of their axes.
        scale: share of the size, at most: the factor is uniform on [1 - scale, 1 + scale].
        shift: pixels along each axis, at most.
        pixel: how long a pixel is along each axis (depth, row, column), so that what turns keeps its lengths; empty:
            the same along all.
        places: which outputs are coordinates, and move with the image; None: none.

    >>> images, target = torch.zeros(1, 1, 5, 5), torch.tensor([[1.0, 2.0]])
    >>> images[0, 0, 2, 1] = 1.0
    >>> where = Places(((0, 1),), (0.0, 0.0), (1.0, 1.0))
    >>> images, target = warp(images, target, torch.Generator().manual_seed(1), shift=1.0, places=where)
    >>> centre = (images.sum(2) * torch.arange(5)).sum() / images.sum()
    >>> bool((centre - target[0, 0]).abs() < 1e-3)
    True
    """
    space, cases = images.shape[2:], len(images)
    axes = len(space)
    turns = axes if axes == 3 else 1
    drawn = 2 * torch.rand(cases, turns + 1 + axes, generator=generator, device=images.device) - 1
    # From places in the new image to places in the old one, in pixels from the centre, the last axis first.
    back = _rotations(torch.deg2rad(rotate * drawn[:, :turns]), axes) / (
        1 + scale * drawn[:, turns, None, None]
    )
    if pixel:  # turned in mm, not in pixels
        length = torch.tensor(pixel[::-1], device=images.device)
        back = back * length / length[:, None]
    moved = shift * drawn[:, turns + 1 :]
    half = torch.tensor(space[::-1], device=images.device) / 2
    grid = torch.cat([back * half / half[:, None], (-(back @ moved[..., None])[..., 0] / half)[..., None]], 2)
    where = torch.nn.functional.affine_grid(grid, list(images.shape), align_corners=False)
    images = torch.nn.functional.grid_sample(images, where, align_corners=False)
    if places is not None:
        centre = half - 0.5
        forth = torch.linalg.inv(back)
        target = places.moved(target, lambda at: (forth @ (at - centre)[..., None])[..., 0] + moved + centre)
    return images, target


def _rotations(angles: Tensor, axes: int) -> Tensor:
    """Rotation matrices (case, axis, axis) by angles (case, 1) of images or (case, 3) of volumes."""
    turned = torch.eye(axes, device=angles.device).expand(len(angles), axes, axes)
    for number, (one, two) in enumerate([(0, 1)] if axes == 2 else [(0, 1), (1, 2), (2, 0)]):
        cos, sin = angles[:, number].cos(), angles[:, number].sin()
        step = torch.eye(axes, device=angles.device).repeat(len(angles), 1, 1)
        step[:, one, one], step[:, two, two], step[:, one, two], step[:, two, one] = cos, cos, -sin, sin
        turned = step @ turned
    return turned


@dataclass(frozen=True)
class Places:
    """Outputs that are coordinates of points, in pixels counted from 0 at the centre of the first one.

    Arguments:
        points: the outputs of each point: x along the last image axis, y along the one before, and z in volumes.
        offset, factor: of each output, from scaled targets to pixels.
    """

    points: tuple[tuple[int, ...], ...]
    offset: tuple[float, ...]
    factor: tuple[float, ...]

    def moved(self, target: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
        """Move the points in targets by `move`, a function of places (case, axis), the last axis first."""
        factor, offset = (
            torch.tensor(values, dtype=target.dtype, device=target.device)
            for values in (self.factor, self.offset)
        )
        pixels = offset + factor * target
        for point in self.points:
            pixels[:, point] = move(pixels[:, point])
        return (pixels - offset) / factor


def intensity(
    images: Tensor, target: Tensor, generator: torch.Generator, *, strength: float
) -> tuple[Tensor, Tensor]:
    """Multiply each case by exp(strength z) and add strength z' / 2, z and z' standard normal: contrast and brightness.

    >>> images, _ = intensity(torch.ones(2, 1, 4, 4), torch.zeros(2, 1), torch.Generator(), strength=0.1)
    >>> bool((images[0] == images[0, 0, 0, 0]).all()), bool(images[0, 0, 0, 0] == images[1, 0, 0, 0])
    (True, False)
    """
    z = torch.randn(2, len(images), generator=generator, device=images.device)
    return images * _per_case(torch.exp(strength * z[0]), images) + _per_case(
        strength / 2 * z[1], images
    ), target


def crop(
    images: Tensor, target: Tensor, generator: torch.Generator, *, padding: int, value: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Pad every side by `padding` and cut the original size out at a random place, which shifts each case.

    Arguments:
        images: (case, channel, *space), any number of axes.
        padding: pixels on each side; the shift is uniform on -padding..padding along each axis.
        value: what is padded with, in the prepared range (black is -mean / sd in normalised images).

    >>> images, _ = crop(torch.ones(4, 1, 8, 8), torch.zeros(4, 1), torch.Generator(), padding=2)
    >>> images.shape
    torch.Size([4, 1, 8, 8])
    """
    space = images.shape[2:]
    padded = torch.nn.functional.pad(images, (padding, padding) * len(space), value=value)
    draw = torch.rand(len(space), len(images), generator=generator, device=images.device)
    start = (draw * (2 * padding + 1)).long().clamp_(max=2 * padding)  # float32 rounding can reach the end
    axes = images.ndim
    index = [
        _along(torch.arange(n, device=images.device), axis, axes) for axis, n in enumerate(images.shape[:2])
    ]
    for axis, length in enumerate(space):
        steps = torch.arange(length, device=images.device)
        index.append(_along(steps, axis + 2, axes) + _along(start[axis], 0, axes))
    return padded[tuple(index)], target


def _per_case(values: Tensor, like: Tensor) -> Tensor:
    """(case,) values shaped to broadcast against (case, ...)."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _along(values: Tensor, axis: int, axes: int) -> Tensor:
    """1-D values as the given one of `axes` axes."""
    return values.reshape([-1 if k == axis else 1 for k in range(axes)])
