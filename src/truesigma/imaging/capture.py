"""Work on a GPU as one CUDA graph: launched at once instead of kernel by kernel.

Small batches leave a GPU waiting for launches, and sampling repeats the same work for every batch.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .randomness import guarded_generators

Function = Callable[..., Any]
Recorder = Callable[[Callable[[], Any]], tuple[Any, Callable[[], None]]]

_PLAIN = 2  # calls before the capture: libraries choose their kernels, and few batches are not worth one
_CLOSE = 1e-2  # of the largest value: replays round as the plain call does, but for a kernel chosen anew


def on_gpu(work: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """Capture some work; (its results, which every replay overwrites, and the replay)."""
    graph = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        # A network that begins with dropout has nothing to run before it.
        warnings.filterwarnings("ignore", "The CUDA Graph is empty")
        # Other threads may go on loading data meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            results = work()
    return results, graph.replay


class Captured:
    """A function of tensors on a GPU that is replayed from its third call with the same shapes on.

    Random operations follow torch's generator in a replay too. A capture is used only if it repeats the numbers of
    the plain call; where it does not, or fails, a warning says so and the function goes on being called plainly.
    On other devices it always is.
    """

    def __init__(self, function: Function, record: Recorder | None = None) -> None:
        self.function = function
        self.record = record
        self.calls: dict[Any, int] = {}
        self.replays: dict[Any, Function] = {}
        self.failed = False

    def __call__(self, *inputs: Tensor) -> Any:
        """What the function returns, in tensors of its own."""
        record = self.record or (on_gpu if inputs[0].is_cuda else None)
        if record is None or self.failed:
            return self.function(*inputs)
        kind = tuple((t.shape, t.dtype, t.stride()) for t in inputs)
        if kind in self.replays:
            return self.replays[kind](*inputs)
        self.calls[kind] = self.calls.get(kind, 0) + 1
        if self.calls[kind] > _PLAIN:
            self._capture(record, kind, inputs)
        return self.function(*inputs)

    def _capture(self, record: Recorder, kind: Any, inputs: tuple[Tensor, ...]) -> None:
        device = inputs[0].device
        try:
            with guarded_generators(device):
                replay = _recorded(self.function, record, inputs)
            with guarded_generators(device):
                found = replay(*inputs)
            with guarded_generators(device):
                expected = self.function(*inputs)
            if not _agree(found, expected):
                raise RuntimeError("a replay gives other numbers than the plain call")
            self.replays[kind] = replay
        except RuntimeError as problem:  # running out of memory is one
            self.failed = True
            self.replays.clear()
            reason = (str(problem).strip().splitlines() or [""])[0]
            warnings.warn(f"not captured as a CUDA graph, so the draws run plainly: {reason}", stacklevel=2)


def _recorded(function: Function, record: Recorder, inputs: tuple[Tensor, ...]) -> Function:
    """A function that copies its inputs to where the graph reads them, and its results from where it writes them."""
    held = [t.clone(memory_format=torch.preserve_format) for t in inputs]
    results, replay = record(lambda: function(*held))

    def call(*inputs: Tensor) -> Any:
        for place, value in zip(held, inputs):
            place.copy_(value)
        replay()
        return pytree.tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, results)

    return call


def _agree(found: Any, expected: Any) -> bool:
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    return all(_close(one, other) for one, other in pairs if isinstance(other, Tensor))


def _close(found: Tensor, expected: Tensor) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    both = torch.stack([found.double(), expected.double()])
    largest = both[1].abs().nan_to_num(0.0, 0.0, 0.0).amax() if expected.numel() else 0.0
    return bool(torch.isclose(both[0], both[1], rtol=0.0, atol=float(_CLOSE * largest), equal_nan=True).all())
