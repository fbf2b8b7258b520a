"""Augmentations: shapes, seeds, shares, and each one against a slow loop or an independent library."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truesigma.imaging.data.augment import chain, crop, flip, transpose

ALL = {
    "flip": partial(flip, mirror=0),
    "flip rows": partial(flip, axis=-2),
    "transpose": transpose,
    "crop": partial(crop, padding=3),
}
ALL["chain"] = chain(*ALL.values())


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(cases=6, seed=0, channels=3, size=8):
    generator = seeded(seed)
    return (
        torch.rand(cases, channels, size, size, generator=generator),
        torch.rand(cases, 2, generator=generator),
    )


@pytest.mark.parametrize("name", ALL)
def test_shapes_seeds_and_inputs(name):
    images, target = make()
    kept = images.clone(), target.clone()
    one, same, other = (ALL[name](images, target, seeded(seed)) for seed in (1, 1, 2))
    assert one[0].shape == images.shape
    assert one[1].shape == target.shape
    assert one[0].dtype == torch.float32
    assert torch.equal(one[0], same[0])
    assert torch.equal(one[1], same[1])
    assert not torch.equal(one[0], other[0])
    assert torch.equal(images, kept[0])
    assert torch.equal(target, kept[1])
    before = torch.get_rng_state()
    ALL[name](images, target, seeded())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ["flip", "flip rows", "transpose"])
def test_half_of_the_cases_are_changed(name):
    images, target = make(2000, size=4)
    changed = (ALL[name](images, target, seeded())[0] != images).flatten(1).any(1).float().mean()
    assert 0.45 < float(changed) < 0.55


@settings(max_examples=30, deadline=None)
@given(x=st.integers(0, 19), y=st.integers(0, 9), seed=st.integers(0, 99))
def test_flip_moves_the_coordinate_with_the_pixel(x, y, seed):
    """A dot at pixel (x, y) of 20 columns: after the flip the target still points at it."""
    images = torch.zeros(4, 1, 10, 20)
    images[:, 0, y, x] = 1
    target = torch.tensor([[x / 20, y / 10]]).repeat(4, 1)
    images, target = flip(images, target, seeded(seed), mirror=0, total=19 / 20)
    for image, (u, v) in zip(images, target):
        assert float(image[0, round(float(v) * 10), round(float(u) * 20)]) == 1


def test_transpose_needs_squares():
    with pytest.raises(ValueError, match="square"):
        transpose(torch.zeros(1, 1, 4, 5), torch.zeros(1, 1), seeded())


def test_crop_is_a_shift_with_every_offset_equally_often():
    cases, padding = 3000, 2
    images = torch.arange(1, 26).reshape(1, 1, 5, 5).repeat(cases, 1, 1, 1).float()
    out, _ = crop(images, torch.zeros(cases, 1), seeded(), padding=padding, value=-1.0)
    big = np.full((9, 9), -1.0)
    big[2:7, 2:7] = images[0, 0]
    windows = {big[a : a + 5, b : b + 5].tobytes(): 0 for a in range(5) for b in range(5)}
    for image in out[:, 0].double().numpy():
        windows[image.tobytes()] += 1
    assert len(windows) == 25
    # 120 each is expected; 5 sd of a binomial are 54.
    assert min(windows.values()) > 66
    assert max(windows.values()) < 174


def test_crop_shifts_all_channels_alike_in_three_dimensions():
    images = torch.rand(4, 1, 6, 7, 8).repeat(1, 2, 1, 1, 1)
    out, _ = crop(images, torch.zeros(4, 1), seeded(), padding=2)
    assert out.shape == images.shape
    assert torch.equal(out[:, 0], out[:, 1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ALL)
def test_on_the_gpu_without_waiting(name):
    """Same shapes, same seed same result, and no step that makes the host wait for the device."""
    images, target = (values.cuda() for values in make())
    ALL[name](images, target, torch.Generator("cuda"))
    torch.cuda.set_sync_debug_mode("error")
    try:
        one = ALL[name](images, target, torch.Generator("cuda").manual_seed(1))
        two = ALL[name](images, target, torch.Generator("cuda").manual_seed(1))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])
