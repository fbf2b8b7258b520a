"""What can be wrong with data, choices and network, asked before training."""

import warnings

from torch import Tensor, nn

from ..data.dataset import DataSet, Split
from ..network.losses import LIKELIHOODS

__all__ = ["check_choices", "check_network", "warn_of_scale"]

USUAL = (1e-3, 1e3)  # spans of a target that networks, rates and variances are made for, far around 1


def check_choices(
    data: DataSet, *, likelihood: str, precision: str, graph: str, devices: int, batch: int
) -> None:
    """Everything that can be wrong before a network is touched."""
    for name, value, allowed in (
        ("likelihood", likelihood, tuple(LIKELIHOODS)),
        ("precision", precision, ("fp32", "bf16")),
        ("graph", graph, ("auto", "off")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} = {value!r}: expected one of {', '.join(allowed)}")
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
                f"{len(bare)} cases of the split {name!r} have no target: {shown}; leave them out"
            )
    if devices < 1 or batch % devices:
        raise ValueError(f"a batch of {batch} cannot be shared out evenly over {devices} devices")


def check_network(net: nn.Module) -> None:
    """Refuse a network whose state is more than tensors, which is all that checkpoints hold."""
    other = [name for name, value in net.state_dict().items() if not isinstance(value, Tensor)]
    if other:
        raise ValueError(
            f"the network's state holds {', '.join(other)}, no tensor, as get_extra_state gives it; checkpoints keep "
            "tensors alone: register a buffer instead"
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
