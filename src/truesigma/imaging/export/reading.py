"""From the pixels of an image file to an image as the network was trained on, as a part of the exported graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data.prepare import EDGE, Layout, axes_of
from .graph import onnx_graph

IMAGE, SPACING, STORED = "image", "spacing", "stored"
SPACE = ("depth", "height", "width")


@dataclass(frozen=True, eq=False)
class Reading:
    """How image files are read, with some of them to try it on.

    Args:
        layout: of the data set.
        rounded: whether stored images have 8 bits.
        images: some, each (channel, *space) as `read_image` gives it.
        spacing: mm between the pixels of each of them, for all axes or for each; empty: none is needed.
        fixed: whether it is the same for all files, and no input of the graph.
    """

    layout: Layout
    rounded: bool
    images: Sequence[Tensor]
    spacing: Sequence[Sequence[float]] = ()
    fixed: bool = False

    @property
    def axes(self) -> int:
        return self.images[0].ndim - 1

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The shape of the image that the file takes."""
        return ("case", self.images[0].shape[0], *SPACE[-self.axes :])

    def given(self, case: int) -> dict[str, Tensor]:
        """What the file takes of one image."""
        found = {IMAGE: self.images[case][None].float()}
        if self.spacing and not self.fixed:
            found[SPACING] = self.apart(case)
        return found

    def apart(self, case: int) -> Tensor:
        """The spacing of one image, (1, axis)."""
        return torch.tensor([axes_of("spacing", self.spacing[case], self.axes)], dtype=torch.float64)

    def stored(self) -> Tensor:
        """The images as the data set stores them."""
        kind = np.uint8 if self.rounded else np.float32
        some = zip(self.images, self.spacing or [()] * len(self.images))
        made = [self.layout.laid_out(image.numpy().astype(kind), apart) for image, apart in some]
        return torch.from_numpy(np.stack(made))

    def instead(self, given: Mapping[str, Tensor], case: int) -> dict[str, Tensor]:
        """Replace what the graph takes by what the file takes of one image."""
        return {**self.given(case), **{name: one for name, one in given.items() if name != STORED}}

    def before(self, proto: Any) -> Any:
        """The graph that takes stored images, with the one that makes them before it."""
        from onnx import compose

        twice = {name: torch.cat([one] * 2) for name, one in self.given(0).items()}
        front = onnx_graph(_Stored(self), twice, outputs=[STORED], space=SPACE[-self.axes :])
        kept = {"rename_inputs": False, "rename_outputs": False}
        front = compose.add_prefix(front, "read.", **kept)
        return compose.merge_models(front, proto, io_map=[(STORED, STORED)])

    def describe(self) -> Mapping[str, Any]:
        """Describe what the file takes, for its metadata."""
        if not self.spacing or self.fixed:
            return {}
        words = f"mm between pixels, by {', '.join(SPACE[-self.axes :])}"
        return {SPACING: {"name": SPACING, "dtype": "float64", "shape": ("case", self.axes), "is": words}}


class _Stored(nn.Module):
    """Does what `Layout.stored` does, with operations on tensors whose lengths are free."""

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        layout, axes = reading.layout, reading.axes
        self.size = axes_of("size", layout.size, axes)
        self.scale = axes_of("mm_per_pixel", layout.mm_per_pixel, axes)
        self.anchored, self.rounded = layout.anchored, reading.rounded
        self.fixed = reading.apart(0) if reading.fixed else None

    def forward(self, image: Tensor, spacing: Tensor | None = None) -> Tensor:
        outside = image.flatten(1).amin(1)[:, None, None]
        values = image
        if spacing is None and self.fixed is not None:
            spacing = self.fixed.expand(len(image), -1)
        for axis, count in enumerate(self.size):
            place = torch.arange(image.shape[2 + axis], dtype=torch.float64)
            length = place[-1:] + 1
            step = (
                (length / count).expand(len(image))
                if spacing is None
                else self.scale[axis] / spacing[:, axis]
            )
            weights, inside = _weights(place, length, step, count, self.anchored)
            lines = values.movedim(2 + axis, -1)
            moved = torch.bmm(lines.flatten(1, -2), weights.mT)
            moved = torch.where(inside[:, None], moved, outside).reshape(*lines.shape[:-1], count)
            values = moved.movedim(-1, 2 + axis)
        return values.round().clamp(0, 255) if self.rounded else values


def _weights(
    place: Tensor, length: Tensor, step: Tensor, count: int, anchored: bool
) -> tuple[Tensor, Tensor]:
    """The matrices of `resampled`, (case, after, before), and which pixels are inside the image, (case, after)."""
    middle = torch.zeros_like(step) if anchored else (length - 1) / 2 - (count - 1) / 2 * step
    centre = middle[:, None] + step[:, None] * torch.arange(count, dtype=torch.float64)
    width = step.clamp(min=1.0)[:, None, None]
    weights = (1 - (place - centre[..., None]).abs() / width).clamp(min=0)
    inside = (centre - (length - 1) / 2).abs() < length / 2 + EDGE
    return (weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)).float(), inside
