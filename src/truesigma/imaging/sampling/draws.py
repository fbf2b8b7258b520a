"""Draw from networks: Monte-Carlo dropout and ensembles."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ...core.checks import check_choice, check_whole
from ...core.law import Law, Normal
from ...core.values import Draws, Prediction
from ..data.batches import bare, images, placing
from ..gpu.optimise import compile_mode
from ..network.outputs import check_law, values, warn_if_clamped
from ..network.randomness import guarded_generators, modes, recording
from .fold import Sampler
from .masks import KINDS
from .moments import Moments, MonteCarloError, joined, prediction_of
from .trace import autocast

Precision = Literal["fp32", "bf16"]
Masks = Literal["common", "independent"]
S = TypeVar("S", "_Kept", Moments)


def dropout_draws(
    net: nn.Module,
    batches: Iterable[Any],
    *,
    draws: int = 25,
    seed: int,
    law: Law = Normal(),
    precision: Precision = "fp32",
    compile: bool | str = False,
    chunk: int | None = None,
    masks: Masks = "common",
) -> Draws:
    """Monte-Carlo dropout: stochastic passes with dropout on and everything else as in evaluation.

    What comes before the first random operation runs once for all draws; the draws of what follows are folded into the
    batch (see `partition`). The network is left as it was: modes, buffers, generators, whatever happens.

    Args:
        net: any module that maps images (case, channel, ...) to (mean, log-variance), each (case, output...); the
            log-variance may have length 1 on the output axes. Under a Laplace law the second output is log b.
        batches: tensors, or tuples and lists led by the image, as a DataLoader gives them; of dicts, take the images
            out: `(batch["image"] for batch in loader)`. Cases stay in the order they come in, so do not shuffle.
        draws: passes for each case.
        seed: of the masks.
        law: Normal(): variance = exp(log-variance). Laplace(): 2 exp(2 log b). Exponents are kept within +-80, and
            a warning says so.
        precision: "fp32" computes in the network's own precision, "bf16" under autocast; results are float32.
        compile: True for torch.compile with batch normalisation folded into the convolutions, which on an NVIDIA card
            cuDNN joins with ReLU; or words as `optimise.prepare` takes them. The first call takes up to a few minutes:
            for a GPU and many batches.
        chunk: draws in one pass of the rest. None: as many as fit the memory.
        masks: "common": draw n drops the same units in every image, so that an image has the same draws in any folder,
            batch, chunk and on any device, and the Monte-Carlo error of the draws is common to all cases.
            "independent": every image has masks of its own, as published; they depend on the batches and the chunk.

    Returns:
        Draws on the host, mean (draw, case, output...) and variance in float32.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.drop, self.mean, self.log_variance = nn.Dropout(0.5), nn.Linear(4, 2), nn.Linear(4, 1)
        ...     def forward(self, x):
        ...         x = self.drop(x)
        ...         return self.mean(x), self.log_variance(x)
        >>> dropout_draws(Net(), torch.zeros(7, 4).split(3), draws=5, seed=0)
        Draws(5 draws, 7 cases x 2, normal)

    Reference: Gal and Ghahramani, 2016; Kendall and Gal, 2017; Laves et al., MELBA 2021, Eq. 10.
    """
    made = _sampled(_Kept, net, batches, draws, seed, law, precision, compile, chunk, masks)
    return _as_draws(list(made), law)


def dropout_moments(
    net: nn.Module,
    batches: Iterable[Any],
    *,
    draws: int = 25,
    seed: int,
    law: Law = Normal(),
    precision: Precision = "fp32",
    compile: bool | str = False,
    chunk: int | None = None,
    masks: Masks = "common",
    note: Callable[[MonteCarloError], None] | None = None,
) -> Prediction:
    """The moments of Monte-Carlo dropout without keeping the draws: memory does not grow with their number.

    location = mean of the draws, epistemic = their variance (ddof 0), aleatoric = mean of their variances.

    Args and the rest as for `dropout_draws`.
        note: is called with the Monte-Carlo error of location and scale.

    Returns:
        Prediction on the host in float32, the same as decompose(dropout_draws(...)).

    Example:
        >>> from truesigma.imaging.network.two_head import TwoHead
        >>> net = TwoHead(nn.Flatten(), 16, 2, dropout=0.5)
        >>> dropout_moments(net, [torch.ones(3, 1, 4, 4)], draws=9, seed=0)
        Prediction(3 cases x 2, normal)

    Reference: Laves et al., MELBA 2021, Eq. 10; Chan, Golub and LeVeque, 1983, Eq. 2.1.
    """
    made = _sampled(Moments, net, batches, draws, seed, law, precision, compile, chunk, masks)
    prediction, error = prediction_of([moments.on_host() for moments in made], law)
    if note is not None:
        note(error)
    return prediction


def ensemble_draws(
    nets: Sequence[nn.Module],
    batches: Iterable[Any],
    *,
    law: Law = Normal(),
    precision: Precision = "fp32",
) -> Draws:
    """One draw from each member of an ensemble, in evaluation mode: dropout is off.

    Args:
        nets: networks as `dropout_draws` takes them, trained separately, in a list or ModuleList. `Draws.concat` joins
            members drawn separately.
        batches, law, precision: as for `dropout_draws`.

    Returns:
        Draws on the host, mean (member, case, output...) and variance in float32.

    Example:
        >>> from truesigma.imaging.network.two_head import TwoHead
        >>> nets = [TwoHead(nn.Flatten(), 16, 2, dropout=0.5) for _ in range(3)]
        >>> ensemble_draws(nets, [torch.ones(4, 1, 4, 4)])
        Draws(3 draws, 4 cases x 2, normal)

    Reference: Lakshminarayanan et al., 2017.
    """
    if isinstance(nets, nn.Module) and not isinstance(nets, nn.ModuleList):
        raise ValueError(
            f"nets is one network, a {type(nets).__name__}; expected a list: [net] for one alone."
        )
    nets = [bare(net) for net in nets]
    if not nets:
        raise ValueError("nets is empty; expected at least one network.")
    check_law(law)
    check_choice("precision", precision, "fp32", "bf16")
    places = [placing(net) for net in nets]
    kept: list[_Kept] = []
    clamped = False
    for number, image in enumerate(images(batches)):
        kept.append(_Kept())
        for member, (net, place) in enumerate(zip(nets, places)):
            batch = place(image)
            with torch.inference_mode(), guarded_generators(batch.device), modes(net, lambda _: False):
                mean, variance, far = values(
                    _evaluate(net, batch, member, number, precision), 1, batch, number, law
                )
            if member and mean.shape[2:] != kept[-1].mean[0].shape[2:]:
                axes = [tuple(shape[2:]) for shape in (kept[-1].mean[0].shape, mean.shape)]
                raise ValueError(
                    f"member 0 has the output axes {axes[0]}, member {member} {axes[1]}; expected the same outputs of "
                    "every member."
                )
            kept[-1].add(mean, variance)
            clamped |= far
    warn_if_clamped(clamped)
    return _as_draws(kept, law)


def _evaluate(net: nn.Module, batch: Tensor, member: int, number: int, precision: str) -> Any:
    """Run one pass; the first batch is watched for dropout that is always on, which would make members random."""
    with autocast(batch.device, precision):
        if number > 0:
            return net(batch)
        with recording(net) as recorder:
            outputs = net(batch)
    if recorder.found:
        names = ", ".join(sorted({type(m).__name__ for m in recorder.modules.values()}))
        raise ValueError(
            f"member {member} draws random numbers in evaluation mode, in {names}; expected dropout that obeys "
            "eval(). Use F.dropout(x, p, self.training) or nn.Dropout."
        )
    return outputs


def _sampled(
    sums: Callable[[], S],
    net: nn.Module,
    batches: Iterable[Any],
    draws: int,
    seed: int,
    law: Law,
    precision: Precision,
    compile: bool | str,
    chunk: int | None,
    masks: Masks,
) -> Iterator[S]:
    """Check the choices, and draw: yields, for each batch, new `sums` with all of its draws added."""
    check_law(law)
    check_choice("precision", precision, "fp32", "bf16")
    check_choice("masks", masks, *KINDS)
    for name, value in (("draws", draws), ("chunk", 1 if chunk is None else chunk)):
        check_whole(name, value, 1)
    check_whole("seed", seed, 0)
    net = bare(net)  # what torch.compile wrapped is split and compiled in our own way here
    mode = compile if isinstance(compile, str) else compile_mode(net) if compile else ""
    sampler, clamped = Sampler(net, precision, mode, chunk, int(seed), masks), False
    for number, image in enumerate(images(batches)):
        batch, made = sampler.place(image), sums()

        def add(count: int, outputs: Any) -> None:
            nonlocal clamped
            mean, variance, far = values(outputs, count, batch, number, law)  # noqa: B023  (called in this turn)
            clamped |= far
            made.add(mean, variance)  # noqa: B023

        sampler.draw(batch, number, draws, add)
        yield made
    warn_if_clamped(clamped)


class _Kept:
    """The draws of one batch, on the host."""

    def __init__(self) -> None:
        self.mean: list[Any] = []
        self.variance: list[Any] = []

    def add(self, mean: Tensor, variance: Tensor) -> None:
        self.mean.append(mean.cpu().numpy())
        self.variance.append(variance.cpu().numpy())


def _as_draws(kept: list[_Kept], law: Law) -> Draws:
    mean = joined([np.concatenate(k.mean) for k in kept], 1)
    return Draws(mean, joined([np.concatenate(k.variance) for k in kept], 1), law=law)
