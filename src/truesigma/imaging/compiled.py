"""A tally of tensors on a GPU by compiled functions: the formulas of the metrics fused into a few kernels.

The histogram of the PIT stays outside of it: torch counts in the memory of each multiprocessor, which a fused kernel
would not do. All blocks are on their way before the first result is waited for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from array_api_compat import device as device_of
from torch import Tensor

from ..core.arrays import Host, namespace, pack, to_host, total
from ..core.elements import Block, Elements, blocks
from ..core.sums import Statistic, Sum, block_sums, factor_sums, join_sums, pit_counts
from ..core.tally import Tally
from ..core.values import Prediction, check_prediction
from .recorded import ROW, Recorded, cases_in_row, record

MANY = 128 * ROW  # elements, from which on a kernel is tuned for many
LARGER = 4  # times the blocks of a tally that is not compiled: of all that it computes, one array is written


@dataclass(frozen=True, eq=False)
class CompiledAdd:
    """Adds predictions of tensors to a tally by compiled functions; made by `compiled_add`."""

    empty: Tally
    functions: dict[Any, Recorded] = field(default_factory=dict)

    def __call__(self, prediction: Prediction, target: Tensor, *, weight: Tensor | None = None) -> Tally:
        """The tally of these cases alone."""
        check_prediction(prediction)
        plan, _ = self.empty._statistics()
        law = str(prediction.law.to_dict())
        each, rest = in_rows(list(blocks(prediction, target, weight, larger=LARGER)))
        functions = [self._function(block, law) for block in each]
        begun = [_begin(block, function) for block, function in zip(each, functions)]
        found = [block_sums(rest, plan)] if rest else []  # while the device is at work
        # One transfer, at which everything is waited for.
        numbers = to_host(torch.stack(begun)) if begun else np.empty((0, 0))
        finite = np.array([np.isfinite(row).all() for row in numbers], dtype=bool)
        for function in dict.fromkeys(functions):
            # Statistics are linear in the sums, so that these are added up first.
            some = [i for i, one in enumerate(functions) if one is function and finite[i]]
            if some:
                cases = sum(_count(each[i]) for i in some)
                found.append(_statistics(function, numbers[some].sum(axis=0), cases))
        for i in np.flatnonzero(~finite):
            new = _statistics(functions[i], numbers[i], _count(each[i]))
            # What overflows float32 is summed again, as the tally itself does it.
            lost = {key: plan[key] for key in functions[i].shapes if not np.isfinite(new[key]).all()}
            found.append({**new, **block_sums(each[i], lost)})
        return replace(self.empty, sums=join_sums(found), moment=prediction.law.moment)

    def _function(self, block: Block, law: str) -> Recorded:
        """The recorded statistics of blocks of this kind, with any number of cases."""
        given = [(name, a.shape[1], a.dtype) for name, a in block.parts.items() if a is not None]
        # A kernel is tuned for the size that it is first compiled for.
        many = _count(block) * given[0][1] >= MANY
        known = law, many, device_of(block.parts["target"]), *given
        if known not in self.functions:
            self.functions[known] = record(block, self._fusible())
        return self.functions[known]

    def _fusible(self) -> dict[str, Statistic]:
        """The statistics without the histogram of the PIT, and such as need not look at numbers to record them."""
        plan, _ = self.empty._statistics()
        outputs = self.empty.outputs
        bins = partial(
            _bins_by_comparison, edges=np.array(self.empty.edges), outputs=outputs, error=self.empty.error
        )
        aleatoric = partial(_aleatoric_factor, checked=plan["factor aleatoric"], outputs=outputs)
        own: dict[str, Statistic] = {"variance": bins, "factor aleatoric": aleatoric}
        return {key: own.get(key, statistic) for key, statistic in plan.items() if key != "pit"}


def compiled_add(empty: Tally) -> CompiledAdd:
    """A function that gives the tally of a prediction and its targets, compiled when it first sees their kind.

    For 1e9 elements and more on a GPU: compiling takes seconds, once for any number of cases. The tally needs its edges
    given.

    Args:
        empty: a tally of nothing, `Tally.empty(edges=...)`.

    Returns:
        A function of (prediction, target, weight=None), whose tallies merge with those of `Tally.add`.

    Example:
        >>> add = compiled_add(Tally.empty(edges=[0.0, 1.0, 2.0]))
        >>> few = torch.ones(3)  # less than a row: nothing is compiled
        >>> add(Prediction(few, few), few + 2).summary()["mse"]
        4.0
    """
    if not isinstance(empty, Tally) or empty.sums:
        raise ValueError(f"the tally is {empty!r}; expected one of nothing, Tally.empty(edges=...).")
    if empty.edges is None:
        raise ValueError("a compiled tally needs its edges; give them, as Tally.empty(edges=...).")
    if empty.by_output:
        raise ValueError("a compiled tally has no factors of each output; use Tally.add, or by_output=False.")
    return CompiledAdd(empty)


def in_rows(each: Sequence[Block]) -> tuple[list[Block], Block | None]:
    """The blocks cut to whole rows, and what is left of all of them: less than a row, on the host."""
    step = cases_in_row(each[0])
    whole = [_part(block, slice(_count(block) // step * step)) for block in each]
    left = [_part(block, slice(_count(some), None)) for block, some in zip(each, whole)]
    joined = {
        name: None if array is None else namespace(array).concat([block.parts[name] for block in left])
        for name, array in left[0].parts.items()
    }
    rest = Block(each[0].law, joined, slice(0, sum(map(_count, left))))
    end = _count(rest) // step * step
    whole.append(_part(rest, slice(end)))
    rest = _part(rest, slice(end, None))
    on_host = {name: None if array is None else to_host(array) for name, array in rest.parts.items()}
    return [block for block in whole if _count(block)], replace(rest, parts=on_host) if _count(rest) else None


def _part(block: Block, cases: slice) -> Block:
    parts = {name: None if array is None else array[cases] for name, array in block.parts.items()}
    return Block(block.law, parts, slice(*cases.indices(_count(block))))


def _count(block: Block) -> int:
    return len(block.parts["target"])


def _begin(block: Block, function: Recorded) -> Tensor:
    """The sums of a block and the counts of its PIT, on the device and perhaps not yet there."""
    rows = _count(block) // cases_in_row(block)
    given = [torch.as_tensor(array).reshape(rows, -1) for array in block.parts.values() if array is not None]
    for array in given:
        torch._dynamo.maybe_mark_dynamic(array, 0)  # one kernel for any number of rows
    sums, central, *weight = function.sums(*given)
    counts = pit_counts(central.reshape(-1), weight[0].reshape(-1) if weight else None)
    return torch.cat([sums, counts])


def _statistics(function: Recorded, numbers: Host, cases: int) -> dict[str, Sum]:
    """Each statistic of so many cases, from their sums and the counts of their PIT."""
    sums, pit = np.split(numbers, [function.matrix.shape[1]])
    return {"pit": pit, **function.statistics(sums, cases)}


def _bins_by_comparison(block: Block, *, edges: Host, outputs: Any, error: Any) -> Tensor:
    """What `bin_sums` gives, from the products of each column with 1 in the bin and 0 elsewhere."""
    elements: Elements = block.view(outputs)
    variance, errors, weight = elements.variance, elements.error(error), elements.weight
    known = edges.astype(np.float32 if variance.dtype == torch.float32 else np.float64)
    above = [
        torch.ones_like(variance),
        *((variance >= float(edge)).to(variance.dtype) for edge in known[1:-1]),
    ]
    within = [*(low - high for low, high in pairwise(above)), above[-1]]
    share = within if weight is None else [part * weight for part in within]
    columns = [share, [part * errors for part in share], [part * variance for part in share]]
    bins = [pack(variance, 0.0, *map(total, column)) for column in columns]
    return torch.stack([*bins, pack(variance, elements.count, *[0.0] * (len(edges) - 1))])


def _aleatoric_factor(block: Block, *, checked: Statistic, outputs: Any) -> Tensor:
    """What `checked` gives, unchecked: an aleatoric variance of 0 makes it infinite, and `checked` has its turn."""
    if block.parts["epistemic"] is None:
        return checked(block)  # which says why there is none
    alone = Block(block.law, {**block.parts, "epistemic": None}, block.rows)
    return factor_sums(alone, outputs=outputs, error="mean", part="total")
