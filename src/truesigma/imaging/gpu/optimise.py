"""Make a piece of a network quick to run many times: work on weights alone is done once, not in every pass.

`prepare` hoists what depends on parameters only (the casts of mixed precision, standardised weights). With
`compile`, batch normalisation is first folded into the convolution before it, which makes it work on weights, and
torch.compile joins what remains.
"""

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from ..network.randomness import is_random
from . import conv_relu

aten = torch.ops.aten
_CONVOLUTIONS = (aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)


@dataclass(frozen=True, eq=False)
class Ready:
    """A piece of a network and its hoisted weights."""

    body: fx.GraphModule
    weights: fx.GraphModule | None  # computes what was hoisted from the network's parameters
    call: Callable[..., Any]

    def refresh(self) -> None:
        """Read the network's weights again, in place: they may have been trained or loaded since."""
        if self.weights is not None:
            with torch.no_grad():
                for index, value in enumerate(self.weights()):
                    getattr(self.body, f"hoisted_{index}").copy_(value)


def compile_mode(net: torch.nn.Module) -> str:
    """What `compile=True` means on the network's device; see `prepare`."""
    on_gpu = any(p.is_cuda for p in net.parameters())
    return "cudnn+default" if on_gpu else "default"


def prepare(piece: fx.GraphModule, compile: str = "") -> Ready:
    """A piece with up-to-date weights, ready to be called; kept as long as the piece lives.

    Args:
        piece: the prefix or the rest of a `Partition`.
        compile: "" to leave the operations as they are. Otherwise batch normalisation is folded into convolutions,
            and words joined by "+" say what else: "cudnn" uses cuDNN's convolution with ReLU, any other word is
            a mode of torch.compile, such as "default" or "max-autotune-no-cudagraphs".

    Returns:
        `Ready`; its `call` takes what the piece takes. A compiled piece compiles again for each number of cases.
    """
    # Kept on the piece: in a separate dictionary, what is made from the piece would keep it alive forever.
    kept: dict[str, Ready] = vars(piece).setdefault("_ready", {})
    if compile not in kept:
        source = piece
        modes = [word for word in compile.split("+") if word]
        if compile:
            source = fx.GraphModule(piece, _copy(piece.graph))
            _fold_norms(source.graph)
        if "cudnn" in modes:
            conv_relu.fuse(source.graph)
            modes.remove("cudnn")
        if modes:
            _keep_types(source.graph)
        body, weights = _hoist(source, channels_last=bool(compile))
        call = _compiled(body, modes[0]) if modes else body
        kept[compile] = Ready(body, weights, call)
    kept[compile].refresh()
    return kept[compile]


def _copy(graph: fx.Graph) -> fx.Graph:
    new = fx.Graph()
    new.output(new.graph_copy(graph, {}))
    return new


