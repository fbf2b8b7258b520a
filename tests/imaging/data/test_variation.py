"""Variations of training images: coordinates stay on what they point at, and volumes keep their size."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from truesigma.imaging.data.augment import Places, flip, intensity, warp
from truesigma.imaging.data.prepare import Normalise
from truesigma.imaging.data.variation import Variation


def blob(at: tuple[float, ...], size: int = 33, width: float = 2.0) -> torch.Tensor:
    """An image with a bump at a place (x, y[, z])."""
    grid = torch.meshgrid(*[torch.arange(size, dtype=torch.float32)] * len(at), indexing="ij")
    away = sum((axis - where) ** 2 for axis, where in zip(grid[::-1], at))
    return torch.exp(-away / (2 * width**2))[None]


def centre(image: torch.Tensor) -> list[float]:
    """The centre of mass (x, y[, z]), by an independent library."""
    return list(ndimage.center_of_mass(image[0].numpy()))[::-1]


@pytest.mark.parametrize("at", [(12.0, 20.0), (18.0, 13.0, 15.0)])
@pytest.mark.parametrize(
    "moves", [{"rotate": 25.0}, {"scale": 0.2}, {"shift": 3.0}, {"rotate": 9.0, "scale": 0.1, "shift": 2.0}]
)
def test_a_point_stays_where_it_points(at: tuple[float, ...], moves: dict[str, float]) -> None:
    cases = 6
    images, target = torch.stack([blob(at)] * cases), (torch.tensor([at] * cases) - 4.0) / 20.0
    places = Places((tuple(range(len(at))),), (4.0,) * len(at), (20.0,) * len(at))
    varied, moved = warp(images, target, torch.Generator().manual_seed(0), places=places, **moves)
    found = torch.tensor([centre(image) for image in varied])
    assert torch.allclose(4.0 + 20.0 * moved, found.float(), atol=0.05)
    assert float((found - torch.tensor(at)).abs().max()) > 0.5, "it should move"


def test_mirrored_points_of_two() -> None:
    images = torch.stack([blob((5.0, 20.0)) + 2 * blob((25.0, 8.0))])
    target = torch.tensor([[5.0, 20.0, 25.0, 8.0]])
    places = Places(((0, 1), (2, 3)), (0.0,) * 4, (1.0,) * 4)
    varied, moved = flip(images, target, torch.Generator(), p=1.0, places=places)
    assert torch.equal(varied, images.flip(-1))
    assert moved.tolist() == [[27.0, 20.0, 7.0, 8.0]]


def rod(length: float, pixel: tuple[float, ...], along: int, size: int = 49) -> torch.Tensor:
    """A Gaussian rod around the centre, of this sd in mm along one axis and 3 mm along the others."""
    grid = torch.meshgrid(*[(torch.arange(size) - (size - 1) / 2) * mm for mm in pixel], indexing="ij")
    sds = [length if axis == along else 3.0 for axis in range(len(pixel))]
    return torch.exp(-sum((axis / sd) ** 2 for axis, sd in zip(grid, sds)) / 2)[None]


@pytest.mark.parametrize("pixel", [(3.0, 1.0, 1.0), (1.0, 1.5, 0.8), (2.0, 1.0)])
@pytest.mark.parametrize("along", [0, -1])
def test_what_turns_keeps_its_length_in_mm(pixel: tuple[float, ...], along: int) -> None:
    """Turned in pixels that are longer along one axis, a length of 6 mm would become one of up to 8."""
    image = rod(6.0, pixel, along % len(pixel))
    step = Variation(rotate=20.0).step(len(pixel), pixel=pixel)
    varied, _ = step(torch.stack([image] * 8), torch.zeros(8, 1), torch.Generator().manual_seed(0))
    places = np.stack(np.meshgrid(*[np.arange(49.0) * mm for mm in pixel], indexing="ij")).reshape(
        len(pixel), -1
    )
    lengths = [
        np.linalg.eigvalsh(np.cov(places, aweights=one.numpy().clip(min=0).ravel()))[-1] ** 0.5
        for one in varied
    ]
    assert np.allclose(lengths, 6.0, rtol=0.03)
    assert float((varied - image).abs().max()) > 0.1, "it should turn"


def test_rows_and_columns_of_unlike_pixels_are_not_swapped() -> None:
    image = torch.rand(1, 1, 6, 6)
    alike = {tuple(map(float, flat.flatten())) for flat in _turned(image, (2.0, 2.0))}
    unlike = {tuple(map(float, flat.flatten())) for flat in _turned(image, (2.0, 1.0))}
    assert (len(alike), len(unlike)) == (8, 4)


def _turned(image: torch.Tensor, pixel: tuple[float, ...]) -> torch.Tensor:
    step = Variation(turn=True).step(2, pixel=pixel)
    return step(image.expand(200, 1, 6, 6), torch.zeros(200, 1), torch.Generator().manual_seed(0))[0]


def test_a_rotation_is_scipys() -> None:
    image = blob((20.0, 14.0)) + 0.5 * blob((10.0, 22.0))
    generator = torch.Generator().manual_seed(3)
    drawn = 2 * torch.rand(1, 4, generator=torch.Generator().manual_seed(3)) - 1
    varied, _ = warp(image[None], torch.zeros(1, 1), generator, rotate=30.0)
    angle = 30.0 * float(drawn[0, 0])
    theirs = ndimage.rotate(image[0].numpy(), angle, reshape=False, order=1)
    assert np.abs(varied[0, 0].numpy() - theirs).max() < 0.02


def test_intensity_changes_each_case_by_its_own_factor() -> None:
    images = torch.rand(3, 2, 5, 5)
    varied, target = intensity(images, torch.ones(3, 1), torch.Generator().manual_seed(0), strength=0.2)
    slope = (varied[:, 0, 0, 0] - varied[:, 1, 1, 1]) / (images[:, 0, 0, 0] - images[:, 1, 1, 1])
    offset = varied[:, 0, 0, 0] - slope * images[:, 0, 0, 0]
    assert torch.allclose(
        varied, slope[:, None, None, None] * images + offset[:, None, None, None], atol=1e-5
    )
    assert len(set(slope.tolist())) == 3
    assert target.tolist() == [[1.0]] * 3


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"rotate": 200.0}, "rotate is 200"),
        ({"turn": True, "coordinates": ("x", "y")}, "turn does not move coordinates"),
    ],
)
def test_what_cannot_be_varied_is_said(given: dict, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Variation(**given)


def test_coordinates_are_columns_of_whole_points() -> None:
    with pytest.raises(ValueError, match="coordinates has z; expected some of x, y"):
        Variation(flip=True, coordinates=("x", "z")).places(("x", "y"), (0.0, 0.0), (1.0, 1.0), 2)
    with pytest.raises(ValueError, match="expected 2 for each point, x and y"):
        Variation(flip=True, coordinates=("x",)).places(("x", "y"), (0.0, 0.0), (1.0, 1.0), 2)


def test_coordinates_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="where tip_y is in the place of x"):
        Variation(flip=True, coordinates=("tip_y", "tip_x")).places(("tip_y", "tip_x"), (0, 0), (1, 1), 2)
    columns = ("x1", "x2", "y1", "y2")
    with pytest.raises(ValueError, match="where x2 is in the place of y"):
        Variation(coordinates=columns).places(columns, (0,) * 4, (1,) * 4, 2)
    named = ("tip_x", "tip_y", "z-depth", "a", "b", "c")  # names without an axis are taken as they are
    assert Variation(coordinates=named).places(named, (0,) * 6, (1,) * 6, 3) is not None


def test_each_image_by_its_own_brightness() -> None:
    images = torch.rand(2, 1, 6, 7) + 0.5
    images[0, 0, :2] = 0.0
    images[1] *= 1000
    images[1, 0, 3:] = 3.0
    made = Normalise(top=1.0, each=True)(images)
    for image, before in zip(made, images):
        seen = before.numpy() > before.min().item()
        values = before.numpy()[seen]
        assert np.allclose(image.numpy()[seen], (values - values.mean()) / values.std(), atol=1e-4)
        assert not image.numpy()[~seen].any()
    assert math.isfinite(float(Normalise(top=1.0, each=True)(torch.zeros(1, 1, 3, 3)).sum()))
