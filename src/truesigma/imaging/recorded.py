"""Statistics recorded as operations and cut in two at their sums: those up to the sums are compiled for a GPU.

What follows from the sums is linear in them, as all that adds up is: a matrix, applied on the host. So the compiled
function is a few kernels that read the arrays, and a small one that adds up their rows, for any number of cases.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from ..core.arrays import Host, to_host
from ..core.elements import Block
from ..core.law import Undefined
from ..core.sums import Statistic, Sum, flat

ROW = 1 << 15  # elements, or a few less, whose sum is one of float32; the sum of all rows is one of float64
LONGEST = 2 * ROW  # row within a case, where a single case is longer
SHORTEST = 64  # row within a case that is worth a sum of its own
# Sums of one kernel: with more of them its registers leave a multiprocessor room for a single block of threads.
OPTIONS: dict[str, Any] = {"max_fusion_size": 24}

aten = torch.ops.aten
SHAPED = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)


@dataclass(frozen=True, eq=False)
class Recorded:
    """The statistics of a block in two steps: sums over its elements, and what follows from them.

    `sums` is compiled. It takes arrays (row, element) and gives the sums, |2 u - 1| of each element, and its weight if
    it has one. All numbers of the statistics, in the order of `shapes`, are matrix @ sums + constant * cases; `reasons`
    are why there are no others.
    """

    sums: Callable[..., list[Tensor]]
    matrix: Host
    constant: Host
    shapes: Mapping[str, tuple[int, ...]]
    reasons: Mapping[str, Undefined]

    def statistics(self, sums: Host, cases: int) -> dict[str, Sum]:
        """Each statistic, from the sums over so many cases; NaN where one of its sums overflowed."""
        lost = ~np.isfinite(sums)
        numbers = self.matrix @ np.where(lost, 0.0, sums) + self.constant * cases
        numbers[(self.matrix != 0) @ lost] = np.nan
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        parts = zip(self.shapes.items(), np.split(numbers, ends[:-1]))
        return {**{key: part.reshape(shape) for (key, shape), part in parts}, **self.reasons}


def cases_in_row(block: Block) -> int:
    """How many whole cases a row holds."""
    return max(1, ROW // block.parts["target"].shape[1])


def record(block: Block, plan: Mapping[str, Statistic]) -> Recorded:
    """The statistics of the plan, recorded with a single row of the block: nothing is computed, and no memory taken."""
    cases = cases_in_row(block)
    given = {
        name: torch.as_tensor(a)[:cases].reshape(1, -1) for name, a in block.parts.items() if a is not None
    }
    shapes: dict[str, tuple[int, ...]] = {}
    reasons: dict[str, Undefined] = {}

    def operations(*arrays: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        parts = {name: array.reshape(cases, -1) for name, array in zip(given, arrays)}
        row = Block(block.law, {**block.parts, **parts}, slice(0, cases))
        found: list[Tensor] = []
        for key, statistic in plan.items():
            try:
                found.append(statistic(row))
                shapes[key] = tuple(found[-1].shape)
            except Undefined as reason:
                reasons[key] = reason.with_traceback(None)
        places = flat(row.elements.central, row.elements.weight)
        return found, [place for place in places if place is not None]

    over_elements, of_sums, count = cut(make_fx(operations, tracing_mode="fake")(*given.values()))

    def numbers(sums: Tensor) -> Host:
        return to_host(torch.cat([statistic.reshape(-1) for statistic in of_sums(sums)]))

    constant = numbers(torch.zeros(count, dtype=torch.float64))
    columns = [numbers(unit) - constant for unit in torch.eye(count, dtype=torch.float64)]
    compiled = torch.compile(over_elements, options=OPTIONS)
    return Recorded(compiled, np.stack(columns, axis=1), constant / cases, shapes, reasons)


def cut(module: GraphModule) -> tuple[GraphModule, GraphModule, int]:
    """The recorded operations up to their sums, those from the sums on, for the processor, and the number of sums."""
    graph = module.graph
    *_, output = graph.nodes
    statistics, places = output.args[0]
    # What is added up, by its precision and by how many numbers it is: those of a kind become one array.
    kinds: dict[tuple[torch.dtype, int], dict[Node, None]] = {}
    for node in graph.nodes:
        if node.target in SHAPED:
            # For any number of cases, and however they lie in memory.
            node.target, node.args = aten.reshape.default, (node.args[0], [-1, *node.meta["val"].shape[1:]])
        if node.target is aten.sum.default:
            values = _unshaped(node.args[0])
            within = torch.float64 if values.meta["val"].dtype == torch.float64 else torch.float32
            kinds.setdefault((within, values.meta["val"].numel()), {})[values] = None
    order = {values: place for place, values in enumerate(v for kind in kinds.values() for v in kind)}
    of_sums = _of_sums(graph, statistics, order)
    with graph.inserting_before(output):
        sums = [_sums_by_row(graph, list(kind), *what) for what, kind in kinds.items()]
        # In the shape of the sums' rows, because only what has the same loops becomes the same kernel; and none of them
        # is negative, but a change of shape alone would be left for later.
        row = _row(max(size for _, size in kinds))
        shaped = [graph.call_function(aten.reshape.default, (place, [-1, row])) for place in places]
        shaped = [graph.call_function(aten.abs.default, (place,)) for place in shaped]
        output.args = ([graph.call_function(aten.cat.default, (sums,)), *shaped],)
    graph.eliminate_dead_code()
    module.recompile()
    return module, GraphModule(module, of_sums), len(order)


def _of_sums(graph: Graph, statistics: Sequence[Node], order: Mapping[Node, int]) -> Graph:
    """What the recorded operations make of the sums of these values, given in their order."""
    found = Graph()
    sums = found.placeholder("sums")
    known: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op not in ("placeholder", "output") and all(n in known for n in node.all_input_nodes):
            known[node] = found.node_copy(node, known.__getitem__)
            if "device" in node.kwargs:
                known[node].update_kwarg("device", torch.device("cpu"))
        elif node.target is aten.sum.default:
            known[node] = found.call_function(aten.select.int, (sums, 0, order[_unshaped(node.args[0])]))
    found.output([known[statistic] for statistic in statistics])
    found.eliminate_dead_code()
    return found


def _unshaped(values: Node) -> Node:
    """The values before they only changed their shape: so that the same ones are added up once."""
    while values.target in (*SHAPED, aten.select.int):
        before: Any = values.args[0]
        if before.meta["val"].numel() != values.meta["val"].numel():
            break
        values = before
    return values


def _sums_by_row(graph: Graph, each: Sequence[Node], within: torch.dtype, size: int) -> Node:
    """Sums of each of the values, first within their rows, and those of all rows together, in float64."""
    row = _row(size)
    rows = [graph.call_function(aten.reshape.default, (values, [-1, row])) for values in each]
    sums = [graph.call_function(aten.sum.dim_IntList, (values, [1]), {"dtype": within}) for values in rows]
    together = graph.call_function(aten.stack.default, (sums,))
    return graph.call_function(aten.sum.dim_IntList, (together, [1]), {"dtype": torch.float64})


def _row(size: int) -> int:
    """The longest row of which so many numbers are whole ones; a row of all of them where that is short."""
    longest = next(row for row in range(min(size, LONGEST), 0, -1) if size % row == 0)
    return longest if longest >= SHORTEST else size
