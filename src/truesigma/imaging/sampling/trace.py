"""Split a network where its randomness begins: what comes before is the same in every Monte-Carlo pass."""

import io
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..network.randomness import guarded_generators, modes, stochastic_modules
from .independence import stay_apart
from .partition import Partition, cut

_KEPT = 8  # traces kept for each network: one for each image shape, type and device


class Untraceable(ValueError):
    """Raised for a network that torch.export cannot follow; sampling then falls back to the plain loop."""

    def __init__(self, reason: str, on: Callable[[nn.Module], bool]) -> None:
        super().__init__(reason)
        self.on = on  # the modules that are in training mode in the plain loop


def partition(net: nn.Module, example: Tensor) -> tuple[nn.Module, nn.Module]:
    """Split a network at its first random operations, with dropout on and everything else as in evaluation.

    Args:
        net: any module; its modes, buffers and parameters stay as they are. Traces are kept as long as the
            network lives, and are made again when a parameter, a submodule or a setting such as a dropout
            rate was replaced. They use the network's own parameters: weights loaded in place are seen.
        example: one batch (case, channel, ...) on the network's device; the number of cases is free later.

    Returns:
        (prefix, rest). `prefix(x)` is deterministic and gives a tuple of tensors; `rest(*prefix(x))` returns
        what the network returns, with new dropout masks from torch's generator at each call.

    Raises:
        ValueError: nothing in the network is random, or (as `Untraceable`) torch.export cannot follow it.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1)).eval()
        >>> prefix, rest = partition(net, torch.zeros(2, 4))
        >>> [tuple(t.shape) for t in prefix(torch.zeros(5, 4))], tuple(rest(*prefix(torch.zeros(5, 4))).shape)
        ([(5, 8)], (5, 1))
    """
    pieces = split(net, example)
    return pieces.prefix, pieces.rest


_Traces = dict[Any, tuple[list[Any], Partition | Untraceable]]
_traces: "weakref.WeakKeyDictionary[nn.Module, _Traces]" = weakref.WeakKeyDictionary()


def split(net: nn.Module, example: Tensor, precision: str = "fp32") -> Partition:
    """Return the kept `Partition` for this network and kind of input, or make one; see `partition`.

    With precision "bf16" the trace runs under autocast, which leaves the casts as operations of the graph.
    """
    key = (tuple(example.shape[1:]), example.dtype, example.device, example.dim_order(), precision)
    traces = _traces.setdefault(net, {})
    seen = _fingerprint(net)
    if key not in traces or traces[key][0] != seen:
        traces.pop(key, None)
        if len(traces) >= _KEPT:
            traces.pop(next(iter(traces)))
        traces[key] = seen, _trace(net, example, precision)
    made = traces[key][1]
    if isinstance(made, Untraceable):
        # a new one: the kept one must not hold a traceback, and so the network
        raise Untraceable(str(made), made.on)
    return made


def _fingerprint(net: nn.Module) -> list[Any]:
    """Collect what a trace depends on. Modules are weak references, since a later one may get the same id."""
    found: list[Any] = []
    for module in net.modules():
        if _only_counts(module):
            continue
        own = {name: value for name, value in vars(module).items() if name not in _TORCHS_OWN}
        settings = [(name, _frozen(value)) for name, value in own.items() if _is_plain(value)]
        hooks = tuple(module._forward_hooks), tuple(module._forward_pre_hooks)
        found.append((weakref.ref(module), settings, hooks))
        tensors = [*module._parameters.values(), *module._buffers.values()]
        tensors += [value for value in own.values() if isinstance(value, Tensor)]
        found += [(id(t), t.dtype, t.device, t.shape, t.stride()) for t in tensors if t is not None]
    return found


def _only_counts(module: nn.Module) -> bool:
    """Whether this is a torchmetrics metric: its counts change at every batch, but no output does."""
    return any(kind.__module__.partition(".")[0] == "torchmetrics" for kind in type(module).__mro__)


_TORCHS_OWN = frozenset(vars(nn.Module()))  # modes, hooks, and what is looked at by name
_SCALARS = (type(None), bool, int, float, str)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(v) for v in value)
    return type(value) in _SCALARS


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list | tuple) else value


def autocast(device: torch.device, precision: str, *, cache: bool = True) -> torch.autocast:
    """Switch on mixed precision for "bf16", and off for "fp32", whatever surrounds the call.

    cache: keep the cast weights from one operation to the next; a captured step must cast them in each replay.
    """
    enabled = precision == "bf16"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled, cache_enabled=cache)


def _trace(net: nn.Module, example: Tensor, precision: str) -> Partition | Untraceable:
    # Two cases: torch.export takes a length of 1 for a constant, and would fix the number of cases.
    probe = torch.cat([example[:1], example[-1:]])
    with torch.no_grad(), guarded_generators(probe.device), autocast(probe.device, precision):
        on = stochastic_modules(net, probe)
        try:
            with modes(net, on), _unspoken(), _no_hook_left():
                cases = ({0: torch.export.Dim.DYNAMIC},)
                program = torch.export.export(net, (probe,), dynamic_shapes=cases, strict=False)
                # without decompositions: only made functional
                traced = program.run_decompositions({}).module()
            pieces = cut(traced, program.call_spec.out_spec)
            with autocast(probe.device, "fp32"):  # the casts are in the graph
                alone = bool(pieces.obstacle) or stay_apart(pieces, probe)
            return (
                pieces
                if alone
                else replace(pieces, obstacle="it relates the cases of a batch to one another")
            )
        except Exception as problem:
            lines = str(problem).strip().splitlines() or [""]
            return Untraceable(f"{type(problem).__name__}: {lines[0]}", on)


@contextmanager
def _unspoken() -> Iterator[None]:
    """Silence what torch.export prints when it cannot follow a network; the reason is in its exception."""
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@contextmanager
def _no_hook_left() -> Iterator[None]:
    """Remove the hook on buffers that torch.export forgets where it fails, as in torch 2.11.

    It would keep the network alive, and refuse every buffer that is assigned to it afterwards.
    """
    hooks = nn.modules.module._global_buffer_registration_hooks
    before = set(hooks)
    try:
        yield
    finally:
        for forgotten in set(hooks) - before:
            del hooks[forgotten]
