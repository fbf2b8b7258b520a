"""A tally of tensors on a GPU as one compiled function: the formulas of the metrics fused into a few kernels.

The operations of the statistics are recorded once for each size of block and handed to `torch.compile`. Histograms stay
outside of it: torch counts them in the memory of each multiprocessor, which a fused kernel would not do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from ..arrays import Host, cell_totals, pack, to_hosts, total
from ..elements import Block, Elements, blocks
from ..law import Law
from ..sums import PIT_CELLS, Statistic, Sum, block_sums, join_sums, pit_index, pit_of
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
        found = join_sums(self._sums(block, plan) for block in blocks(prediction, target, weight))
        return replace(self.empty, sums=found, moment=prediction.law.moment)

    def _sums(self, block: Block, plan: dict[str, Statistic]) -> dict[str, Sum]:
        given = {name: torch.as_tensor(array) for name, array in block.parts.items() if array is not None}
        first = next(iter(given.values()))
        known = (tuple(given), first.shape, first.dtype, first.device, str(block.law.to_dict()))
        keys = [key for key in plan if key not in EAGER]
        if known not in self.functions:
            traced = partial(_fused, law=block.law, names=tuple(given), plan=self._fusible(plan, keys))
            self.functions[known] = torch.compile(make_fx(traced)(*given.values()))
        *sums, index, weight = self.functions[known](*given.values())
        counts = pit_of(
            cell_totals(index, PIT_CELLS + 1, [weight if "weight" in given or "mask" in given else None])[0]
        )
        hosts = dict(zip([*keys, "pit"], to_hosts([*sums, counts])))
        later = {key: plan[key] for key in plan if key not in hosts or not np.isfinite(hosts[key]).all()}
        return {**hosts, **block_sums(block, later)}

    def _fusible(self, plan: dict[str, Statistic], keys: list[str]) -> dict[str, Statistic]:
        """The statistics without histograms: a few bins are sums of comparisons."""
        edges = np.array(self.empty.edges)
        bins = partial(_bins_by_comparison, edges=edges, outputs=self.empty.outputs, error=self.empty.error)
        return {key: bins if key == "variance" else plan[key] for key in keys}


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


def _fused(*arrays: Tensor, law: Law, names: tuple[str, ...], plan: dict[str, Statistic]) -> list[Any]:
    """The sums of the plan, and for the histogram of the PIT the cell and the weight of every element."""
    given = dict(zip(names, arrays))
    every = ("location", "target", "aleatoric", "epistemic", "spread", "weight", "mask")
    block = Block(law, {name: given.get(name) for name in every}, slice(0, len(arrays[0])))
    sums = [statistic(block) for statistic in plan.values()]
    index, weight = pit_index(block.elements)
    return [*sums, index, torch.zeros((), device=index.device) if weight is None else weight]


def _bins_by_comparison(block: Block, *, edges: Host, outputs: Any, error: Any) -> Tensor:
    """What `bin_sums` gives, from sums over all elements at or above each edge."""
    elements: Elements = block.view(outputs)
    variance, errors, weight = elements.variance, elements.error(error), elements.weight
    columns = [torch.ones_like(variance), errors, variance]
    columns = columns if weight is None else [column * weight for column in columns]
    reached = [torch.stack([total(c) for c in columns])]
    for edge in edges[1:-1]:
        above = variance >= torch.tensor(edge, dtype=variance.dtype).item()
        reached.append(torch.stack([total(torch.where(above, c, 0.0)) for c in columns]))
    reached.append(torch.zeros_like(reached[0]))
    whole = torch.stack(reached, dim=1)
    bins = whole[:, :-1] - whole[:, 1:]
    none = torch.zeros_like(bins[:, :1])
    last = pack(variance, elements.count, *[0.0] * (len(edges) - 1))
    return torch.cat([torch.cat([none, bins], dim=1), last[None, :]])
