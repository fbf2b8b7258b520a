"""Convolution, addition and ReLU as one operation, which on NVIDIA cards is one kernel of cuDNN.

A residual network at large batches is bound by memory: each ReLU on its own reads and writes its tensor once more.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten
_LIBRARY = torch.library.Library("truesigma", "FRAGMENT")
_LIBRARY.define(
    "conv_relu(Tensor x, Tensor weight, Tensor bias, Tensor? other, int[] stride, int[] padding, int[] dilation, "
    "int groups) -> Tensor"
)
OP = torch.ops.truesigma.conv_relu.default


# `how` is stride, padding, dilation and groups.
def _plain(x: Tensor, weight: Tensor, bias: Tensor, other: Tensor | None, *how: Any) -> Tensor:
    found = torch.conv2d(x, weight, bias, *how)
    return torch.relu(found if other is None else found + other)


def _cudnn(x: Tensor, weight: Tensor, bias: Tensor, other: Tensor | None, *how: Any) -> Tensor:
    low = x.dtype in (torch.bfloat16, torch.float16)
    if low and not _refused and torch.backends.cudnn.is_available():
        try:
            if other is None:
                return torch.cudnn_convolution_relu(x, weight, bias, *how)
            return torch.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, *how)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as problem:  # this version has no such kernel for the shape
            _refused.append(str(problem))
            warnings.warn(f"cuDNN's joined convolution is left out: {problem}", stacklevel=2)
    return _plain(x, weight, bias, other, *how)


_refused: list[str] = []
_LIBRARY.impl("conv_relu", _plain, "CompositeExplicitAutograd")
_LIBRARY.impl("conv_relu", _cudnn, "CUDA")
torch.library.register_fake("truesigma::conv_relu", _plain)


def fuse(graph: fx.Graph) -> None:
    """Replace relu(conv2d(x)) and relu(conv2d(x) + other) by one operation each, if nothing else reads in between."""
    for node in list(graph.nodes):
        if node.target is not aten.relu.default:
            continue
        conv, other, between = node.args[0], None, []
        if conv.target is aten.add.Tensor and len(conv.users) == 1 and not conv.kwargs:
            between = [conv]
            first, second = conv.args
            conv, other = (first, second) if _can_fuse(first) else (second, first)
            if not isinstance(other, fx.Node) or not _same_shape(other, node):
                continue
        if not _can_fuse(conv):
            continue
        given: list[Any] = list(conv.args)
        stride, padding, dilation, groups = given[3:] + [[1, 1], [0, 0], [1, 1], 1][len(given) - 3 :]
        with graph.inserting_before(node):
            new = graph.call_function(OP, (*given[:3], other, stride, padding, dilation, groups))
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        for old in (node, *between, conv):
            graph.erase_node(old)
    graph.lint()


def _can_fuse(node: Any) -> bool:
    found = isinstance(node, fx.Node) and node.target is aten.conv2d.default and len(node.users) == 1
    return found and len(node.args) > 2 and node.args[2] is not None


def _same_shape(one: fx.Node, other: fx.Node) -> bool:
    return str(tuple(one.meta["val"].shape)) == str(tuple(other.meta["val"].shape))
