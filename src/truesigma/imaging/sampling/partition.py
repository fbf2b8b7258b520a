"""Cut a traced network into a deterministic prefix and a random rest.

The graph is functional: nothing is written in place, so "depends on a random operation" is a plain walk along
its edges, and no operation can reach across the cut. Lengths that grow with the number of cases are symbolic,
which shows whether the draws can be folded into the cases.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from ..network.randomness import argument, is_random

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Partition:
    """A network in two pieces: rest(*prefix(x)) is one stochastic pass."""

    prefix: fx.GraphModule
    rest: fx.GraphModule
    batched: tuple[bool, ...]  # which of the tensors handed over have the case as their first axis
    obstacle: str  # why several draws cannot share one pass of the rest; empty if they can
    bytes_per_case: int  # most memory that the rest's tensors need at once
    largest: int  # elements of the rest's largest tensor, per case


def cut(traced: Any, out_spec: Any) -> Partition:
    """Cut one traced network into two modules that share its parameters and buffers."""
    graph = traced.graph
    _simplify(graph)
    source = next(n for n in graph.nodes if n.op == "placeholder")
    cases = source.meta["val"].shape[0].node.expr
    output = next(n for n in graph.nodes if n.op == "output")
    # Left out: the input checks of torch.export, and what would write new values into buffers.
    skipped = ("output", "call_module")
    values = [n for n in graph.nodes if n.op not in skipped and n.target is not aten.copy_.default]

    random_ops = [n for n in values if is_random(n.target, n.args, n.kwargs)]
    if not random_ops:
        raise RuntimeError("the trace lost the random operations that running the network shows")
    stochastic = _with(random_ops, lambda n: n.users)
    # A random operation without effect on the output stays: without it the generator would fall out of step.
    needed = _with([*output.all_input_nodes, *random_ops], lambda n: n.all_input_nodes)
    in_rest = {n for n in values if n in stochastic and n in needed}

    # Only tensors with the case as first axis can be repeated for each draw; others are computed in the rest,
    # and so is what depends on parameters alone.
    from_input = _with([source], lambda n: n.users)
    handed: dict[fx.Node, None] = {}
    waiting = [a for n in (*in_rest, output) for a in n.all_input_nodes]
    while waiting:
        node = waiting.pop()
        if node in in_rest or node in handed:
            continue
        # Room for a mask: nothing to compute, not worth handing over.
        empty = node.op == "call_function" and "empty" in str(node.target)
        if node in from_input and not empty and _can_be_handed(node.meta.get("val"), cases):
            handed[node] = None
        else:
            in_rest.add(node)
            waiting += [] if _is_count(node, cases) else node.all_input_nodes
    if not any(_axis(n.meta["val"], cases) == 0 for n in handed):
        handed[source] = None
    order = [n for n in values if n in handed]
    batched = tuple(_axis(n.meta["val"], cases) == 0 for n in order)

    before = _with(order, lambda n: n.all_input_nodes)
    prefix = _copy(traced, [n for n in values if n in before], [source], tuple(order), cases)
    structure = pytree.tree_unflatten(list(pytree.tree_leaves(output.args)), out_spec)
    inside = [n for n in values if n in in_rest]
    rest = _copy(traced, inside, order, structure, cases)
    tensors = [n for n in rest.graph.nodes if n.op != "get_attr"]
    obstacle = _obstacle(inside, from_input, cases)
    largest = max(elements for n in tensors for elements, _ in _sizes(n))
    return Partition(prefix, rest, batched, obstacle, _peak_bytes(tensors), largest)


def _with(start: list[fx.Node], neighbours: Callable[[fx.Node], Any]) -> set[fx.Node]:
    """Collect the nodes that are reached from some others, including these."""
    reached, waiting = set(start), list(start)
    while waiting:
        new = set(neighbours(waiting.pop())) - reached
        reached |= new
        waiting += new
    return reached


def _simplify(graph: fx.Graph) -> None:
    """Restore the operations people write, if making the graph functional chose others; each cast once."""
    casts = dict[Any, fx.Node]()
    for node in list(graph.nodes):
        if node.target is aten._to_copy.default:
            known = casts.setdefault((node.args, tuple(node.kwargs.items())), node)
            if known is not node:
                node.replace_all_uses_with(known)
                graph.erase_node(node)
                continue
        if node.target in (aten.view.default, aten._unsafe_view.default):
            node.target = aten.reshape.default  # views fail on tensors that kernels laid out differently
        first = [u for u in node.users if u.target is operator.getitem and u.args[1] == 0]
        if len(first) != 1 or len(node.users) != 1:
            continue
        with graph.inserting_before(node):
            if node.target is aten.native_dropout.default:
                new = graph.call_function(aten.dropout.default, (node.args[0], node.args[1], True))
            elif node.target is aten._native_batch_norm_legit_no_training.default:
                x, weight, bias, mean, variance, momentum, eps = node.args
                args = (x, weight, bias, mean, variance, False, momentum, eps, False)
                new = graph.call_function(aten.batch_norm.default, args)
            else:
                continue
        new.meta["val"] = first[0].meta["val"]
        first[0].replace_all_uses_with(new)
        graph.erase_node(first[0])
        graph.erase_node(node)


def _expressions(value: Any) -> list[Any]:
    """The symbolic lengths of a traced tensor's axes, plain integers as they are."""
    return [d.node.expr if isinstance(d, torch.SymInt) else d for d in value.shape]


