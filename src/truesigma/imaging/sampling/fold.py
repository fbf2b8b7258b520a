"""Run the prefix of a network once, and its rest for many draws folded into the cases of one batch."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..data.batches import placing
from ..gpu.cuda_graph import Captured
from ..gpu.optimise import Ready, prepare
from ..network.randomness import draw_seeds, guarded_generators, modes, seed_generators
from .masks import Masked, with_masks
from .partition import Partition
from .trace import Untraceable, autocast, split

_CPU_BYTES = 2**24  # larger passes leave the caches and cost page faults there,
_CPU_CASES = 16  # and smaller ones run through slower kernels
_DEVICE_BYTES = 2**30  # where the memory is not known


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws from a network; keeps what was prepared for each kind of batch."""

    net: nn.Module
    precision: str
    compile: str
    chunk: int | None
    seed: int = 0
    masks: str = "independent"
    prepared: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def place(self) -> Callable[[Tensor], Tensor]:
        """Bring a batch to the network's device."""
        return placing(self.net)

    def draw(self, batch: Tensor, number: int, draws: int, use: Callable[[int, Any], None]) -> None:
        """Call `use(draws, outputs)` with outputs of axes (draw * case, ...) until there are enough draws.

        Common masks depend on the sampler's seed and the draw. Independent ones also depend on the batch's number and
        the chunk, which is seeded by its first draw: with a chunk of 1 they are those of a plain loop that seeds torch
        before each pass.
        """
        device, common = batch.device, self.masks == "common"
        pieces = self._prepare(batch)
        seeds = draw_seeds(self.seed, 0 if common else number, draws)
        with torch.inference_mode(), guarded_generators(device):
            if isinstance(pieces, Untraceable):
                with modes(self.net, pieces.on), autocast(device, self.precision):
                    for seed in seeds:
                        use(1, _one_by_one(self.net, device, seed, [batch], [True], apart=common))
            else:
                with autocast(device, "fp32"), _benchmarking(device, bool(self.compile)):
                    self._fold(*pieces, batch, seeds, use)

    def _prepare(self, batch: Tensor) -> tuple[Partition, Ready, Ready, Masked | None] | Untraceable:
        kind = (batch.shape[1:], batch.dtype, batch.device)
        if kind not in self.prepared:
            try:
                pieces = split(self.net, batch, self.precision)
                # The prefix runs once for all draws: folding its normalisation pays, compiling it does not.
                prefix = prepare(pieces.prefix, "cudnn" if self.compile else "")
                masked = with_masks(pieces.rest, self.seed) if self.masks == "common" else None
                rest = pieces.rest if masked is None else masked.rest
                if self.masks == "common" and masked is None:
                    warnings.warn(
                        f"{type(self.net).__name__} draws random numbers inside fused attention, or the like: one "
                        "image is passed at a time, so that all get the same ones. masks='independent' is faster, and "
                        "depends on what else is in the batch.",
                        stacklevel=5,
                    )
                self.prepared[kind] = pieces, prefix, prepare(rest, self.compile), masked
            except Untraceable as problem:
                warnings.warn(
                    f"torch.export cannot follow {type(self.net).__name__}, so every draw runs the whole network; "
                    f"the draws are right, only slower. Reason: {problem}",
                    stacklevel=5,
                )
                self.prepared[kind] = problem
        return self.prepared[kind]

    def _fold(
        self,
        pieces: Partition,
        prefix: Ready,
        rest: Ready,
        masked: Masked | None,
        batch: Tensor,
        seeds: list[int],
        use: Callable[[int, Any], None],
    ) -> None:
        cases = full = len(batch)
        if self.compile:  # a compiled piece has one size: a smaller batch is filled up with its last case
            full = max(cases, self.prepared.setdefault("cases", cases))
            batch = torch.cat([batch, batch[-1:].expand(full - cases, *batch.shape[1:])])
        size = min(self.chunk or _at_once(pieces, full, batch.device), len(seeds))
        alone = self.masks == "common" and masked is None
        size = 1 if pieces.obstacle or alone else math.ceil(len(seeds) / math.ceil(len(seeds) / size))
        handed = self._captured(prefix, "prefix", prefix.call)(batch)
        done = 0
        while done < len(seeds):
            part = list(range(done, min(done + size, len(seeds))))
            filled = part + part[-1:] * (size - len(part)) if self.compile else part
            try:
                if alone:
                    apart = not pieces.obstacle
                    found = _one_by_one(
                        rest.call, batch.device, seeds[done], handed, pieces.batched, apart=apart
                    )
                else:
                    masks = () if masked is None else masked.masks(filled, batch.device)
                    found = self._one_pass(pieces, rest, handed, [seeds[draw] for draw in filled], masks)
            except torch.OutOfMemoryError:
                if size == 1:
                    raise
                size = math.ceil(size / 2)
                warnings.warn(
                    f"out of memory: continuing with {size} draws at a time. Independent masks depend on that number; "
                    f"chunk={size} gives it from the start.",
                    stacklevel=5,
                )
                continue
            trim = partial(_trim, full=full, draws=len(part), cases=cases)
            use(len(part), pytree.tree_map(trim, found))
            done += len(part)

    def _one_pass(
        self,
        pieces: Partition,
        rest: Ready,
        handed: tuple[Tensor, ...],
        seeds: list[int],
        masks: Sequence[Tensor] = (),
    ) -> Any:
        draws, device = len(seeds), handed[0].device

        def fold(*given: Tensor) -> list[Tensor]:
            # cat keeps the channels-last layout, which a reshape of an expanded tensor would not.
            folded = [
                torch.cat([t] * draws) if many and draws > 1 else t for t, many in zip(given, pieces.batched)
            ]
            return [*folded, *given[len(folded) :]]

        seed_generators(device, seeds[0])
        return self._captured(rest, draws, lambda *given: rest.call(*fold(*given)))(*handed, *masks)

    def _captured(self, piece: Ready, key: Any, function: Callable[..., Any]) -> Captured:
        """Capture a function, for as long as the sampler lives: a capture takes the memory of a whole pass."""
        return self.prepared.setdefault((piece, key), Captured(function))


