"""Checks of data, choices and network before training."""

import warnings

import torch
from torch import Tensor, nn

from ...core.checks import number_of
from ..data.dataset import DataSet, Split, batches
from ..data.folds import HELD
from ..network.losses import LIKELIHOODS
from ..network.outputs import pair
from ..network.randomness import guarded_generators, modes
from ..network.two_head import TwoHead
from ..recipe import TrainingRecipe

__all__ = ["check_choices", "check_detached", "check_network", "warn_of_scale"]

USUAL = (1e-3, 1e3)  # spans of a target, far around 1, that networks and rates are made for


def check_choices(
    data: DataSet, recipe: TrainingRecipe, *, likelihood: str, precision: str, graph: str, devices: int
) -> None:
    """Check everything that can be wrong before a network is touched."""
    for name, value, allowed in (
        ("likelihood", likelihood, tuple(LIKELIHOODS)),
        ("precision", precision, ("fp32", "bf16")),
        ("graph", graph, ("auto", "off")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} = {value!r}: expected one of {', '.join(allowed)}")
    if likelihood != "gaussian" and recipe.loss != "nll":
        raise ValueError(
            f"loss = {recipe.loss!r} is made from the Gaussian likelihood, and likelihood = {likelihood!r} was given; "
            "use loss = 'nll' with it, or likelihood = 'gaussian'"
        )
    for name in ("train", "valid"):
        if name not in data.splits or not len(data.splits[name]):
            raise ValueError(
                f"data set {data.name!r} has no cases in the split {name!r}, which training needs"
            )
        split = data.splits[name]
        if not split.labelled:
            bare = [split.name[int(i)] for i in split.target.isnan().any(1).nonzero().flatten()]
            shown = ", ".join(bare[:10]) + (", ..." if len(bare) > 10 else "")
            raise ValueError(
                f"the split {name!r} has {number_of(len(bare), 'case')} without a target: {shown}; leave them out"
            )
    _check_levels(data)
    if devices < 1 or recipe.batch % devices:
        raise ValueError(f"a batch of {recipe.batch} cannot be shared out evenly over {devices} devices")


def _check_levels(data: DataSet) -> None:
    """Refuse categories that first appear after training; across folds the networks of other folds have seen them."""
    known = data.splits["train"].inputs
    if known is None or HELD in data.splits:
        return
    for split, part in data.splits.items():
        new = (known == 0).all(0) & (torch.zeros_like(known) if part.inputs is None else part.inputs).any(0)
        if names := [name for name, unmet in zip(data.inputs.names, new.tolist()) if unmet]:
            raise ValueError(
                f"cases of the split {split!r} have the input {', '.join(names)}, which no training case has: move "
                "some to the training split, share them out in folds, or leave the column out of the inputs"
            )


def check_network(net: nn.Module, data: DataSet) -> None:
    """Refuse a network made for other inputs, or whose state is not only tensors: checkpoints store nothing else."""
    if isinstance(net, TwoHead) and net.inputs != len(data.inputs):
        raise ValueError(
            f"the network takes {net.inputs} inputs beside the image, the data has {len(data.inputs)} "
            f"({', '.join(data.inputs.names) or 'none'}); build it with inputs=len(data.inputs)"
        )
    other = [name for name, value in net.state_dict().items() if not isinstance(value, Tensor)]
    if other:
        raise ValueError(
            f"the network's state holds {', '.join(other)}, which is not a tensor (from get_extra_state?); "
            "checkpoints keep tensors alone: register a buffer instead"
        )
    one = next(
        batches(data.splits["train"], 1, prepare=data.prepare, device=next(net.parameters()).device)
    ).images
    with guarded_generators(one.device), modes(net, lambda _: False), torch.no_grad():
        try:
            net(one)
        except (RuntimeError, ValueError) as problem:
            kind = " x ".join(map(str, data.splits["train"].shape))
            why = str(problem).partition("\n")[0].removesuffix(".")
            raise ValueError(
                f"the network does not take images of {kind} ({why}); small3d is for volumes, the other backbones are "
                "for pictures, and large ones need large images"
            ) from None


def check_detached(net: nn.Module, data: DataSet) -> None:
    """Refuse a network whose mean is shaped by what its variance learns, which the loss `faithful` rules out."""
    device = next(net.parameters()).device
    two = next(batches(data.splits["train"], 2, prepare=data.prepare, device=device)).images
    named = {name: parameter for name, parameter in net.named_parameters() if parameter.requires_grad}
    with guarded_generators(device), modes(net, lambda _: False):
        heads = [head for head in pair(net(two)) if head.requires_grad]
        reached = [
            {name for name, slope in zip(named, slopes) if slope is not None}
            for head in heads
            for slopes in [
                torch.autograd.grad(head.sum(), list(named.values()), retain_graph=True, allow_unused=True)
            ]
        ]
    if len(reached) < 2:  # a mean that is fitted, not trained
        return
    if shared := [name for name in named if name in reached[0] & reached[1]]:
        raise ValueError(
            f"loss = 'faithful' needs a variance that does not train what the mean is made of, and both train "
            f"{', '.join(shared[:3])}{', ...' if len(shared) > 3 else ''}; detach the features before the second head, "
            "as `build` does for this loss"
        )


def warn_of_scale(split: Split) -> None:
    """Warn of targets that a network cannot learn as they are; data sets scale theirs to about [0, 1]."""
    low, high = split.target.amin(0), split.target.amax(0)
    for output, (a, b) in enumerate(zip(low.tolist(), high.tolist())):
        if not USUAL[0] <= b - a <= USUAL[1] or max(abs(a), abs(b)) > USUAL[1]:
            warnings.warn(
                f"training targets of output {output} lie between {a:g} and {b:g}; expected about 0 to 1: scale them, "
                "and let the data set's offset and factor hold the way back",
                stacklevel=3,
            )
