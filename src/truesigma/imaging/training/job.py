"""A training job: network, data and choices, the same in every epoch and in all processes of a run."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from ..data.dataset import DataSet, Split, resident
from ..network.two_head import TwoHead
from ..recipe import TrainingRecipe
from .devices import Alone, Processes


@dataclass(frozen=True, eq=False)
class Job:
    """A network, its data and its recipe, with the choices that `train` was given.

    data: with the splits that are looked at, where they are used. processes: those that share the work.
    """

    net: nn.Module
    data: DataSet
    recipe: TrainingRecipe
    seed: int = 0
    likelihood: str = "gaussian"
    precision: str = "fp32"
    processes: Processes = field(default_factory=lambda: Alone(torch.device("cpu")))
    workers: int = 4

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.processes.device

    @property
    def train(self) -> Split:
        """The training cases."""
        return self.data.splits["train"]

    @property
    def size(self) -> int:
        """Cases in a batch of this process."""
        return min(self.recipe.batch, len(self.train)) // self.processes.world_size

    def placed(self, *, test: bool) -> "Job":
        """Put data and network on the device, ready to be trained.

        test: whether the test split is kept to be looked at.
        """
        seen = {"train", "valid"} | ({"test"} if test else set())
        splits = {
            name: resident(split, self.device)
            for name, split in self.data.splits.items()
            if name in seen and split.labelled
        }
        self.net.to(self.device)
        for parameter in self.net.parameters():
            parameter.data = channels_last(parameter.data)
        if self.recipe.loss in ("faithful", "mse") and isinstance(self.net, TwoHead):
            # If the variance weighs the mean's errors, another start would train the mean differently.
            self.net.expect(splits["train"].target.var(0, correction=0))
        if (found := self.data.places) is not None and isinstance(self.net, TwoHead):
            self.net.aim(found.points, found.offset, found.factor, self.train.shape[1:])
        return replace(self, data=replace(self.data, splits=splits))


def channels_last(images: Tensor) -> Tensor:
    """Images with their channels innermost, which convolutions want: on a processor, too, if they are 2-D."""
    layouts = {4: torch.channels_last} | ({5: torch.channels_last_3d} if images.device.type == "cuda" else {})
    return images.contiguous(memory_format=layouts[images.ndim]) if images.ndim in layouts else images


def seed_of(*parts: int) -> int:
    """Make a seed from several numbers (run, epoch, process, purpose).

    >>> seed_of(1, 2) != seed_of(2, 1)
    True
    """
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)