def _one_by_one(
    function: Callable[..., Any],
    device: torch.device,
    seed: int,
    inputs: Sequence[Tensor],
    batched: Sequence[bool],
    *,
    apart: bool,
) -> Any:
    """Make one draw of a batch; apart: case by case, each from the same seed, so that all get the same numbers."""
    if not apart:
        seed_generators(device, seed)
        return function(*inputs)
    found = []
    for case in range(max(len(t) for t, many in zip(inputs, batched) if many)):
        seed_generators(device, seed)
        found.append(function(*(t[case : case + 1] if many else t for t, many in zip(inputs, batched))))
    return pytree.tree_map(lambda *parts: torch.cat(parts), *found)


def _trim(output: Any, *, full: int, draws: int, cases: int) -> Any:
    """Drop what a smaller batch was filled up with: (draw * case, ...)."""
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) % full:
        return output  # not a value for each case: whoever reads it will say so
    if len(output) == draws * cases:
        return output
    return output.unflatten(0, (-1, full))[:draws, :cases].flatten(0, 1)


def _at_once(pieces: Partition, cases: int, device: torch.device) -> int:
    """Choose the draws per pass from shapes and the device's size; free memory would make chunks vary by chance."""
    if device.type == "cuda":
        room = torch.cuda.get_device_properties(device).total_memory // 3
    else:
        room = _CPU_BYTES if device.type == "cpu" else _DEVICE_BYTES
    fits = room // max(1, pieces.bytes_per_case * cases)
    if device.type == "cpu":
        fits = max(fits, math.ceil(_CPU_CASES / cases))
    # Beyond, kernels fall back to slow 64-bit indices.
    indexed = (2**31 - 1) // max(1, pieces.largest * cases)
    return max(1, min(fits, indexed))


@contextmanager
def _benchmarking(device: torch.device, wanted: bool) -> Iterator[None]:
    """Let cuDNN measure its algorithms; the setting is restored."""
    if device.type != "cuda" or not wanted:
        yield
        return
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
