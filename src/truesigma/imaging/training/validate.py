"""How good a network is on a split, as it is sampled: with dropout; and in one pass without.

The two can be far apart. Batch norm has only seen features with dropout, and without it they differ, the more so the
more layers of dropout come before a batch norm (Li et al., CVPR 2019).
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..data.dataset import batches
from ..gpu.faster import fused
from ..network.losses import LIKELIHOODS, predicted_variance
from ..network.outputs import pair
from ..network.randomness import NotRandom, guarded_generators, modes, seed_generators, stochastic_modules
from ..network.two_head import TwoHead
from ..sampling.trace import autocast
from .job import Job, channels_last, seed_of

Choice = Callable[[nn.Module], bool]  # of modules, as `modes` takes it
SHIFTED = 2.0  # times the error with dropout, above which the error without it is worth a warning


class NonFinite(ValueError):
    """A loss or prediction that is not a finite number, with the cases it came from."""


def case_scores(draws: Sequence[tuple[Tensor, Tensor]], target: Tensor, likelihood: str) -> Tensor:
    """Loss, two squared errors, variance and recalibration term of each case, averaged over its outputs.

    Loss and variance are means over the draws. One draw has its squared error. Two err independently around their mean,
    so that the product of their residuals is, on average, the squared error of the mean of many. The term is e / v for
    Gaussian and |y - mu| / b for Laplace, mu being the mean of the two; its mean over cases is the squared factor, or
    the factor, of the aleatoric part (`definitions` 3). The other error, last, is that of the mean of the two: the
    product and a quarter of their squared difference. It is larger on average, and never below 0. The first of the two
    errors follows for each output apart.
    draws: one or two pairs of mean (case, output) and log-variance or log b. target: (case, output). Returns
    (5 + output, case).

    >>> zero, three = torch.zeros(1, 1), torch.full((1, 1), 3.0)
    >>> case_scores([(zero, zero)], three, "gaussian")[1:].flatten()
    tensor([9., 1., 9., 9., 9.])
    >>> case_scores([(zero, zero), (2 * three, zero)], three, "gaussian")[1:].flatten()
    tensor([-9.,  1., -9.,  0., -9.])
    """
    loss = torch.stack([LIKELIHOODS[likelihood](mean, second, target) for mean, second in draws]).mean(0)
    residuals = [mean.float() - target.float() for mean, _ in draws]
    error, middle = residuals[0] * residuals[-1], torch.stack(residuals).mean(0)
    variance = torch.stack([predicted_variance(second, likelihood) for _, second in draws]).mean(0)
    if likelihood == "gaussian":
        term = error / variance
    else:
        term = middle.abs() / (variance / 2).sqrt()
    averaged = [value.flatten(1).mean(1) for value in (error, variance, term, middle.square())]
    return torch.cat([torch.stack([loss, *averaged]), error.flatten(1).T])


@torch.no_grad()
def random_parts(job: Job) -> Choice | None:
    """The modules that are random, as `modes` takes them; None if none is or, with a warning, none can be sampled."""
    split = job.data.splits["valid"]
    image = next(batches(split, 2, prepare=job.data.prepare, device=job.device)).images
    two = channels_last(torch.cat([image[:1], image[-1:]]))
    try:
        with guarded_generators(job.device), autocast(job.device, job.precision, cache=False):
            return stochastic_modules(job.net, two)
    except NotRandom:
        return None
    except ValueError as problem:
        warnings.warn(f"validation is without dropout, and draws will fail: {problem}", stacklevel=3)
        return None


@torch.no_grad()
def validate(job: Job, name: str, *, on: Choice | None = None, fast: bool = False) -> Tensor:
    """Sums over the cases of a split, shared out over the processes: count, and what `case_scores` gives.

    Running batch statistics, and two draws with these modules `on`, the same in every epoch: what changes is the
    network. None: one pass without dropout. fast: with fused kernels, as `faster` trains.
    Returns a float64 tensor (6 + output,) on the host.
    """
    net, split, device, rank = job.net, job.data.splits[name], job.device, job.processes.global_rank
    size = (16 if device.type == "cuda" else 4) * job.recipe.batch
    order = torch.arange(rank, len(split), job.processes.world_size)
    parts: list[Tensor] = []
    with guarded_generators(device), modes(net, on or (lambda _: False)), _kernels(net, size, fast):
        seed_generators(device, seed_of(job.seed, rank))
        made = batches(split, size, order=order, prepare=job.data.prepare, device=device, workers=job.workers)
        for batch in made:
            images = channels_last(batch.images)
            with autocast(device, job.precision, cache=False):
                draws = _draws(net, images, on)
            parts.append(case_scores(draws, batch.target, job.likelihood))
    if not parts:
        return torch.zeros(6 + job.data.outputs, dtype=torch.float64)
    scores = torch.cat(parts, 1).cpu().double()
    wrong = ~torch.isfinite(scores).all(0)
    if bool(wrong.any()):
        names = [split.name[int(i)] for i in order[wrong][:10]]
        raise NonFinite(
            f"{int(wrong.sum())} of {len(order)} cases have a prediction that is not finite: {', '.join(names)}. "
            "Look at these images, or lower the learning rate"
        )
    return torch.cat([torch.tensor([float(scores.shape[1])], dtype=torch.float64), scores.sum(1)])


def _draws(net: nn.Module, images: Tensor, on: Choice | None) -> list[tuple[Tensor, Tensor]]:
    """One pass, or two with random modules on; what comes before the first random module is computed once."""
    if on is None:
        return [pair(net(images))]
    if isinstance(net, TwoHead) and not any(map(on, net.backbone.modules())):
        features, beside = net.shared(images)
        return [net.drawn(features, beside) for _ in range(2)]
    return [pair(net(images)) for _ in range(2)]


def _kernels(net: nn.Module, size: int, fast: bool) -> AbstractContextManager[object]:
    if not fast:
        return nullcontext()
    from ..gpu import kernels

    return fused(net, kernels, size, training=False)


def means(train: Tensor, scores: Mapping[str, Tensor], likelihood: str) -> dict[str, Any]:
    """The numbers of a history row: means over the cases, and the factor that would recalibrate the variances.

    train: cases, loss, squared error, variance. scores: what `validate` gave for "valid", "test" and "one pass", the
    validation split without dropout; what was not measured is None.

    >>> row = means(torch.ones(4), {"valid": torch.tensor([2.0, 1.0, 4.0, 2.0, 8.0, 6.0])}, "gaussian")
    >>> row["valid_mse"], row["valid_mse_two_draws"], row["valid_mse_one_pass"], row["valid_factor"], row["test_mse"]
    (2.0, 3.0, None, 2.0, None)
    """
    row: dict[str, float] = {}
    cases, *sums = train.tolist()
    row |= {f"train_{name}": total / cases for name, total in zip(("loss", "mse", "variance"), sums)}
    for split in ("valid", "test"):
        cases, *sums = scores[split].tolist() if split in scores else (1.0, *(math.nan,) * 5)
        loss, mse, variance, term, of_two, *each = (total / cases for total in sums)
        # The product of two residuals can be below 0, in the mean over very few cases too.
        factor = math.sqrt(max(0.0, term)) if likelihood == "gaussian" else term
        row |= {
            f"{split}_loss": loss,
            f"{split}_mse": mse,
            f"{split}_variance": variance,
            f"{split}_factor": factor,
        }
        if split == "valid":
            row["valid_mse_two_draws"], by_output = of_two, each
    one_pass = scores.get("one pass")
    row["valid_mse_one_pass"] = math.nan if one_pass is None else float(one_pass[2] / one_pass[0])
    row["test_variance_scaled"] = row["valid_factor"] ** 2 * row["test_variance"]
    known = {name: None if math.isnan(value) else value for name, value in row.items()}
    return {**known, "valid_mse_by_output": by_output}


def warn_of_shift(row: Mapping[str, float]) -> None:
    """Warn if a network is far worse without dropout than with it: members of ensembles predict without."""
    off, on = row["valid_mse_one_pass"], row["valid_mse"]
    if off > SHIFTED * on > 0:
        warnings.warn(
            f"without dropout this network errs far more than with it: validation MSE {off:.3g}, {on:.3g} with "
            "dropout. Its normalisation has only seen features with dropout. Sample it with dropout; single passes, "
            "and ensembles of such passes, are wrong.",
            stacklevel=4,
        )
