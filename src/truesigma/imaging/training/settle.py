"""Settle a network whose weights no longer move: its running statistics, and its variances."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..data.dataset import batches
from ..network.losses import predicted_variance
from ..network.outputs import pair
from ..network.randomness import modes
from ..network.two_head import TwoHead
from ..sampling.trace import autocast
from .job import Job, channels_last

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
SMALLEST = 1e-12  # of a mean squared error that a variance is fitted to
# Standard deviations within which 90 % of a law are.
USUAL = {"gaussian": 1.6448536, "laplace": math.log(10) / math.sqrt(2)}


@torch.no_grad()
def settle(job: Job) -> None:
    """Gather the statistics of batch norm anew, and fit one factor for the variances of each output.

    Running statistics are means over the last few batches, of weights that still moved and of varied images: anew they
    are those of the training images, by the weights that are kept. Errors on training cases that a network knows by
    heart say little about new ones: the factors are those of the validation cases.
    """
    _gather(job)
    if isinstance(job.net, TwoHead):
        error, variance = _errors(job)
        job.net.scale_variance(_factors(error, variance, job), job.likelihood)


def _gather(job: Job) -> None:
    """Run the training images through the network once, for the means over all of them."""
    job.net.train()
    norms = [module for module in job.net.modules() if isinstance(module, NORMS) and module.training]
    if not norms:
        return
    usual = [module.momentum for module in norms]
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # every batch counts alike
    job.net.eval()
    for module in norms:
        module.training = True
    for images in _images(job, "train"):
        job.net(images)
    for module, momentum in zip(norms, usual):
        module.momentum = momentum


def _errors(job: Job) -> tuple[Tensor, Tensor]:
    """Squared errors and predicted variances (case, output) of the validation cases, in one pass without dropout."""
    found = []
    with modes(job.net, lambda _: False):
        for images in _images(job, "valid"):
            with autocast(job.device, job.precision, cache=False):
                mean, second = pair(job.net(images))
            found.append((mean.float(), predicted_variance(second, job.likelihood)))
    mean, variance = (torch.cat(parts) for parts in zip(*found))
    target = job.data.splits["valid"].target.to(mean)
    return (mean - target).square(), variance


def _factors(error: Tensor, variance: Tensor, job: Job) -> Tensor:
    """The factor of each variance by which 90 % of the errors are as small as they should be.

    A few cases may have most of the squared error, and a mean of squares would follow them.
    """
    sds = (error / variance).sqrt()
    return (torch.quantile(sds, 0.9, dim=0) / USUAL[job.likelihood]).square().clamp(min=SMALLEST)


def _images(job: Job, split: str) -> Iterator[Tensor]:
    size, prepare = 4 * job.recipe.batch, job.data.prepare
    made = batches(job.data.splits[split], size, prepare=prepare, device=job.device, workers=job.workers)
    return (channels_last(batch.images) for batch in made)
