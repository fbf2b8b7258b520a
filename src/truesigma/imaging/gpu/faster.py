"""A faster captured step: weights are cast to bfloat16 all at once, and batch norm is fused with what follows it.

At batch 16 the paper's networks spend more time on casts, batch norm and gates than on convolutions. None of this stays
in the network: its modules are replaced while the step is captured, and are themselves again afterwards.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from ..network.two_head import TwoHead
from .captured_step import Step, captured

__all__ = ["faster", "fused", "halved"]

Forward = Callable[[Tensor], Any]
Backward = Callable[[Tensor], None]
Make = Callable[[Forward, Backward, Any], Step]  # a plain step of forward, backward and optimiser

ROUNDING = (
    1.5,
    0.05,
)  # the error of its gradients: times the plain step's, and this part of the gradient's length


def faster(
    make: Make,
    net: nn.Module,
    optimizer: Any,
    images: Tensor,
    target: Tensor,
    reset: Callable[[], None],
    *,
    precision: str,
) -> Step | None:
    """The captured step, faster; None if it is not available: without Triton, or if its gradients differ.

    make: gives the plain step. net: in training mode, on a GPU. images, target: one batch, channels last.
    reset: sets the meter back, which counted the steps before the capture.
    """
    try:
        from . import kernels
    except ImportError:
        return None
    casts = precision == "bf16" and isinstance(net, TwoHead)
    forward, backward = halved(net) if casts else (net, Tensor.backward)
    try:
        rough, quick = _errors(make, net, (forward, backward), kernels, images, target)
        reset()
        if not quick <= ROUNDING[0] * rough + ROUNDING[1]:
            raise RuntimeError(
                f"its gradients err by {quick:.2g} of their length, the plain step's by {rough:.2g}"
            )
        with fused(net, kernels, len(images)) as held:
            step = make(forward, backward, optimizer)
            graph = captured(step, net, optimizer, images, target, reset)
    except Exception as problem:  # Triton and its compiler raise their own kinds
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        warnings.warn(f"the faster training step is not used: {reason}", stacklevel=2)
        net.zero_grad(set_to_none=True)
        return None
    if graph is step:
        return None

    def replay(images: Tensor, target: Tensor, held: object = held) -> None:
        """Keep the kernels' counters alive, too: the graph knows only their address."""
        graph(images, target)

    return replay


def halved(net: nn.Module) -> tuple[Forward, Backward]:
    """Forward and backward with the backbone's weights cast in one kernel, and their gradients cast back in one.

    Under autocast every layer casts its weights itself: some hundred small kernels in each direction. The numbers are
    the same.
    """
    from timm.layers.conv2d_same import Conv2dSame

    full = {
        f"{name}.{key}": parameter
        for name, module in net.named_modules()
        if name.startswith("backbone") and type(module) in (nn.Conv2d, nn.Linear, Conv2dSame)
        for key, parameter in module.named_parameters(recurse=False)
        if parameter.requires_grad
    }
    cast: list[Tensor] = []

    def forward(images: Tensor) -> Any:
        with torch.no_grad():
            cast[:] = [torch.empty_like(value, dtype=torch.bfloat16) for value in full.values()]
            torch._foreach_copy_(cast, list(full.values()))
        return functional_call(net, {name: h.requires_grad_() for name, h in zip(full, cast)}, (images,))

    def backward(loss: Tensor) -> None:
        loss.backward()
        used = [(value, h.grad) for value, h in zip(full.values(), cast) if h.grad is not None]
        for value, _ in used:
            value.grad = torch.empty_like(value)
        with torch.no_grad():
            torch._foreach_copy_([value.grad for value, _ in used], [_as(g, value) for value, g in used])
        cast.clear()

    return forward, backward


def _as(gradient: Tensor, weight: Tensor) -> Tensor:
    """The gradient with the weight's strides: casts at once take no others. Axes of one element may have any."""
    pairs = zip(gradient.stride(), weight.stride(), weight.shape)
    if all(one == other or size == 1 for one, other, size in pairs):
        return gradient.as_strided(weight.shape, weight.stride())
    return torch.empty_like(weight, dtype=gradient.dtype).copy_(gradient)


@contextmanager
def fused(
    net: nn.Module, kernels: ModuleType, cases: int, *, training: bool = True
) -> Iterator[list[tuple[nn.Module, Any]]]:
    """Batch norm in one kernel with the activation, drop path, residual or gate behind it, where timm has them.

    cases: the most in a batch. training: the norms that are in training mode; False: those that are not, and no
    gradients. Returns what the kernels work with, which must live as long as a graph of them.
    """
    changed: list[tuple[nn.Module, Any]] = []
    try:
        for module, forward in _replacements(net, kernels, cases, training):
            module.forward = forward
            changed.append((module, forward))
        yield changed
    finally:
        for module, _ in changed:
            del module.forward


