"""What a trained network says of cases: features, means, and its own variances; nothing about it changes."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core.arrays import Host
from ...core.law import Normal
from ...core.values import Prediction
from ..data.batches import images, placing
from ..network.outputs import values

__all__ = ["Frozen", "look"]

SMALLEST = 1e-12  # of a squared error that something is learned from


class Frozen(NamedTuple):
    """What a network says of cases, in float64, and their targets.

    features: the input of its last layer, (case, feature). mean, target: (case, output). variance: of its second head,
    likewise; 1 where it has none. axes: of the outputs, as the network has them.
    """

    features: Host
    mean: Host
    variance: Host
    target: Host
    axes: tuple[int, ...]

    @property
    def errors(self) -> Host:
        """Squared errors (case, output)."""
        return np.square(self.mean - self.target).clip(SMALLEST)

    def prediction(self, aleatoric: Host, epistemic: Host | None = None) -> Prediction:
        """The means with variances (case, output), in the shape that the network gives them."""

        def shaped(part: Host) -> Host:
            return part.reshape(len(part), *self.axes).astype(np.float32)

        if epistemic is None:
            return Prediction(shaped(self.mean), variance=shaped(aleatoric))
        return Prediction(shaped(self.mean), aleatoric=shaped(aleatoric), epistemic=shaped(epistemic))


def look(net: nn.Module, batches: Iterable[Any], *, labelled: bool = True) -> Frozen:
    """Run a network over batches of (images, targets), or of images alone if they are not labelled.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> look(net.eval(), [(torch.ones(5, 1, 2, 2), torch.ones(5))]).features.shape
    (5, 3)
    """
    place, layer = placing(net), None
    kept: list[list[Host]] = []
    with torch.inference_mode():
        for image, target in with_targets(batches) if labelled else ((one, None) for one in images(batches)):
            batch = place(image)
            layer = last_layer(net, batch[:2]) if layer is None else layer
            signs, told, own = _run(net, layer, batch, len(kept))
            axes = tuple(told.shape[1:])
            known = torch.zeros_like(told) if target is None else target.to(told)
            if known.numel() != told.numel():
                raise ValueError(
                    f"the targets of batch {len(kept)} have shape {tuple(known.shape)}, the network's mean "
                    f"{tuple(told.shape)}; expected as many numbers for each case."
                )
            parts = (signs, told, own.expand_as(told), known)
            kept.append([part.reshape(len(batch), -1).double().cpu().numpy() for part in parts])
    features, mean, variance, wanted = (np.concatenate(parts) for parts in zip(*kept))
    return Frozen(features, mean, variance, wanted, axes)


def outputs_of(net: nn.Module, batch: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Mean and variance of a batch; the variance is 1 where the network returns the mean alone."""
    outputs = net(batch)
    pair = (outputs, torch.zeros_like(outputs)) if isinstance(outputs, Tensor) else outputs
    mean, variance, _ = values(pair, 1, batch, number, Normal())
    return mean[0], variance[0]


def last_layer(net: nn.Module, probe: Tensor) -> nn.Linear:
    """The linear layer whose outputs, or the first of them, are the network's mean."""
    calls: list[tuple[nn.Linear, Tensor]] = []
    linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
    hooks = [
        one.register_forward_hook(lambda layer, given, made: calls.append((layer, made))) for one in linear
    ]
    try:
        mean = outputs_of(net, probe, 0)[0]
    finally:
        for hook in hooks:
            hook.remove()
    flat = mean.reshape(len(probe), -1)
    for layer, made in reversed(calls):
        if made.ndim == 2 and len(made) == len(flat) and torch.equal(made[:, : flat.shape[1]].float(), flat):
            return layer
    raise ValueError(
        f"no linear layer of {type(net).__name__} gives its mean, of shape {tuple(mean.shape)}; expected a network "
        "that ends in nn.Linear, whose input are the features."
    )


def _run(net: nn.Module, layer: nn.Linear, batch: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, mean and variance of a batch."""
    given: list[Tensor] = []
    hook = layer.register_forward_hook(lambda layer, inputs, made: given.append(inputs[0]))
    try:
        mean, variance = outputs_of(net, batch, number)
    finally:
        hook.remove()
    return given[-1], mean, variance


def with_targets(batches: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and targets of each batch, checked."""
    number = -1
    for number, batch in enumerate(batches):
        (image,) = images([batch])
        target = batch[1] if isinstance(batch, tuple | list) and len(batch) > 1 else None
        if not isinstance(target, Tensor) or len(target) != len(image):
            raise ValueError(
                f"batch {number} has no target for each image; expected (images, targets), as a DataLoader gives them."
            )
        yield image, target
    if number < 0:
        raise ValueError("batches is empty; expected at least one batch.")