def _axis(value: Any, cases: Any) -> Any:
    """The axis of a traced value that grows with the number of cases, or None; a list for several values."""
    if isinstance(value, list | tuple):
        return [_axis(v, cases) for v in value]
    if isinstance(value, torch.SymInt):
        return 0 if cases in value.node.expr.free_symbols else None
    if not isinstance(value, Tensor):
        return None
    axes = [
        i for i, e in enumerate(_expressions(value)) if not isinstance(e, int) and cases in e.free_symbols
    ]
    return axes[0] if axes else None


def _can_be_handed(value: Any, cases: Any) -> bool:
    if not isinstance(value, Tensor):
        return False
    first, behind = _expressions(value)[:1], _expressions(value)[1:]
    return all(isinstance(e, int) for e in behind) and all(isinstance(e, int) or e == cases for e in first)


def _is_count(node: fx.Node, cases: Any) -> bool:
    """Whether a node is the number of cases: the rest reads it again, since draws are folded into them."""
    value = node.meta.get("val")
    return node.target is aten.sym_size.int and isinstance(value, torch.SymInt) and value.node.expr == cases


def _copy(
    traced: Any, nodes: list[fx.Node], inputs: list[fx.Node], output: Any, cases: Any
) -> fx.GraphModule:
    """Make a module from some nodes of a graph; it shares the parameters and buffers."""
    graph, new = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in inputs:
        new[node] = graph.placeholder(node.name)
        new[node].meta = {"val": node.meta["val"], "axis": _axis(node.meta["val"], cases)}
    first = next(new[n] for n in inputs if _axis(n.meta["val"], cases) == 0)
    for node in nodes:
        if node in new:
            continue
        if _is_count(node, cases) and node.args[0] not in new:
            new[node] = graph.call_function(aten.sym_size.int, (first, 0))
        else:
            new[node] = graph.node_copy(node, lambda n: new[n])
        value = node.meta.get("val")
        drawn = is_random(node.target, node.args, node.kwargs)
        new[node].meta = {"val": value, "axis": _axis(value, cases), "random": drawn}
    graph.output(fx.map_arg(output, lambda n: new[n]))
    return fx.GraphModule(traced, graph)


def _obstacle(nodes: list[fx.Node], from_input: set[fx.Node], cases: Any) -> str:
    """Say why draws cannot be folded into the cases: an operation relates several cases, or ignores them."""
    for node in nodes:
        value = node.meta.get("val")
        tensors = [v for v in pytree.tree_leaves(value) if isinstance(v, Tensor)]
        alone = any(_axis(v, cases) is None for v in tensors)
        if _has_batch_statistics(node) or (alone and node in from_input):
            return f"{node.target} mixes the cases of a batch"
        if alone and is_random(node.target, node.args, node.kwargs):
            return f"{node.target} draws once for all cases of a batch"
        if _computes_with_count(node, cases):
            return f"{node.target} computes with the number of cases of a batch"
    return ""


def _computes_with_count(node: fx.Node, cases: Any) -> bool:
    """Whether the number of cases is more than a length to an operation: x / len(x)."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    for known, given in zip(node.target._schema.arguments, node.args):
        value = given.meta.get("val") if isinstance(given, fx.Node) else None
        depends = isinstance(value, torch.SymInt | torch.SymFloat) and cases in value.node.expr.free_symbols
        if depends and "int" not in str(known.type):
            return True
    return False


def _has_batch_statistics(node: fx.Node) -> bool:
    name = str(node.target)
    if "batch_norm" not in name or "no_training" in name:
        return False
    return argument(node.target, node.args, node.kwargs, "training", "train") is not False


def _sizes(node: fx.Node) -> list[tuple[int, int]]:
    """Elements per case, and bytes of each, of the tensors a node gives."""
    found = []
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, Tensor):
            one_case = [n if isinstance(n, int) else n.subs(_ones(n)) for n in _expressions(value)]
            found.append((int(math.prod(one_case)), value.element_size()))
    return found


def _ones(expression: Any) -> dict[Any, int]:
    return dict.fromkeys(expression.free_symbols, 1)


def _peak_bytes(nodes: list[fx.Node]) -> int:
    """Compute the most bytes per case held at once, if every tensor is freed after its last use."""
    place = {node: i for i, node in enumerate(nodes)}
    change = [0] * (len(nodes) + 1)
    for node in nodes:
        size = sum(elements * each for elements, each in _sizes(node))
        last = max([place[user] for user in node.users], default=place[node])
        change[place[node]] += size
        change[last + 1] -= size
    return max(accumulate(change))
