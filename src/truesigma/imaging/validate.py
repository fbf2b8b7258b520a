"""One pass over a split without dropout: loss, MSE, mean variance and the factor that would recalibrate it."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from truesigma.imaging.data import DataSet, Split, batches
from truesigma.imaging.losses import LIKELIHOODS
from truesigma.imaging.step import autocast, channels_last, spread_to_variance

__all__ = ["NonFinite", "case_scores", "means", "validate"]


class NonFinite(ValueError):
    """A loss or prediction that is not a finite number, with the cases it came from."""


def case_scores(mean: Tensor, spread: Tensor, target: Tensor, likelihood: str) -> Tensor:
    """Loss, squared error, variance and recalibration term of each case, averaged over its outputs.

    The term is e / v for Gaussian and |y - mu| / b for Laplace; its mean over cases is the squared factor, or
    the factor (`definitions` 3).
    mean, target: (case, output). spread: log-variance or log b. Returns (4, case).

    >>> case_scores(torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), 3.0), "gaussian")[1:].flatten()
    tensor([9., 1., 9.])
    """
    loss = LIKELIHOODS[likelihood](mean, spread, target)
    error = (mean.float() - target.float()).square()
    variance = spread_to_variance(spread, likelihood)
    term = error / variance if likelihood == "gaussian" else (2 * error / variance).sqrt()
    return torch.stack([loss, *(value.flatten(1).mean(1) for value in (error, variance, term))])


@torch.no_grad()
def validate(
    net: nn.Module,
    data: DataSet,
    split: Split,
    *,
    likelihood: str,
    precision: str,
    size: int,
    device: torch.device,
    rank: int = 0,
    world: int = 1,
    workers: int = 4,
) -> Tensor:
    """Sums over the cases of a split: count, loss, squared error, variance, recalibration term.

    The network is evaluated as it is for a single prediction: no dropout, running batch statistics.
    size: cases per batch. rank, world: take every world-th case only. Returns a float64 tensor (5,) on the host.
    """
    was = net.training
    net.eval()
    order = torch.arange(rank, len(split), world)
    parts: list[Tensor] = []
    for batch in batches(split, size, order=order, prepare=data.prepare, device=device, workers=workers):
        with autocast(device, precision):
            mean, spread = net(channels_last(batch.images))
        parts.append(case_scores(mean, spread, batch.target, likelihood))
    net.train(was)
    if not parts:
        return torch.zeros(5, dtype=torch.float64)
    scores = torch.cat(parts, 1).cpu().double()
    wrong = ~torch.isfinite(scores).all(0)
    if bool(wrong.any()):
        names = [split.name[int(i)] for i in order[wrong][:10]]
        raise NonFinite(
            f"{int(wrong.sum())} of {len(order)} cases have a prediction that is not finite: {', '.join(names)}. "
            "Look at these images, or lower the learning rate"
        )
    return torch.cat([torch.tensor([float(scores.shape[1])], dtype=torch.float64), scores.sum(1)])


def means(train: Tensor, scores: Mapping[str, Tensor], likelihood: str) -> dict[str, float | None]:
    """The numbers of a history row: means over the cases, and the factor that would recalibrate the variances.

    train: cases, loss, squared error, variance. scores: what `validate` gave, by split; without test: None there.

    >>> row = means(torch.ones(4), {"valid": torch.tensor([2.0, 1.0, 4.0, 2.0, 8.0])}, "gaussian")
    >>> row["valid_mse"], row["valid_factor"], row["test_mse"]
    (2.0, 2.0, None)
    """
    row: dict[str, float] = {}
    cases, *sums = train.tolist()
    row |= {f"train_{name}": total / cases for name, total in zip(("loss", "mse", "variance"), sums)}
    for split in ("valid", "test"):
        cases, *sums = scores[split].tolist() if split in scores else (1.0, *(math.nan,) * 4)
        loss, mse, variance, term = (total / cases for total in sums)
        factor = math.sqrt(term) if likelihood == "gaussian" else term
        row |= {
            f"{split}_loss": loss,
            f"{split}_mse": mse,
            f"{split}_variance": variance,
            f"{split}_factor": factor,
        }
    row["test_variance_scaled"] = row["valid_factor"] ** 2 * row["test_variance"]
    return {name: None if math.isnan(value) else value for name, value in row.items()}
