"""One training step: forward, loss, backward, optimiser; plain, or the whole of it as one captured CUDA graph."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from ..network.losses import LIKELIHOODS, LOSSES, predicted_variance
from ..network.outputs import pair
from ..network.two_head import TwoHead
from ..recipe import TrainingRecipe
from ..sampling.cuda_graph import capture
from ..sampling.trace import autocast

__all__ = ["Meter", "Step", "captured", "channels_last", "make_optimizer", "plain", "set_rate"]

Step = Callable[[Tensor, Tensor], None]  # (images, target): updates the weights and the meter

# the paper's loss (Eq. 6) is twice the Gaussian likelihood's; this matters for SGD and with weight decay
OBJECTIVE = {"gaussian": 2.0, "laplace": 1.0}
APART = 10.0  # decay of the weights of a variance head on its own
WARM_UP = 3  # steps before the capture: libraries choose their kernels and the optimiser makes its state


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


def channels_last(images: Tensor) -> Tensor:
    """Images on a GPU with their channels innermost, which its convolutions want; elsewhere as they are."""
    if images.device.type != "cuda" or images.ndim not in (4, 5):
        return images
    layout = torch.channels_last if images.ndim == 4 else torch.channels_last_3d
    return images.contiguous(memory_format=layout)


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


def plain(
    forward: Callable[[Tensor], Any],
    backward: Callable[[Tensor], None],
    optimizer: Optimizer,
    meter: Meter,
    *,
    likelihood: str,
    precision: str,
    loss: str = "nll",
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
        minimised = nll if loss_of is None else loss_of(mean, second, target)
        with torch.no_grad():
            error = (mean.float() - target).square().flatten(1).mean(1)
            variance = predicted_variance(second.detach(), likelihood).flatten(1).mean(1)
            meter.add(nll.detach(), error, variance)
        if images.device.type == "cpu" and int(meter.bad) >= 0:
            return
        backward(OBJECTIVE[likelihood] * minimised.mean())
        optimizer.step()

    return step


def captured(
    step: Step, net: nn.Module, optimizer: Optimizer, meter: Meter, images: Tensor, target: Tensor
) -> Step:
    """The same step as one CUDA graph, replayed on batches of the shape of this example.

    At batch 16 the paper's networks wait for kernel launches most of the time; a graph launches once. The warm-up
    steps leave no trace: weights, buffers and optimiser state are restored. If the capture fails, the plain step is
    returned, with a warning.
    """
    image, label = images.clone(memory_format=torch.preserve_format), target.clone()
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    moments = {
        (p, key): v.clone() for p, s in optimizer.state.items() for key, v in s.items() if v is not None
    }
    tuned = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True  # shapes never change: let cuDNN time its kernels once
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step(image, label)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        # without gradients in place the capture makes its own, which every replay overwrites
        optimizer.zero_grad(set_to_none=True)
        _, again = capture(lambda: step(image, label))
    except RuntimeError as error:
        warnings.warn(
            f"the step could not be captured as a CUDA graph, so it runs plainly: {error}", stacklevel=2
        )
        optimizer.zero_grad(set_to_none=True)
        chosen = step
    else:

        def replay(images: Tensor, target: Tensor) -> None:
            image.copy_(images)
            label.copy_(target)
            again()

        chosen = replay
    finally:
        torch.backends.cudnn.benchmark = tuned
    torch.cuda.synchronize()
    with torch.no_grad():
        for name, value in net.state_dict().items():
            value.copy_(weights[name])
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    saved = moments.get((parameter, key))
                    value.zero_() if saved is None else value.copy_(saved)
    meter.reset()
    return chosen
