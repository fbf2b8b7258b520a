"""Test whether draws that share a pass influence each other, by making one of them NaN.

Shapes show most operations that relate the cases of a batch, but not a softmax, a sort or an attention along them.
"""

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..network.randomness import seed_generators
from .partition import Partition

_DRAWS = 4
_POISONED = 1  # neither at an end nor in the middle: an order that is reversed moves it, too
_OTHERS = [draw for draw in range(_DRAWS) if draw != _POISONED]
_FAR = (-1e4, 1e4)  # numbers beyond those of a network, which a maximum or a minimum notices


def stay_apart(pieces: Partition, probe: Tensor) -> bool:
    """Whether NaN in the cases of one draw comes out of this draw, and of no other.

    A network may swallow NaN, as nan_to_num and thresholds do. Then large numbers must change only this draw.

    Args:
        pieces: of a network whose draws could be folded into the cases, as far as shapes tell.
        probe: some cases, where the network is; torch's generators are seeded.
    """
    handed = pieces.prefix(probe)
    if not any(many and t.is_floating_point() for t, many in zip(handed, pieces.batched)):
        return True  # whole numbers cannot be NaN: nothing to try

    def outputs(poison: float | None) -> list[Tensor]:
        seed_generators(probe.device, 0)  # the same dropout each time
        given = (_folded(t, poison) if many else t for t, many in zip(handed, pieces.batched))
        found, rows = pytree.tree_leaves(pieces.rest(*given)), _DRAWS * len(probe)
        return [t.reshape(_DRAWS, -1) for t in found if isinstance(t, Tensor) and t.ndim and len(t) == rows]

    found = outputs(torch.nan)
    if not found:
        return True  # not a value for each case: whoever reads it will say so
    lost = torch.stack([t.isnan().reshape(_DRAWS, len(probe), -1).any(2) for t in found]).any(0)
    if lost.any():
        return bool(lost[_POISONED].all() & ~lost[_OTHERS].any())
    usual = outputs(None)
    changed = torch.cat([far != near for poison in _FAR for far, near in zip(outputs(poison), usual)], 1)
    return bool(changed[_POISONED].any() & ~changed[_OTHERS].any())


def _folded(tensor: Tensor, poison: float | None) -> Tensor:
    draws = [tensor] * _DRAWS
    if tensor.is_floating_point() and poison is not None:
        draws[_POISONED] = torch.full_like(tensor, poison)
    return torch.cat(draws)