def _replacements(
    net: nn.Module, kernels: ModuleType, cases: int, training: bool
) -> Iterator[tuple[nn.Module, Any]]:
    """Modules, and what each does instead."""
    from timm.layers.norm_act import BatchNormAct2d
    from timm.models._efficientnet_blocks import DepthwiseSeparableConv, InvertedResidual
    from timm.models.densenet import DenseBlock
    from timm.models.resnet import Bottleneck

    acts = {nn.Identity: kernels.NONE, nn.ReLU: kernels.RELU, nn.SiLU: kernels.SILU, nn.ReLU6: kernels.RELU6}

    def norm(bn: Any, act: Any, se: Any = None) -> Any:
        done = kernels.counters(bn.num_features, cases, bn.weight.device)
        saved = None if bn.training else kernels.settled(bn)

        def forward(
            x: Tensor, residual: Tensor | None = None, path: nn.Module | None = None, passes: bool = False
        ) -> Any:
            squeeze: tuple[Any, ...] = ()
            if se is not None:
                one, two = se.conv_reduce, se.conv_expand
                squeeze = one.weight, one.bias, two.weight, two.bias
            kind, kept = acts[type(act)], _kept(path, x)
            if saved is None:
                told = (bn, done, kind, passes)
                return kernels.Norm.apply(x, bn.weight, bn.bias, residual, kept, *told, *squeeze)
            y, *_ = kernels.apply_norm(kernels.rows_of(x), saved, residual, kept, squeeze, done, kind)
            return (y, x) if passes else y

        return forward

    def usual(bn: nn.Module) -> bool:
        """Whether this is an ordinary batch norm: it learns, keeps statistics, and is in this mode."""
        plain = isinstance(bn, nn.BatchNorm2d) and bn.affine and bn.track_running_stats
        return plain and bn.momentum is not None and bn.training == training

    followed = dict(_followed(net))
    module: Any
    for module in net.modules():
        if type(module) is Bottleneck and _standard(module, usual):
            yield module, _bottleneck(module, norm)
        if type(module) in (DepthwiseSeparableConv, InvertedResidual) and _ends_plainly(module, usual):
            yield module, _residual(module)
        if isinstance(module, DenseBlock) and all(_plain_layer(layer, usual) for layer in module.values()):
            yield module, _dense(module, norm, kernels.Append.apply)
        if not usual(module):
            continue
        behind = followed.get(module)
        if type(module) is BatchNormAct2d and type(module.act) in acts and type(module.drop) is nn.Identity:
            yield module, norm(module, module.act, behind)
        elif type(module) is nn.BatchNorm2d:
            yield module, norm(module, behind if type(behind) in acts else nn.Identity())
        else:
            continue
        if behind is not None:
            yield behind, _same


