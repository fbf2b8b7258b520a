"""Whether draws that share a pass leave one another alone: tried out with one of them made of NaN.

Shapes show most operations that relate the cases of a batch, but not a softmax, a sort or an attention along them.
"""

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .cut import Partition

_DRAWS = 4
_POISONED = 1  # neither at an end nor in the middle: an order that is reversed moves it, too


def stay_apart(pieces: Partition, probe: Tensor) -> bool:
    """Whether NaN in the cases of one draw comes out of this draw, and of no other.

    Args:
        pieces: of a network whose draws could be folded into the cases, as far as shapes tell.
        probe: some cases, where the network is.
    """
    handed = pieces.prefix(probe)
    if not any(many and t.is_floating_point() for t, many in zip(handed, pieces.batched)):
        return True  # whole numbers cannot be NaN: nothing to try
    found = pieces.rest(*(_folded(t) if many else t for t, many in zip(handed, pieces.batched)))
    rows = _DRAWS * len(probe)
    outputs = [t for t in pytree.tree_leaves(found) if isinstance(t, Tensor) and t.ndim and len(t) == rows]
    if not outputs:
        return True  # not a value for each case: whoever reads it will say so
    lost = (
        torch.stack([t.isnan().reshape(rows, -1).any(1) for t in outputs]).any(0).unflatten(0, (_DRAWS, -1))
    )
    others = [draw for draw in range(_DRAWS) if draw != _POISONED]
    return bool(lost[_POISONED].all() & ~lost[others].any())


def _folded(tensor: Tensor) -> Tensor:
    draws = [tensor] * _DRAWS
    if tensor.is_floating_point():
        draws[_POISONED] = torch.full_like(tensor, torch.nan)
    return torch.cat(draws)
