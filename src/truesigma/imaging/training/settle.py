"""Settle a network whose weights no longer move: its running statistics, and its variances."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core.arrays import Host
from ..data.dataset import batches
from ..network.losses import predicted_variance
from ..network.outputs import pair
from ..network.randomness import modes
from ..network.two_head import TwoHead
from ..sampling.trace import autocast
from .job import Job, channels_last

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
SMALLEST = 1e-12  # of a squared error that a variance is fitted to
SMALL = 0.01  # of an absolute error over their mean: smaller ones are taken for that
MOST = 6.0  # sizes that an error counts for
STEPS, CLOSE = 30, 1e-4  # of scoring at most, and how small the last one is
FOLDS = 5  # of validation patients, by which a penalty is chosen
PENALTIES = (*np.logspace(0, 6, 13), math.inf)
SURE = 2.0  # standard errors of a gain that is believed
BEYOND = math.log(2)  # sigma is at most twice as large, or small, as for any validation case
# Standard deviations within which 90 % of a law are.
USUAL = {"gaussian": 1.6448536, "laplace": math.log(10) / math.sqrt(2)}


@torch.no_grad()
def settle(job: Job) -> None:
    """Gather the statistics of batch norm anew, and fit the variances to errors that were not trained on.

    Running statistics are means over the last few batches, of weights that still moved and of varied images: anew they
    are those of the training images, by the weights that are kept. Errors on training cases that a network knows by
    heart say little about new ones: what a variance depends on, and its factor for each output, are learned from the
    validation cases.
    """
    _gather(job)
    net = job.net
    if not isinstance(net, TwoHead):
        return
    if net.detached:
        net.follow(np.zeros(1), np.zeros(1))
    seen = _validation(job)
    logs = seen.logs
    if net.detached:
        left = np.sqrt(seen.errors / np.exp(logs))
        if logs.shape[1] == 1:  # one for all outputs
            left = left.mean(axis=1, keepdims=True)
        told, weight, bias = learned(seen.evidence, left, seen.patient)
        said = seen.evidence @ weight.T + bias
        parts = weight, bias, said.min(axis=0) - BEYOND, said.max(axis=0) + BEYOND
        net.follow(*(2 * part if job.likelihood == "gaussian" else part for part in parts))
        logs = logs + 2 * told
    net.scale_variance(_factors(seen.errors, np.exp(logs), job), job.likelihood)


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


class Seen(NamedTuple):
    """What one pass without dropout says of the validation cases, in float64.

    evidence: what the last layer of the second head sees, (case, sign). errors: squared, (case, output). logs: of the
    predicted variances, likewise, or (case, 1). patient: the number of each case's.
    """

    evidence: Host
    errors: Host
    logs: Host
    patient: Host


def _validation(job: Job) -> Seen:
    net, split = job.net, job.data.splits["valid"]
    assert isinstance(net, TwoHead)
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    with modes(net, lambda _: False):
        for images in _images(job, "valid"):
            with autocast(job.device, job.precision, cache=False):
                shared = net.shared(images)
                mean, second = pair(net.drawn(*shared))
                evidence = net.evidence(*shared)
            found.append((evidence, mean, predicted_variance(second, job.likelihood).log()))
    signs, means, spreads = (torch.cat(parts).double().cpu().numpy() for parts in zip(*found))
    errors = np.square(means - split.target.double().cpu().numpy()).clip(SMALLEST)
    return Seen(signs, errors, spreads, split.owners)


def learned(evidence: Host, errors: Host, patient: Host) -> tuple[Host, Host, Host]:
    """What the size of errors depends on, where the errors of other patients prove that it does.

    Logarithms of sizes are linear in the signs: slopes that all outputs have in common come first, then what each of
    them has besides.

    Args:
        evidence: (case, sign). errors: (case, output), absolute. patient: (case,), its number.

    Returns:
        The logarithms of sizes as they are predicted from other patients, slopes (output, sign), constants (output,).

    >>> rng = np.random.default_rng(0)
    >>> signs = rng.normal(size=(400, 2))
    >>> slopes = learned(signs, np.abs(np.exp(signs[:, :1]) * rng.normal(size=(400, 1))), np.arange(400))[1]
    >>> slopes.round(1)
    array([[1., 0.]])
    """
    errors = errors / errors.mean(axis=0)
    errors = errors.clip(SMALL)  # an error of nothing would be a size of nothing
    told, weight, bias = _sizes(evidence, errors.mean(axis=1, keepdims=True), patient)
    if errors.shape[1] > 1:
        besides = _sizes(evidence, errors / np.exp(told), patient)
        told, weight, bias = (a + b for a, b in zip((told, weight, bias), besides))
    return told, weight, bias


def _sizes(x: Host, y: Host, patient: Host) -> tuple[Host, Host, Host]:
    """Slopes for each column of y, their penalty chosen by folds of patients; none without a proven gain."""
    place = np.random.default_rng(0).permutation(patient.max() + 1)[patient] % FOLDS
    told = np.zeros((len(PENALTIES), *y.shape))
    for fold in np.unique(place):
        rest, own = place != fold, place == fold
        for number, (weight, bias) in enumerate(log_linear(x[rest], y[rest]) if rest.any() else ()):
            told[number, own] = x[own] @ weight.T + bias
    loss = told + y * np.exp(-told)
    gain = loss[-1] - loss  # over the constant, which an infinite penalty is
    best = gain.mean(axis=1).argmax(axis=0)
    chosen = np.take_along_axis(gain, best[None, None], axis=0)[0]
    by_patient = np.stack([np.bincount(patient, column) for column in chosen.T], axis=1)
    proven = by_patient.sum(axis=0) > SURE * np.sqrt(np.square(by_patient).sum(axis=0))
    best = np.where(proven, best, len(PENALTIES) - 1)
    whole = log_linear(x, y)
    weight, bias = (np.stack([whole[k][part][j] for j, k in enumerate(best)]) for part in (0, 1))
    told = np.take_along_axis(told, best[None, None], axis=0)[0]
    for j in np.flatnonzero(
        proven
    ):  # a penalty makes slopes too small; how much, those tell who were not fitted to
        ((stretch, constant),) = log_linear(told[:, [j]], y[:, [j]], (0.0,))
        told[:, j] = stretch.item() * told[:, j] + constant
        weight[j], bias[j] = stretch.item() * weight[j], stretch.item() * bias[j] + constant.item()
    return told, weight, bias


def log_linear(x: Host, y: Host, penalties: Sequence[float] = PENALTIES) -> list[tuple[Host, Host]]:
    """Slopes (column, sign) and constants (column,) of the logarithms of the means of y, by penalty.

    They minimise the sum of m + y exp(-m), half the gamma deviance, plus half the penalty times the squared slopes for
    signs of unit variance. For absolute errors this is twice as efficient as least squares of their logarithms, which
    the smallest errors carry. Each step of the scoring is a ridge, and one decomposition serves all.
    """
    mean, sd = x.mean(axis=0), x.std(axis=0) + SMALLEST
    left, size, right = np.linalg.svd((x - mean) / sd, full_matrices=False)
    size = size.clip(SMALLEST)
    along, middle = np.zeros((len(size), y.shape[1])), np.log(y.mean(axis=0))
    found = []
    for penalty in sorted(
        penalties, reverse=True
    ):  # from the stiffest on, each begins where the last one ended
        share = size**2 / (size**2 + penalty)
        for _ in range(STEPS):
            step = np.minimum(y * np.exp(-left @ along - middle), MOST) - 1
            middle, before = middle + step.mean(axis=0), along
            along = share[:, None] * (along + left.T @ (step - step.mean(axis=0)))
            if np.abs(along - before).max(initial=0) < CLOSE and np.abs(step.mean(axis=0)).max() < CLOSE:
                break
        weight = ((along / size[:, None]).T @ right) / sd
        found.append((weight, middle - weight @ mean))
    return found[::-1]


def _factors(errors: Host, variance: Host, job: Job) -> Tensor:
    """The factor of each variance by which 90 % of the errors are as small as they should be.

    A few cases may have most of the squared error, and a mean of squares would follow them.
    """
    sds = np.quantile(np.sqrt(errors / variance), 0.9, axis=0) / USUAL[job.likelihood]
    return torch.from_numpy(np.square(sds).clip(SMALLEST)).to(job.device, torch.float32)


def _images(job: Job, split: str) -> Iterator[Tensor]:
    size, prepare = 4 * job.recipe.batch, job.data.prepare
    made = batches(job.data.splits[split], size, prepare=prepare, device=job.device, workers=job.workers)
    return (channels_last(batch.images) for batch in made)
