"""The hash of a data set changes with every name, group, label and pixel, and with nothing else."""

from dataclasses import replace

import numpy as np
import torch

from truesigma.core.law import Normal
from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.data.fingerprint import fingerprints
from truesigma.imaging.prediction.timing import try_out
from truesigma.imaging.recipe import TrainingRecipe


class Streamed:
    """Images that are not held in memory."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


def make(images=None, target=None, **more):
    rng = np.random.default_rng(0)
    shown = (
        torch.from_numpy(rng.integers(0, 256, (6, 1, 32, 32), dtype=np.uint8)) if images is None else images
    )
    labels = torch.linspace(0, 1, 6)[:, None] if target is None else target
    split = Split(shown, labels, **{"name": tuple("abcdef"), "group": tuple("xxyyzz"), **more})
    same = {"train": split, "valid": split, "test": split}
    ones = torch.ones(1)
    return DataSet("six", same, torch.Tensor.float, lambda x, y, g: (x, y), ("mm",), 0 * ones, ones)


def test_what_changes_it():
    first = fingerprints(make())
    assert fingerprints(make()) == first
    assert set(first) == {"train", "valid", "test"}
    images, target = make().splits["test"].images.clone(), make().splits["test"].target.clone()
    images[3, 0, 5, 5] += 1
    target[2] += 1e-6
    for other in (
        make(images),
        make(target=target),
        make(name=tuple("abcdeg")),
        make(group=tuple("xxyyzx")),
        make(group=None),
        replace(make(), unit=("cm",)),
        replace(make(), factor=torch.full((1,), 2.0)),
    ):
        assert fingerprints(other)["test"] != first["test"]


def test_streamed_images_are_looked_at():
    images = make().splits["test"].images
    first = fingerprints(make(Streamed(images)))["test"]
    moved = images.clone()
    moved[-1] = 0
    assert fingerprints(make(Streamed(moved)))["test"] != first


def test_a_trial_measures():
    from truesigma.imaging.network.two_head import build

    recipe = TrainingRecipe(epochs=10, batch=2)
    data = make()
    trial = try_out(
        [build("small", 1, 1, recipe, seed=0)], data, recipe, likelihood="gaussian", law=Normal(), precision="fp32",
        device="cpu", draws=3, batch=2,
    )  # fmt: skip
    assert min(trial.epoch, trial.draw, trial.memory) > 0
    assert trial.device == "cpu"
