r"""Test-time augmentation: how far predictions differ between views of a case that should not matter.

View $n$ of a case, flipped, turned or shifted, gives $\hat y_n$: a draw with the variance $s^2 v$, the network's own
variance $v$ (or 1) times a level. Over held cases the mean of $e^2$ is that of $s^2 v$ and of the views' variance.
Which views leave the target as it is, only you know: the size of a lesion takes flips, its position does not.

Reference: Ayhan and Berens, MIDL 2018; Wang et al., Neurocomputing 2019.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.arrays import Host
from ...core.errors import Refusal
from ...core.values import Draws
from ..data.batches import images, placing
from ..sampling.frozen import SMALLEST, outputs_of, with_targets

TITLE = "test-time augmentation"
LEAST = 0.01  # of the squared error that is left to the noise


def fit(
    net: nn.Module, held: Iterable[Any], *, flip: str = "", move: int = 0, turn: bool = False
) -> dict[str, Host]:
    """Views of each case that leave the target as it is: flips, shifts, quarter turns.

    Args:
        net: any network of one output, or of mean and log-variance.
        held: batches that it has not seen.
        flip: axes to flip, such as "x" or "xy"; x is the last.
        move: pixels to shift by, along each axis and back.
        turn: quarter turns of the last two axes, for square images.

    Returns:
        `level` (output,), and the views.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 1)).eval()
    >>> batches = [(torch.rand(6, 1, 2, 2), torch.rand(6))]
    >>> sorted(fit(net, batches, flip="x"))
    ['flip', 'level', 'move', 'turn']
    """
    if not (flip or move or turn) or set(flip) - set("xyz"):
        raise Refusal(
            f"flip is {flip!r}, move {move}, turn {turn}; expected views that leave the target as it is, such as "
            "augment:flip=x,move=4."
        )
    views = {"flip": np.array(flip), "move": np.array(move), "turn": np.array(turn)}
    errors, spreads, variances = [], [], []
    for image, target in with_targets(held):
        mean, variance = _drawn(net, image, views)
        errors.append(np.square(mean.mean(axis=0) - target.numpy().reshape(mean.shape[1:])))
        spreads.append(mean.var(axis=0))
        variances.append(variance.mean(axis=0))
    error, spread, variance = (
        np.concatenate(parts).mean(axis=0).ravel() for parts in (errors, spreads, variances)
    )
    return {**views, "level": (error - spread).clip(LEAST * error + SMALLEST) / variance}


def predict(net: nn.Module, batches: Iterable[Any], learned: Mapping[str, Host]) -> Draws:
    """A draw for each view."""
    drawn = [_drawn(net, image, learned) for image in images(batches)]
    mean, variance = (np.concatenate(parts, axis=1) for parts in zip(*drawn))
    level = learned["level"].reshape(mean.shape[2:])
    return Draws(mean, (level * variance).astype(np.float32))


def _drawn(net: nn.Module, image: Tensor, views: Mapping[str, Host]) -> tuple[Host, Host]:
    """Means and variances (view, case, output...) of a batch."""
    batch = placing(net)(image)
    with torch.inference_mode():
        pairs = [outputs_of(net, view, 0) for view in _views(batch, views)]
        mean = torch.stack([mean for mean, _ in pairs])
        variance = torch.stack([variance.expand_as(mean[0]) for _, variance in pairs])
    return mean.cpu().numpy(), variance.cpu().numpy()


def _views(batch: Tensor, views: Mapping[str, Host]) -> Iterator[Tensor]:
    """The batch as it is, and every combination of flips, turns and one shift."""
    axes = [-1 - "xyz".index(axis) for axis in str(views["flip"])]
    flips = [some for count in range(len(axes) + 1) for some in itertools.combinations(axes, count)]
    step = int(views["move"])
    shifts = [
        (0, 0),
        *((axis, way) for axis in range(2, batch.ndim) for way in (-step, step) if step),
    ]
    for turns, flipped, (axis, way) in itertools.product(range(4 if views["turn"] else 1), flips, shifts):
        view = torch.rot90(batch.flip(flipped), turns, (-2, -1))
        if way:
            places = torch.arange(batch.shape[axis], device=batch.device) + way
            view = view.index_select(axis, places.clamp(0, batch.shape[axis] - 1))  # the edge is repeated
        yield view
