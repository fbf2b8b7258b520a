"""Adaptive pooling of volumes for the ONNX export, which has it for images alone."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ...core.arrays import Host


def translations() -> Mapping[Any, Callable[..., Any]]:
    """What torch's exporter does not know, by the operation."""
    return {torch.ops.aten._adaptive_avg_pool3d.default: _pool_volume}


def averages(before: int, after: int) -> Host:
    """The matrix (before, after) that averages neighbours as torch's adaptive pooling does: from floor to ceiling.

    >>> averages(3, 2)
    array([[0.5, 0. ],
           [0.5, 0.5],
           [0. , 0.5]], dtype=float32)
    """
    found = np.zeros((before, after), np.float32)
    for k in range(after):
        inside = slice(k * before // after, -(-(k + 1) * before // after))
        found[inside, k] = 1 / (inside.stop - inside.start)
    return found


def _pool_volume(self: Any, output_size: Any) -> Any:
    """Axis by axis from the last: its mean over each part by a product of matrices, then to the front of the three."""
    from onnx.numpy_helper import from_array
    from onnxscript import opset18 as op

    made = self
    for before, after in zip(reversed(list(self.shape)[2:]), reversed(list(output_size))):
        matrix = op.Constant(value=from_array(averages(int(before), int(after))))
        made = op.Transpose(op.MatMul(made, matrix), perm=[0, 1, 4, 2, 3])
    return made
