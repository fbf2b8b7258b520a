"""The colour jitter of the paper's data sets, of a whole batch at once, on its own device."""

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, what image libraries call grey


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
