"""The sets: what a network sees of each case, its target, and who stays together."""

import csv
import functools
import io
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
ASSETS = HERE.parents[1] / "docs" / "assets"
SIZE = 160  # pixels of an image


@dataclass(frozen=True, eq=False)
class CaseTable:
    """Features (case, feature) that no network of the benchmark changes, targets (case,), and cases for testing.

    test: how many cases are tested, the same ones for every seed. train: how many of the others are trained on; the
    rest is the pool that calibration sets are drawn from.
    """

    name: str
    x: Tensor
    y: Tensor
    train: int
    test: int

    def parts(self, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Positions of the training cases, the pool and the test cases."""
        order = torch.randperm(len(self.y), generator=torch.Generator().manual_seed(0))
        test, rest = order[: self.test], order[self.test :]
        rest = rest[torch.randperm(len(rest), generator=torch.Generator().manual_seed(1 + seed))]
        return rest[: self.train], rest[self.train :], test


def simulated() -> CaseTable:
    """A target of five features, whose noise depends on a sixth; a tenth of the cases is five times as noisy."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 10))
    mean = 2 * np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] ** 2 - x[:, 4]
    sd = 0.2 + 0.6 / (1 + np.exp(-2 * x[:, 5]))
    sd = np.where(rng.uniform(size=len(sd)) < 0.1, 5 * sd, sd)
    return _table("simulated", x, mean + sd * rng.normal(size=len(sd)), train=1500, test=2000)


def aqsoldb() -> CaseTable:
    """Solubility of compounds from 17 descriptors: AqSolDB (Sorkun et al., 2019; CC0), descriptors and labels alone."""
    with np.load(HERE / "aqsoldb.npz") as stored:
        x, y = stored["descriptors"].astype(float), stored["solubility"].astype(float)
    return _table("aqsoldb", np.sign(x) * np.log1p(np.abs(x)), y, train=2000, test=2000)


@functools.cache
def nuclei() -> CaseTable:
    """The logarithm of the number of nuclei in microscopy images (BBBC038, CC0), by ImageNet's features of Lite0."""
    with zipfile.ZipFile(ASSETS / "nuclei.zip") as archive:
        names = archive.namelist()
        rows = list(csv.DictReader(io.StringIO(archive.read(_one(names, "table.csv")).decode())))
        images = torch.stack([_image(archive.read(_one(names, row["image"]))) for row in rows])
    y = np.array([math.log(float(row["count"])) for row in rows])
    from truesigma.imaging.backbones import efficientnet_lite0

    net = efficientnet_lite0.build(3, pretrained=True)[0].eval()
    return _table("nuclei", features(net, images).numpy(), y, train=220, test=230)


SETS: dict[str, Callable[[], CaseTable]] = {"simulated": simulated, "aqsoldb": aqsoldb, "nuclei": nuclei}


def features(net: nn.Module, images: Tensor) -> Tensor:
    """The features of images (case, 3, side, side), 16 at a time."""
    with torch.inference_mode():
        return torch.cat([net(some) for some in images.split(16)])


def _table(name: str, x: np.ndarray, y: np.ndarray, *, train: int, test: int) -> CaseTable:
    sd = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(sd > 0, sd, 1)
    return CaseTable(
        name, torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32), train, test
    )


def _one(names: list[str], end: str) -> str:
    return next(name for name in names if name.endswith(end))


def _image(content: bytes) -> Tensor:
    """An image on a square, as the network of ImageNet saw its own: (x - 0.5) / 0.5."""
    from PIL import Image

    made = Image.open(io.BytesIO(content)).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return (torch.from_numpy(np.asarray(made).copy()).permute(2, 0, 1).float() / 255 - 0.5) / 0.5
