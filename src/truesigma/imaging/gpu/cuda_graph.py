"""Work on a GPU as one CUDA graph: launched at once instead of kernel by kernel.

Small batches leave a GPU waiting for launches, and sampling and training repeat the same work for every batch.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..network.randomness import guarded_generators

Function = Callable[..., Any]
Recorder = Callable[[Callable[[], Any]], tuple[Any, Callable[[], None]]]
Waiting = Callable[[Callable[[], Any], torch.device], tuple[bool, Any]]

_PLAIN = 2  # calls before the capture: libraries choose their kernels, and few batches are not worth one
_QUEUE = 0.5  # times the launching time: a GPU that is busy for longer has not waited for launches
_CLOSE = 1e-2  # of the largest value: replays round like the plain call, except if another kernel is chosen


def waits_for_launches(work: Callable[[], Any], device: torch.device) -> tuple[bool, Any]:
    """Whether the GPU has done some work nearly as soon as it is launched; and what the work returns."""
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    results = work()
    launched = time.perf_counter()
    torch.cuda.synchronize(device)
    return time.perf_counter() - launched < _QUEUE * (launched - start), results


def capture(work: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """Capture some work; (its results, which every replay overwrites, and the replay)."""
    graph = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        # A network that begins with dropout has nothing to run before it.
        warnings.filterwarnings("ignore", "The CUDA Graph is empty")
        # Other threads may keep loading data meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            results = work()
    return results, graph.replay


class Captured:
    """A function of tensors on a GPU that is replayed from its third call with the same shapes on.

    If the GPU is busy longer than the launches take, a replay would gain nothing and cost memory: the function is
    still called plainly. Random operations follow torch's generator in a replay, too. A capture is used only if it
    repeats the numbers of the plain call; if it does not, or fails, a warning says so. On other devices nothing is
    captured.
    """

    def __init__(
        self, function: Function, record: Recorder | None = None, waits: Waiting = waits_for_launches
    ) -> None:
        self.function = function
        self.record, self.waits = record, waits
        self.calls: dict[Any, int] = {}
        self.replays: dict[Any, Function] = {}
        self.plainly: set[Any] = set()  # kinds of input that are not worth a capture
        self.failed = False

    def __call__(self, *inputs: Tensor) -> Any:
        """What the function returns, in tensors of its own."""
        record = self.record or (capture if inputs[0].is_cuda else None)
        if record is None or self.failed:
            return self.function(*inputs)
        kind = tuple((t.shape, t.dtype, t.stride()) for t in inputs)
        if kind in self.replays:
            return self.replays[kind](*inputs)
        self.calls[kind] = self.calls.get(kind, 0) + 1
        if self.calls[kind] < _PLAIN or kind in self.plainly:
            return self.function(*inputs)
        if self.calls[kind] > _PLAIN:
            return self._capture(record, kind, inputs)
        waits, results = self.waits(lambda: self.function(*inputs), inputs[0].device)
        if not waits:
            self.plainly.add(kind)
        return results

    def _capture(self, record: Recorder, kind: Any, inputs: tuple[Tensor, ...]) -> Any:
        """The results of a plain call, with which the first replay is compared."""
        device = inputs[0].device
        try:
            with guarded_generators(device):
                replay = _recorded(self.function, record, inputs)
            with guarded_generators(device):
                found = replay(*inputs)
        except RuntimeError as problem:  # running out of memory is one
            self._give_up(str(problem))
            return self.function(*inputs)
        expected = self.function(*inputs)
        if _agree(found, expected):
            self.replays[kind] = replay
        else:
            self._give_up("a replay gives other numbers than the plain call")
        return expected

    def _give_up(self, problem: str) -> None:
        self.failed = True
        self.replays.clear()
        reason = (problem.strip().splitlines() or [""])[0]
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
