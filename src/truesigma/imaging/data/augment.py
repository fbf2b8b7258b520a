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
LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, what image libraries call grey


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


def jitter(
    images: Tensor,
    target: Tensor,
    generator: torch.Generator,
    *,
    brightness: float = 0.0,
    contrast: float = 0.0,
    saturation: float = 0.0,
    hue: float = 0.0,
    p: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Vary brightness, contrast, saturation and hue of each case in random order, with probability p.

    Brightness, contrast and saturation blend the image with black, with its mean grey and with its grey
    image: x -> clip(f x + (1 - f) base), f uniform on [1 - strength, 1 + strength]; hue turns by uniform
    [-hue, hue] turns.

    Arguments:
        images: (case, channel, *space) in [0, 1]; saturation and hue need three channels.
        brightness, contrast, saturation, hue: strengths; 0 leaves that change out.

    >>> images = torch.full((2, 3, 4, 4), 0.5)
    >>> changed, _ = jitter(images, torch.zeros(2, 1), torch.Generator(), brightness=0.2, p=1.0)
    >>> bool(((changed >= 0.4) & (changed <= 0.6)).all())
    True
    """
    strengths = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
    names = [name for name, strength in strengths.items() if strength > 0]
    if images.shape[1] != 3 and (saturation > 0 or hue > 0):
        raise ValueError(f"images have {images.shape[1]} channels; saturation and hue need 3: set both to 0")
    if not names:
        return images, target
    blends = [name for name in names if name != "hue"]
    draw = torch.rand(2 * len(names) + 1, len(images), generator=generator, device=images.device)
    keys, spread = draw[1 : len(names) + 1], 2 * draw[len(names) + 1 :] - 1
    if not blends:
        changed = turn_hue(images, hue * spread[-1])
        return torch.where(_per_case(draw[0] < p, images), changed, images), target
    # Sorting random keys gives every case its own order: row k says which blend is the k-th of each case.
    order = keys[: len(blends)].argsort(0)
    factors = torch.stack([1 + strengths[name] * spread[k] for k, name in enumerate(blends)]).gather(0, order)
    if hue > 0:
        # The costly turn is made once: each case has its blends with smaller keys before it, the others after it,
        # and a factor of 1, which changes nothing, on the other side.
        before = keys.gather(0, order) < keys[-1]
        changed = _blends(images, order, torch.where(before, factors, 1), blends)
        changed = turn_hue(changed, hue * spread[-1])
        changed = _blends(changed, order, torch.where(before, 1, factors), blends)
    else:
        changed = _blends(images, order, factors, blends)
    return torch.where(_per_case(draw[0] < p, images), changed, images), target


def _blends(images: Tensor, order: Tensor, factors: Tensor, names: list[str]) -> Tensor:
    """clip(f x + (1 - f) base) in turn: base is black, the mean grey (contrast) or the grey image (saturation)."""
    channels = images.shape[1]
    weight = LUMA if channels == 3 else (1 / channels,) * channels
    for step, factor in zip(order, factors):
        base = torch.zeros_like(factor)
        grey = _weighted(images, weight) if "saturation" in names else None
        if "contrast" in names:
            # The mean of the grey image needs only the channels' means, not the grey image.
            mean = _weighted(images.flatten(2).mean(2), weight) if grey is None else grey.flatten(1).mean(1)
            base = (step == names.index("contrast")) * mean
        base = _per_case(base, images)
        if grey is not None:
            base = torch.where(_per_case(step == names.index("saturation"), images), grey[:, None], base)
        images = torch.lerp(base, images, _per_case(factor, images)).clamp_(0, 1)
    return images


def _weighted(values: Tensor, weight: tuple[float, ...]) -> Tensor:
    """Weighted sum over the channels; plain numbers, since a tensor would be copied to the device."""
    total = weight[0] * values[:, 0]
    for channel, w in enumerate(weight[1:], start=1):
        total = total.add(values[:, channel], alpha=w)
    return total


def turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """RGB images (case, 3, *space) in [0, 1] with each case's hue turned by `turns` (case,) of a full circle.

    Value and saturation stay: channel n becomes V - C max(0, min(k, 4 - k, 1)), k = (n + 6 hue) mod 6, n = 5, 3, 1.

    >>> turn_hue(torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1), torch.tensor([1 / 3])).flatten().tolist()
    [0.0, 1.0, 0.0]
    """
    red, green, blue = images.unbind(1)
    top = images.amax(1)
    chroma = top - images.amin(1)
    safe = torch.where(chroma > 0, chroma, 1)
    sixth = torch.where(top == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    sixth = torch.where(top == red, (green - blue) / safe, sixth) + 6 * _per_case(turns, top)
    k = (sixth[:, None] + _along(torch.arange(5, 0, -2, device=images.device), 1, images.ndim)) % 6
    return top[:, None] - chroma[:, None] * torch.minimum(k, 4 - k).clamp_(0, 1)


def _per_case(values: Tensor, like: Tensor) -> Tensor:
    """(case,) values shaped to broadcast against (case, ...)."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _along(values: Tensor, axis: int, axes: int) -> Tensor:
    """1-D values as the given one of `axes` axes."""
    return values.reshape([-1 if k == axis else 1 for k in range(axes)])
