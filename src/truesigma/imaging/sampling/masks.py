"""Masks common to all images: draw n is one thinned network, whatever images it sees.

The random operations of a graph become inputs. Their values for draw n depend only on the seed, n, the operation and
the shape of one case, and are made on the processor: folder, batch, chunk and device play no part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from ..network.randomness import argument, guarded_generators

aten = torch.ops.aten
KINDS = ("common", "independent")
_KEPT_BYTES = 2**30  # of masks; more are made again for every batch
# Operations whose numbers depend on the shape of what they are given, not on its values.
_OF_SHAPE = (
    aten.bernoulli.p, aten.rand.default, aten.rand_like.default, aten.randn.default, aten.randn_like.default,
    aten.uniform.default, aten.normal_functional.default,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Masked:
    """The rest of a network with its masks as further inputs, after what the prefix hands over."""

    rest: fx.GraphModule
    operations: tuple["Operation", ...]
    seed: int
    kept: dict[Any, list[Tensor]] = field(default_factory=dict)

    def masks(self, draws: Sequence[int], device: torch.device) -> list[Tensor]:
        """Make the masks of some draws, one tensor (draw, ...) for each operation, on the device."""
        key = tuple(draws), device
        if key in self.kept:
            return self.kept[key]
        made = [
            torch.stack([operation.make(self.seed, draw) for draw in draws]).to(device)
            for operation in self.operations
        ]
        held = sum(t.nbytes for masks in (*self.kept.values(), made) for t in masks)
        if held <= _KEPT_BYTES:
            self.kept[key] = made
        return made


@dataclass(frozen=True, eq=False)
class Operation:
    """One random operation of a graph, for a single case."""

    number: int  # its place among the random operations
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...]

    def make(self, seed: int, draw: int) -> Tensor:
        """Draw for one case: which elements dropout keeps, or the random numbers themselves."""
        key = np.random.SeedSequence([seed, draw, self.number, *self.shape]).generate_state(1)
        # on the CPU, whose generator is seeded, also where torch.set_default_device says otherwise
        with torch.device("cpu"), guarded_generators(torch.device("cpu")):
            torch.default_generator.manual_seed(int(key[0]))
            if self.target is aten.dropout.default:
                return torch.empty(self.shape).bernoulli_(1 - _rate(self)) > 0
            args, kwargs = fx.node.map_aggregate((self.args, self.kwargs), _one_case)
            return self.target(*args, **kwargs)


def with_masks(rest: fx.GraphModule, seed: int) -> Masked | None:
    """Turn the masks of a `Partition`'s rest into inputs; None if the numbers of an operation cannot be known.

    Fused attention is one of these: its dropout is inside, after values that differ from image to image.
    """
    graph, new = fx.Graph(), dict[fx.Node, fx.Node]()
    given = [node for node in rest.graph.nodes if node.op == "placeholder"]
    for node in given:
        new[node] = graph.node_copy(node)
    first = next(new[node] for node in given if node.meta["axis"] == 0)
    random = [node for node in rest.graph.nodes if node.meta.get("random")]
    operations = []
    for number, node in enumerate(random):
        dropped = node.target is aten.dropout.default
        if not (dropped or node.target in _OF_SHAPE) or not isinstance(node.meta["val"], Tensor):
            return None
        shape = _length(node.meta["val"])
        args = tuple(fx.map_arg(node.args, lambda n: n.meta["val"]))
        kwargs = {key: value for key, value in node.kwargs.items() if key not in ("device", "pin_memory")}
        operations.append(Operation(number, node.target, args, kwargs, shape))
    masks = [graph.placeholder(f"mask_{operation.number}") for operation in operations]
    for node in rest.graph.nodes:
        if node in given:
            continue
        if node.op == "output":
            graph.output(fx.map_arg(node.args[0], lambda n: new[n]))
        elif node in random:
            number = random.index(node)
            rate, axis = _rate(operations[number]), node.meta["axis"]
            if node.target is aten.dropout.default:
                factor = 1 / (1 - rate) if rate < 1 else 0.0
                new[node] = graph.call_function(thinned, (new[node.args[0]], masks[number], axis, factor))
            else:
                new[node] = graph.call_function(for_every_case, (first, masks[number], axis))
            new[node].meta = {**node.meta, "random": False}
        else:
            new[node] = graph.node_copy(node, lambda n: new[n])
    graph.eliminate_dead_code()
    return Masked(fx.GraphModule(rest, graph), tuple(operations), seed)


def thinned(x: Tensor, mask: Tensor, axis: int | None, factor: float) -> Tensor:
    """Dropout with the mask given: x (..., draw * case * length, ...) times mask (draw, ..., length, ...) and factor.

    >>> thinned(torch.ones(4, 2), torch.tensor([[[True, False]], [[False, True]]]), 0, 2.0).tolist()
    [[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]]
    """
    kept = mask.to(x.dtype) * factor
    if axis is None:
        return x * kept[0]
    wide = x.unflatten(axis, (mask.shape[0], -1, mask.shape[axis + 1]))
    return (wide * kept.movedim(0, axis).unsqueeze(axis + 1)).flatten(axis, axis + 2)


def for_every_case(first: Tensor, numbers: Tensor, axis: int | None) -> Tensor:
    """Repeat the numbers of one case (draw, ..., length, ...) for the cases of a batch `first` (draw * case, ...)."""
    if axis is None:
        return numbers[0]
    draws = numbers.shape[0]
    wide = numbers.movedim(0, axis).unsqueeze(axis + 1)
    sizes = list(wide.shape)
    sizes[axis + 1] = first.shape[0] // draws
    return wide.expand(sizes).flatten(axis, axis + 2)


def _rate(operation: Operation) -> float:
    found = argument(operation.target, operation.args, operation.kwargs, "p")
    return float(found) if isinstance(found, int | float) else 0.0


def _one_case(value: Any) -> Any:
    """Cut an operation's argument down to one case."""
    if isinstance(value, Tensor):
        return torch.empty(_length(value), dtype=value.dtype)
    return _of_one(value) if isinstance(value, torch.SymInt) else value


def _length(value: Tensor) -> tuple[int, ...]:
    return tuple(_of_one(n) for n in value.shape)


def _of_one(length: Any) -> int:
    """Evaluate a traced length for one case."""
    if not isinstance(length, torch.SymInt):
        return int(length)
    expression = length.node.expr
    return int(expression.subs(dict.fromkeys(expression.free_symbols, 1)))
