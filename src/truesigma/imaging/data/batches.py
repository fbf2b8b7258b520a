"""Turn batches, tensors or what a DataLoader gives, into what networks take."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler

_FABRIC = "lightning.fabric", "lightning_fabric"


def images(batches: Iterable[Any]) -> Iterator[Tensor]:
    """The image tensor of each batch, checked.

    >>> [tuple(x.shape) for x in images([(torch.zeros(2, 1, 8, 8), "target"), torch.zeros(1, 1, 8, 8)])]
    [(2, 1, 8, 8), (1, 1, 8, 8)]
    """
    if isinstance(batches, Tensor | np.ndarray):
        raise ValueError(
            f"batches is one array of shape {tuple(batches.shape)}; expected batches: images.split(16), or a "
            "DataLoader, or [images] for a single batch."
        )
    # Its items are single cases: the channels of one would be taken for cases.
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        raise ValueError(
            f"batches is a {type(batches).__name__}, which gives one case at a time; expected batches: "
            "DataLoader(dataset, 16)."
        )
    if isinstance(batches, DataLoader) and isinstance(batches.sampler, RandomSampler):
        warnings.warn(
            "the DataLoader shuffles: predictions come in an order that targets taken from it in another loop do not "
            "have. Use shuffle=False, or sample batch by batch, with [image] as the batches.",
            stacklevel=4,
        )
    number = -1
    for number, batch in enumerate(batches):
        if isinstance(batch, Mapping):
            names = [name for name, value in batch.items() if isinstance(value, Tensor)]
            raise ValueError(
                f"batch {number} leads with a dict of {', '.join(map(repr, batch)) or 'nothing'}; expected the images, "
                f"or a tuple or list led by them. Take them out: (batch[{(names or ['image'])[0]!r}] for batch in "
                "loader)."
            )
        image = batch[0] if isinstance(batch, tuple | list) and len(batch) else batch
        if not isinstance(image, Tensor) or image.ndim < 2 or len(image) == 0:
            what = f"shape {tuple(image.shape)}" if isinstance(image, Tensor) else f"a {type(image).__name__}"
            raise ValueError(
                f"batch {number} leads with {what}; expected a tensor (case, channel, ...) with at least one case, "
                "or a tuple or list led by it."
            )
        yield image
    if number < 0:
        raise ValueError("batches is empty; expected at least one batch.")


def bare(net: nn.Module) -> nn.Module:
    """Unwrap a network from torch.compile, data-parallel training or Fabric.

    A wrapper cannot be traced, and that of distributed training waits for the other ranks in every pass.

    >>> bare(DataParallel(nn.Linear(2, 1)))
    Linear(in_features=2, out_features=1, bias=True)
    """
    inner: Any = getattr(net, "_orig_mod", None)
    if isinstance(net, DataParallel | DistributedDataParallel):
        inner = net.module
    elif type(net).__module__.startswith(_FABRIC):
        inner = getattr(net, "_forward_module", None)
    return net if inner is None else bare(inner)


def placing(net: nn.Module) -> Callable[[Tensor], Tensor]:
    """Make a function that brings batches to the network's device, floating-point type and memory layout."""
    weights = [p for p in net.parameters() if p.is_floating_point()]
    if not weights:
        return lambda image: image
    device, dtype = weights[0].device, weights[0].dtype
    kernels = [p for p in weights if p.ndim == 4 and not p.is_contiguous()]
    channels_last = any(k.is_contiguous(memory_format=torch.channels_last) for k in kernels)

    def place(image: Tensor) -> Tensor:
        image = image.to(device, non_blocking=True)
        image = image.to(dtype) if image.is_floating_point() else image
        return image.to(memory_format=torch.channels_last) if channels_last and image.ndim == 4 else image

    return place
