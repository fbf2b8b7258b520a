"""The simulated needles again, from their seed: images and targets for the figures that show one (needs torch)."""

import tempfile
from collections.abc import Mapping
from typing import Any

from truesigma.core import Host

from ..drawing import NotRun

# Where the tip lies in the cube of 64 voxels when a scaled pose is 0, and how far a scaled pose of 1 moves it.
TIP, REACH = (45.0, 25.0, 31.0), 12.0


def simulated_test(options: Mapping[str, Any]) -> tuple[Host, Host]:
    """Images (case, 3, 64, 64) and scaled targets (case, 6) of the simulated test split, made anew from the seed."""
    try:
        from truesigma.imaging.datasets import simulated
    except ImportError as problem:
        raise NotRun(f"this figure needs torch ({problem}): pip install 'truesigma[train]'") from None
    with tempfile.TemporaryDirectory() as folder:
        split = simulated.load(folder, **options).splits["test"]
    images: Any = split.images
    return images.numpy(), split.target.numpy()


def tip_voxel(pose: Host) -> Host:
    """Position (..., 3) of the needle's tip in voxels, from its scaled pose (..., 6)."""
    return REACH * pose[..., :3] + TIP