def _parameters_only(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that depend on parameters, buffers and constants alone."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        fixed = node.op == "call_function" and all(a in found for a in node.all_input_nodes)
        if node.op == "get_attr" or (fixed and not is_random(node.target, node.args, node.kwargs)):
            found.add(node)
    return found


def _hoist(piece: fx.GraphModule, *, channels_last: bool) -> tuple[fx.GraphModule, fx.GraphModule | None]:
    """Take the operations on parameters out of a piece: (what remains, what computes their results)."""
    fixed = _parameters_only(piece.graph)
    # For convolutions in the channels-last layout their weights are hoisted too, to lie in that layout.
    kernels = {n.args[1] for n in piece.graph.nodes if _is_2d(n)} if channels_last else set()
    taken = []
    for node in piece.graph.nodes:
        worth = node in fixed and (node.op != "get_attr" or node in kernels)
        if worth and isinstance(node.meta.get("val"), Tensor) and any(u not in fixed for u in node.users):
            taken.append(node)
    if not taken:
        return piece, None

    graph, new = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in piece.graph.nodes:
        if node in fixed:
            new[node] = graph.node_copy(node, lambda n: new[n])
    graph.output(tuple(new[n] for n in taken))
    graph.eliminate_dead_code()
    weights = fx.GraphModule(piece, graph)

    graph, new = fx.Graph(), {}
    root = torch.nn.Module()
    with torch.no_grad():
        values = weights()
    for node in piece.graph.nodes:
        if node in taken:
            index = taken.index(node)
            layout = torch.channels_last if node in kernels else torch.preserve_format
            root.register_buffer(f"hoisted_{index}", values[index].clone(memory_format=layout))
            new[node] = graph.get_attr(f"hoisted_{index}")
            new[node].meta = dict(node.meta)
        elif node not in fixed:
            if node.op == "output":
                graph.output(fx.map_arg(node.args[0], lambda n: new[n]))
            else:
                new[node] = graph.node_copy(node, lambda n: new[n])
        elif any(u not in fixed for u in node.users):
            name = f"shared_{len(new)}"
            setattr(root, name, operator.attrgetter(str(node.target))(piece))
            new[node] = graph.node_copy(node, lambda n: new[n])
            new[node].target = name
    return fx.GraphModule(root, graph), weights


def _is_2d(node: fx.Node) -> bool:
    return node.target in (aten.conv2d.default, conv_relu.OP)


def _fold_norms(graph: fx.Graph) -> None:
    """Fold batch normalisation in evaluation mode into the convolution before it, as operations on weights.

    gamma (W x + b - m) / sqrt(v + eps) + beta = (f W) x + (b - m) f + beta, with f = gamma / sqrt(v + eps).
    """
    fixed = _parameters_only(graph)
    for node in list(graph.nodes):
        if node.target is not aten.batch_norm.default or node.args[5]:
            continue
        conv, gamma, beta, mean, variance, _, _, eps, *_ = node.args
        if (
            conv.target not in _CONVOLUTIONS
            or len(conv.users) > 1
            or not {mean, variance, conv.args[1]} <= fixed
        ):
            continue
        x, kernel, *behind = conv.args
        bias, behind = (behind[0], behind[1:]) if behind else (None, [])
        dtype, shape = conv.meta["val"].dtype, [-1] + [1] * (kernel.meta["val"].ndim - 1)
        exact = _before_cast(kernel)
        with graph.inserting_before(conv):
            factor = graph.call_function(aten.rsqrt.default, (_call(graph, aten.add.Tensor, variance, eps),))
            factor = factor if gamma is None else _call(graph, aten.mul.Tensor, factor, gamma)
            wide = _call(graph, aten.reshape.default, factor, shape)
            shift = _call(graph, aten.neg.default, mean)
            shift = shift if bias is None else _call(graph, aten.add.Tensor, shift, _before_cast(bias))
            shift = _call(graph, aten.mul.Tensor, shift, factor)
            shift = shift if beta is None else _call(graph, aten.add.Tensor, shift, beta)
            new_kernel = graph.call_function(
                aten._to_copy.default, (_call(graph, aten.mul.Tensor, exact, wide),), {"dtype": dtype}
            )
            new_bias = graph.call_function(aten._to_copy.default, (shift,), {"dtype": dtype})
            new = graph.call_function(conv.target, (x, new_kernel, new_bias, *behind))
        new_kernel.meta["val"] = kernel.meta["val"]
        new_bias.meta["val"] = mean.meta["val"]
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        graph.erase_node(conv)
    graph.eliminate_dead_code()
    graph.lint()


def _keep_types(graph: fx.Graph) -> None:
    """Cast what bernoulli gives to its own type: torch.compile makes it booleans, and what follows float32."""
    for node in list(graph.nodes):
        if node.target is aten.bernoulli.p:
            with graph.inserting_after(node):
                kept = graph.call_function(aten._to_copy.default, (node,), {"dtype": node.meta["val"].dtype})
            kept.meta = dict(node.meta)
            node.replace_all_uses_with(kept, lambda user, kept=kept: user is not kept)


def _call(graph: fx.Graph, target: Any, *args: Any) -> fx.Node:
    return graph.call_function(target, args)


def _before_cast(node: fx.Node) -> fx.Node:
    """The parameter in its own precision: it is scaled first and rounded once."""
    return node.args[0] if node.target is aten._to_copy.default else node  # type: ignore[return-value]


def _compiled(body: fx.GraphModule, mode: str) -> Callable[..., Any]:
    """torch.compile, or the body itself with a warning if no compiler works."""
    compiled = torch.compile(body, dynamic=False, mode=None if mode == "default" else mode)
    works: list[bool] = []

    def call(*inputs: Any) -> Any:
        if works == [False]:
            return body(*inputs)
        try:
            result = compiled(*inputs)
            works[:] = [True]
            return result
        except torch.OutOfMemoryError:
            raise
        except Exception as problem:
            if works:
                raise
            works[:] = [False]
            inner = getattr(problem, "inner_exception", problem)  # torch wraps what its backend raised
            reason = (str(inner).strip().splitlines() or [""])[0]
            warnings.warn(
                f"torch.compile failed ({type(inner).__name__}: {reason}); the draws run without it.",
                stacklevel=2,
            )
            return body(*inputs)

    return call
