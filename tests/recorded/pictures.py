"""Images, networks and data sets for the imaging parts: small, made up, the same each time."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from made_up import drawn_spots
from torch import Tensor, nn

from truesigma import imaging

SIDE = 12


class Net(nn.Module):
    """A network of one's own, with dropout in several places."""

    def __init__(self, outputs: int = 2, kind: str = "heads") -> None:
        super().__init__()
        self.kind = kind
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout2d(0.2) if kind == "inside" else nn.Identity(),
            nn.Conv2d(4, 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.mean, self.log_variance = nn.Linear(16, outputs), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        if self.kind != "none":
            features = nn.functional.dropout(features, 0.3, training=self.training)
        return self.mean(features), self.log_variance(features)


def net(kind: str = "heads", seed: int = 0, outputs: int = 2) -> Net:
    torch.manual_seed(seed)
    return Net(outputs, kind).eval()


def pixels(cases: int = 10, seed: int = 0, side: int = SIDE) -> Tensor:
    return torch.rand(cases, 1, side, side, generator=torch.Generator().manual_seed(seed))


def spots(cases: int, seed: int) -> imaging.Split:
    """Spots whose place is the target; two images of each patient."""
    names = tuple(f"case{i}.png" for i in range(cases))
    return imaging.Split(*drawn_spots(cases, seed, SIDE), names, tuple(f"p{i // 2}" for i in range(cases)))


def scaled(images: Tensor) -> Tensor:
    return images.float() / 255


def shaken(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return images + 0.05 * torch.randn(images.shape, generator=generator), target


def dataset(cases: int = 24, **change: Any) -> imaging.DataSet:
    splits = {"train": spots(cases, 0), "valid": spots(12, 1), "test": spots(10, 2)} | change
    units = ("mm", "mm"), torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0])
    return imaging.DataSet("spots", splits, scaled, shaken, *units)


def published(folder: Path) -> None:
    """Small folders in the layouts of the published data sets."""
    from PIL import Image

    rng = np.random.default_rng(0)
    hands = folder / "boneage" / "boneage-training-dataset" / "boneage-training-dataset"
    hands.mkdir(parents=True)
    lines = ["id,boneage,male"]
    for k in range(10):
        Image.fromarray(rng.integers(0, 256, (40 + 3 * k, 60), dtype=np.uint8)).save(
            hands / f"{2000 - k}.png"
        )
        lines.append(f"{2000 - k},{1 + 12 * k},True")
    (folder / "boneage" / "boneage-training-dataset.csv").write_text("\n".join(lines) + "\n")
    (folder / "breastpathq" / "train").mkdir(parents=True)
    lines = ["slide,rid,y"]
    for k in range(8):
        tissue = Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8))
        tissue.save(folder / "breastpathq" / "train" / f"{7 + k % 3}_{k}.tif")
        lines.append(f"{7 + k % 3},{k},{k / 8}")
    (folder / "breastpathq" / "train_labels.csv").write_text("\n".join(lines) + "\n")
    (folder / "oct" / "data").mkdir(parents=True)
    for k in range(6):
        data = rng.integers(0, 256, (512, 64, 64), dtype=np.uint8)
        np.savez(folder / "oct" / "data" / f"{1000 + k}.5.npz", data=data, pos=np.arange(6) * 0.1 + k * 0.01)
    for video in ("train/v1", "train/v2", "valid/v3", "test/v4", "loose/v5", "loose/v6", "loose/v7"):
        home = folder / ("endovis-loose" if "loose" in video else "endovis") / video
        home.mkdir(parents=True)
        lines = []
        for k in range(1, 3):
            frame = np.zeros((576, 720, 3), np.uint8)
            x, y = int(rng.integers(10, 700)), int(rng.integers(10, 560))
            frame[y - 4 : y + 5, x - 4 : x + 5] = 255
            Image.fromarray(frame).save(home / f"{k:04}.png", compress_level=1)
            lines.append(f"{x} {y} 0.5 0.5")
        (home / "Right_Instrument_Pose.txt").write_text("\n".join(lines) + "\n")
