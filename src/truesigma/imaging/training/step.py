"""One training step: forward, loss, backward, optimiser; and what it counts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from ..data.dataset import batches
from ..gpu.captured_step import Step, captured
from ..gpu.faster import faster
from ..network.losses import LIKELIHOODS, LOSSES, predicted_variance
from ..network.outputs import pair
from ..network.two_head import TwoHead, rooted
from ..recipe import TrainingRecipe
from ..sampling.trace import autocast
from .devices import Alone
from .job import Job, channels_last

# the paper's loss (Eq. 6) is twice the Gaussian likelihood's; this matters for SGD and with weight decay
OBJECTIVE = {"gaussian": 2.0, "laplace": 1.0}
WORTH_IT = 5000  # steps above which the faster one, 3 to 8 ms quicker, pays for compiling its kernels first
APART = 10.0  # decay of the weights of a variance head on its own


class Meter:
    """Sums over an epoch that stay on the device: reading them would stop the device at every step."""

    def __init__(self, device: torch.device) -> None:
        """Start at zero."""
        kind = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(4, dtype=kind, device=device)  # cases, loss, squared error, variance
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        # The first step whose loss is not finite.
        self.bad = torch.full((), -1, dtype=torch.int64, device=device)

    def add(self, loss: Tensor, error: Tensor, variance: Tensor) -> None:
        """Count one batch: loss, squared error and variance, one value per case each."""
        batch = torch.stack([torch.ones_like(loss), loss, error, variance]).sum(1)
        self.sums += batch.to(self.sums.dtype)
        first = (self.bad < 0) & ~torch.isfinite(batch[1])
        self.bad.copy_(torch.where(first, self.step, self.bad))
        self.step += 1

    def reset(self) -> None:
        """Back to zero, in place."""
        self.sums.zero_()
        self.step.zero_()
        self.bad.fill_(-1)


def make_optimizer(net: nn.Module, recipe: TrainingRecipe, device: torch.device) -> Optimizer:
    """The recipe's optimiser; on a GPU fused, with the rate as a tensor so that a captured step sees it change."""
    on_gpu = device.type == "cuda"
    parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
    rate = torch.tensor(recipe.learning_rate, device=device) if on_gpu else recipe.learning_rate
    fused = True if on_gpu else None
    if recipe.optimizer == "adamw":
        # Decay is for what multiplies an input; shrinking a bias or the scale of a norm only shifts the function.
        held = {p: recipe.weight_decay if p.ndim > 1 else 0.0 for p in parameters}
        if isinstance(net, TwoHead) and net.detached:
            # Errors say little about a variance, and nothing in cases learned by heart: the head departs from one
            # variance for all cases only as far as errors keep demanding it.
            held |= {p: APART for p in net.log_variance.parameters() if p.ndim > 1}
        groups = [
            {"params": [p for p in parameters if held[p] == decay], "weight_decay": decay}
            for decay in dict.fromkeys(held.values())
        ]
        return AdamW(groups, lr=rate, fused=fused, capturable=on_gpu)
    if recipe.optimizer == "adam":
        return Adam(parameters, lr=rate, weight_decay=recipe.weight_decay, fused=fused, capturable=on_gpu)
    return SGD(parameters, lr=rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, fused=fused)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate, in place if it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


@dataclass(frozen=True)
class Stepping:
    """How an epoch steps: by which step, and whether it takes full batches only.

    fast: with fused kernels, which validation then uses, too.
    """

    step: Step
    full: bool = False
    fast: bool = False


def make_step(job: Job, optimizer: Optimizer, meter: Meter, *, graph: str, steps: int) -> Stepping:
    """The step of a training; on one GPU, unless graph is "off", as a captured graph.

    steps: how many there will be at most: in a long training fused kernels pay.
    """
    net, processes = job.net, job.processes

    def plainly(forward: Callable[[Tensor], Any], backward: Any, optimizer: Any) -> Step:
        return plain(
            forward,
            backward,
            optimizer,
            meter,
            likelihood=job.likelihood,
            precision=job.precision,
            loss=job.recipe.loss,
            link=getattr(net, "link", ""),
        )

    if not isinstance(processes, Alone):
        module, wrapped = processes.setup(net, optimizer)
        return Stepping(plainly(module, processes.backward, wrapped))
    if graph == "off" or job.device.type != "cuda":
        return Stepping(plainly(net, Tensor.backward, optimizer))
    first = next(batches(job.train, job.size, prepare=job.data.prepare, device=job.device))
    images, target = channels_last(first.images), first.target
    net.train()
    if steps >= WORTH_IT:
        quick = faster(plainly, net, optimizer, images, target, meter.reset, precision=job.precision)
        if quick is not None:
            return Stepping(quick, full=True, fast=True)
    step = plainly(net, Tensor.backward, optimizer)
    replayed = captured(step, net, optimizer, images, target, meter.reset)
    return Stepping(replayed, full=replayed is not step)


def plain(
    forward: Callable[[Tensor], Any],
    backward: Callable[[Tensor], None],
    optimizer: Optimizer,
    meter: Meter,
    *,
    likelihood: str,
    precision: str,
    loss: str = "nll",
    link: str = "",
) -> Step:
    """The step as ordinary calls.

    forward: the network. backward: of the loss. On the processor a loss that is not finite skips the update, so
    that the weights stay good; elsewhere looking would cost more than the step, and the meter notes it.
    """
    likelihood_of, loss_of = LIKELIHOODS[likelihood], LOSSES.get(loss)

    def step(images: Tensor, target: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with autocast(images.device, precision, cache=False):
            mean, second = pair(forward(images))
        nll = likelihood_of(mean, second, target)
        seen = rooted(mean, second, target) if link else (mean, second, target)
        minimised = (loss_of or likelihood_of)(*seen) if link or loss_of else nll
        with torch.no_grad():
            error = (mean.float() - target).square().flatten(1).mean(1)
            variance = predicted_variance(second.detach(), likelihood).flatten(1).mean(1)
            meter.add(nll.detach(), error, variance)
        if images.device.type == "cpu" and int(meter.bad) >= 0:
            return
        backward(OBJECTIVE[likelihood] * minimised.mean())
        optimizer.step()

    return step