def _followed(net: nn.Module) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Batch norms, each with the activation or the squeeze-and-excite after it that it can take over."""
    from timm.models._efficientnet_blocks import DepthwiseSeparableConv, InvertedResidual, SqueezeExcite
    from timm.models.resnet import ResNet

    module: Any
    for module in net.modules():
        if type(module) in (DepthwiseSeparableConv, InvertedResidual):
            se = module.se
            standard = type(se) is SqueezeExcite and type(se.act1) is nn.SiLU and type(se.gate) is nn.Sigmoid
            if standard and type(module.aa) is nn.Identity:
                yield (module.bn1 if type(module) is DepthwiseSeparableConv else module.bn2), se
        if type(module) is ResNet and type(module.act1) is nn.ReLU:
            yield module.bn1, module.act1
        if type(module) is nn.Sequential:
            for one, two in pairwise(module):
                if type(one) is nn.BatchNorm2d and type(two) in (nn.ReLU, nn.SiLU, nn.ReLU6):
                    yield one, two


def _same(x: Tensor) -> Tensor:
    return x


def _last_norm(block: Any) -> Any:
    """The norm that ends a block of an EfficientNet."""
    return block.bn3 if hasattr(block, "bn3") else block.bn2


def _ends_plainly(block: Any, usual: Callable[[nn.Module], bool]) -> bool:
    """Whether this block of an EfficientNet ends as its paper has it: norm, drop path, residual."""
    from timm.layers.drop import DropPath
    from timm.layers.norm_act import BatchNormAct2d

    last = _last_norm(block)
    nothing = type(last) is BatchNormAct2d and type(last.act) is type(last.drop) is nn.Identity
    return (
        block.has_skip
        and getattr(block, "conv_s2d", None) is None
        and nothing
        and usual(last)
        and type(block.drop_path) in (nn.Identity, DropPath)
    )


def _residual(block: Any) -> Forward:
    """A block of an EfficientNet; drop path and the residual are inside its last norm."""
    parts: tuple[nn.Module, ...]
    if hasattr(block, "bn3"):
        parts = (block.conv_pw, block.bn1, block.conv_dw, block.bn2, block.aa, block.se, block.conv_pwl)
    else:
        parts = (block.conv_dw, block.bn1, block.aa, block.se, block.conv_pw)

    def forward(x: Tensor) -> Tensor:
        y = x
        for part in parts:
            y = part(y)
        return _last_norm(block)(y, x, block.drop_path)

    return forward


def _kept(path: Any, x: Tensor) -> tuple[Tensor, float] | None:
    """The cases that drop path keeps, drawn as timm draws them, and what they are multiplied with; None for all."""
    if path is None or type(path) is nn.Identity or path.drop_prob == 0 or not path.training:
        return None
    keep = 1 - path.drop_prob
    return x.new_empty(len(x)).bernoulli_(keep), 1 / keep if keep > 0 and path.scale_by_keep else 1.0


def _standard(block: Any, usual: Callable[[nn.Module], bool]) -> bool:
    """Whether this is the block of a plain ResNet."""
    acts = all(type(act) is nn.ReLU for act in (block.act1, block.act2, block.act3))
    norms = all(type(bn) is nn.BatchNorm2d and usual(bn) for bn in (block.bn1, block.bn2, block.bn3))
    nothing = all(
        part is None or type(part) is nn.Identity
        for part in (block.se, block.drop_path, block.drop_block, block.aa)
    )
    return acts and norms and nothing


def _bottleneck(block: Any, norm: Callable[[nn.Module, nn.Module], Any]) -> Forward:
    """The block of a ResNet; the residual is added inside its last norm."""
    first, second, third = (norm(bn, block.act3) for bn in (block.bn1, block.bn2, block.bn3))

    def forward(x: Tensor) -> Tensor:
        y = block.conv3(second(block.conv2(first(block.conv1(x)))))
        return third(y, x if block.downsample is None else block.downsample(x))

    return forward


def _plain_layer(layer: Any, usual: Callable[[nn.Module], bool]) -> bool:
    """Whether this is the layer of a plain DenseNet."""
    norms = all(
        usual(bn) and type(bn.act) is nn.ReLU and type(bn.drop) is nn.Identity
        for bn in (layer.norm1, layer.norm2)
    )
    return norms and not layer.grad_checkpointing


def _dense(block: Any, norm: Callable[[nn.Module, nn.Module], Any], append: Callable[..., Tensor]) -> Forward:
    """A dense block that writes its features into one buffer; a layer's gradient is added inside its first norm."""
    layers = [(layer, norm(layer.norm1, layer.norm1.act)) for layer in block.values()]

    def forward(x: Tensor) -> Tensor:
        more = sum(layer.conv2.out_channels for layer, _ in layers)
        shape = (x.shape[0], x.shape[1] + more, *x.shape[2:])
        buffer = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        features = append(None, x, buffer)
        for layer, first in layers:
            y, features = first(features, passes=True)
            new = layer.conv2(layer.norm2(layer.conv1(y)))
            if layer.drop_rate > 0:
                new = F.dropout(new, layer.drop_rate, layer.training)
            features = append(features, new, buffer)
        return features

    return forward


class _Still:
    """An optimiser that leaves the weights and their gradients alone."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: there is nothing to clear."""

    def step(self) -> None:
        """Do nothing: the weights stay."""


def _errors(
    make: Make,
    net: nn.Module,
    fast: tuple[Forward, Backward],
    kernels: ModuleType,
    images: Tensor,
    target: Tensor,
) -> tuple[float, float]:
    """How far the gradients of the plain and of the fast step are from those in float32, relative to their length.

    Without dropout, whose masks differ between precisions.
    """

    def exactly(images: Tensor) -> Any:
        with torch.autocast(images.device.type, enabled=False):
            return net(images)

    kept = [(buffer, buffer.clone()) for buffer in net.buffers()]
    modes = [(module, module.training) for module in net.modules()]
    found = []
    for module, training in modes:
        module.training = training and isinstance(module, nn.BatchNorm2d)
    ways: list[tuple[Forward, Backward, Any]] = [
        (exactly, Tensor.backward, nullcontext()),
        (net, Tensor.backward, nullcontext()),
        (*fast, fused(net, kernels, len(images))),
    ]
    for forward, backward, patched in ways:
        net.zero_grad(set_to_none=True)
        with patched:
            make(forward, backward, _Still())(images, target)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
        found.append(torch.cat([gradient.float().flatten() for gradient in gradients]))
        for buffer, value in kept:
            buffer.copy_(value)
    net.zero_grad(set_to_none=True)
    for module, training in modes:
        module.training = training
    rough, quick = (float((one - found[0]).norm() / found[0].norm()) for one in found[1:])
    return rough, quick
