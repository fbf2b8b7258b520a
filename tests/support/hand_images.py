"""Random images and a network for them, in units that are not scaled; and the recipe of short trainings."""

import numpy as np
import torch
from torch import nn

from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.data.prepare import Normalise
from truesigma.imaging.data.units import Units
from truesigma.imaging.network.two_head import TwoHead
from truesigma.imaging.recipe import TrainingRecipe

MONTHS = Units(("months",), np.array([1.0]), np.array([227.0]))
POSE = Units(("mm", "mm", "deg"), np.array([0.0, -2.0, 5.0]), np.array([0.9996, 0.5998, 7.998]))


def network(outputs=1, variances="one", seed=0):
    torch.manual_seed(seed)
    net = TwoHead(nn.Flatten(), 64, outputs, dropout=0.5, variances=variances).eval()
    nn.init.normal_(net.log_variance.weight, std=0.3)
    return net


def hands(units, cases=40, seed=0, **change):
    """Random images with random targets, in one split or two."""
    generator = torch.Generator().manual_seed(seed)
    outputs = len(units.unit)
    target = torch.rand(cases, outputs, generator=generator)
    split = Split(
        torch.randint(0, 256, (cases, 1, 8, 8), generator=generator, dtype=torch.uint8),
        change.get("target", target),
        tuple(f"{k}.png" for k in range(cases)),
        change.get("group"),
    )
    return DataSet(
        "hands",
        {"valid": split, "test": split},
        Normalise((0.5,), (0.3,)),
        lambda images, target, generator: (images, target),
        units.unit,
        torch.from_numpy(units.offset).float(),
        torch.from_numpy(units.factor).float(),
    )


RECIPE = TrainingRecipe(epochs=2, batch=8, learning_rate=3e-3)
