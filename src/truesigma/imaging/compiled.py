"""A tally of tensors on a GPU as one compiled function: the formulas of the metrics fused into a few kernels.

The operations of the statistics are recorded once for each size of block and handed to `torch.compile`. The histogram
of the PIT stays outside of it: torch counts in the memory of each multiprocessor, which a fused kernel would not do.
All blocks are on their way before the first result is waited for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from ..arrays import ROW, Host, pack, to_host, total
from ..elements import Block, Elements, blocks
from ..law import Law
from ..sums import Statistic, Sum, block_sums, flat, join_sums, pit_counts
from ..tally import Tally
from ..types import Prediction

EAGER = ("pit", "factor aleatoric")  # a histogram, and what looks at its numbers before it is sure of itself


@dataclass(frozen=True, eq=False)
class CompiledAdd:
    """Adds predictions of tensors to a tally by compiled functions; made by `compiled_add`."""

    empty: Tally
    functions: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    def __call__(self, prediction: Prediction, target: Tensor, *, weight: Tensor | None = None) -> Tally:
        """The tally of these cases alone."""
        plan, _ = self.empty._statistics()
        each = list(blocks(prediction, target, weight))
        begun = [self._begin(block, plan) for block in each]
        sizes = [[part.shape for part in sums] for sums in begun]
        # One transfer, at which everything is waited for.
        rows = to_host(torch.cat([part.reshape(-1) for sums in begun for part in sums]))
        keys, found, start = [*self._fused_keys(plan), "pit"], [], 0
        for block, shapes in zip(each, sizes):
            sums: dict[str, Sum] = {}
            for key, shape in zip(keys, shapes):
                sums[key] = rows[start : start + shape.numel()].reshape(shape)
                start += shape.numel()
            # What overflows float32 is summed again, as the tally itself does it.
            later = {key: plan[key] for key in plan if key not in sums or not np.isfinite(sums[key]).all()}
            found.append({**sums, **block_sums(block, later)})
        return replace(self.empty, sums=join_sums(found), moment=prediction.law.moment)

    def _begin(self, block: Block, plan: dict[str, Statistic]) -> list[Tensor]:
        """The sums of a block in float64, on the device and perhaps not yet there: those of the plan, and the PIT's."""
        given = {name: torch.as_tensor(array) for name, array in block.parts.items() if array is not None}
        first = next(iter(given.values()))
        known = (tuple(given), first.shape, first.dtype, first.device, str(block.law.to_dict()))
        if known not in self.functions:
            traced = partial(_fused, law=block.law, names=tuple(given), plan=self._fusible(plan))
            # Recorded by shapes alone: nothing is computed yet, and no memory taken.
            recorded = make_fx(traced, tracing_mode="fake")(*given.values())
            self.functions[known] = torch.compile(in_rows(recorded))
        *sums, central, weight = self.functions[known](*given.values())
        weighted = "weight" in given or "mask" in given
        return [*sums, pit_counts(central, weight if weighted else None)]

    def _fused_keys(self, plan: dict[str, Statistic]) -> list[str]:
        return [key for key in plan if key not in EAGER]

    def _fusible(self, plan: dict[str, Statistic]) -> dict[str, Statistic]:
        """The statistics without histograms: a few bins are sums of comparisons."""
        edges = np.array(self.empty.edges)
        bins = partial(_bins_by_comparison, edges=edges, outputs=self.empty.outputs, error=self.empty.error)
        return {key: bins if key == "variance" else plan[key] for key in self._fused_keys(plan)}


def compiled_add(empty: Tally) -> CompiledAdd:
    """A function that gives the tally of a prediction and its targets, compiled when it first sees their shape.

    It pays from about 1e8 elements on a GPU: compiling takes seconds. The tally needs its edges given.

    Args:
        empty: a tally of nothing, `Tally.empty(edges=...)`.

    Returns:
        A function of (prediction, target, weight=None), whose tallies merge with those of `Tally.add`.
    """
    if empty.edges is None:
        raise ValueError("a compiled tally needs its edges; give them, as Tally.empty(edges=...).")
    return CompiledAdd(empty)


def in_rows(module: GraphModule) -> GraphModule:
    """The recorded operations, with each sum of very many float32 numbers as one of the sums of rows.

    Rows are what a compiler fuses well, and their sums need no float64, of which a GPU does little at a time.
    """
    graph = module.graph
    for node in list(graph.nodes):
        values = node.args[0].meta["val"] if node.target is torch.ops.aten.sum.default else None
        if values is None or values.dtype == torch.float64 or values.numel() < ROW or values.numel() % ROW:
            continue
        with graph.inserting_before(node):
            rows = graph.call_function(torch.ops.aten.reshape.default, (node.args[0], [-1, ROW]))
            short = graph.call_function(torch.ops.aten.sum.dim_IntList, (rows, [1]), {"dtype": torch.float32})
        node.args = (short, *node.args[1:])
    module.recompile()
    return module


def _fused(*arrays: Tensor, law: Law, names: tuple[str, ...], plan: dict[str, Statistic]) -> list[Any]:
    """The sums of the plan, and for the histogram of the PIT the place and the weight of every element."""
    given = dict(zip(names, arrays))
    every = ("location", "target", "aleatoric", "epistemic", "spread", "weight", "mask")
    block = Block(law, {name: given.get(name) for name in every}, slice(0, len(arrays[0])))
    sums = [statistic(block) for statistic in plan.values()]
    central, weight = flat(block.elements.central, block.elements.weight)
    return [*sums, central, torch.zeros((), device=central.device) if weight is None else weight]


def _bins_by_comparison(block: Block, *, edges: Host, outputs: Any, error: Any) -> Tensor:
    """What `bin_sums` gives, from sums over all elements at or above each edge."""
    elements: Elements = block.view(outputs)
    variance, errors, weight = elements.variance, elements.error(error), elements.weight
    columns = [torch.ones_like(variance), errors, variance]
    columns = columns if weight is None else [column * weight for column in columns]
    reached = [torch.stack([total(c) for c in columns])]
    known = edges.astype(np.float32 if variance.dtype == torch.float32 else np.float64)
    for edge in known[1:-1]:
        above = variance >= float(edge)
        reached.append(torch.stack([total(torch.where(above, c, 0.0)) for c in columns]))
    reached.append(torch.zeros_like(reached[0]))
    whole = torch.stack(reached, dim=1)
    bins = whole[:, :-1] - whole[:, 1:]
    none = torch.zeros_like(bins[:, :1])
    last = pack(variance, elements.count, *[0.0] * (len(edges) - 1))
    return torch.cat([torch.cat([none, bins], dim=1), last[None, :]])
