"""The colour jitter of the paper against a slow loop."""

import colorsys

import numpy as np
import pytest
import torch

from paper.jitter import jitter


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def slow_jitter(image, order, factors):
    """Blend by blend, for one case, in float64."""
    grey = np.array([0.299, 0.587, 0.114])
    for name in order:
        if name == "hue":
            pixels = [colorsys.rgb_to_hsv(*p) for p in image.reshape(3, -1).T]
            turned = [colorsys.hsv_to_rgb((h + factors[name]) % 1, s, v) for h, s, v in pixels]
            image = np.array(turned).T.reshape(image.shape)
            continue
        luma = np.tensordot(grey, image, 1)
        base = {"brightness": 0.0, "contrast": luma.mean(), "saturation": luma}[name]
        image = np.clip(factors[name] * image + (1 - factors[name]) * base, 0, 1)
    return image


def test_jitter_is_some_order_of_the_four_changes():
    """Reproduce the draws, then every case must equal the slow loop in the order its random keys say."""
    images, target = torch.rand(12, 3, 6, 6, generator=seeded(0)), torch.zeros(12, 2)
    names = ("brightness", "contrast", "saturation", "hue")
    out, _ = jitter(images, target, seeded(5), brightness=0.4, contrast=0.4, saturation=0.4, hue=0.2, p=1.0)
    draw = torch.rand(9, 12, generator=seeded(5)).double().numpy()
    orders = set()
    for k in range(12):
        order = [names[i] for i in draw[1:5, k].argsort()]
        orders.add(tuple(order))
        u = 2 * draw[5:, k] - 1
        factors = dict(zip(names, [1 + 0.4 * u[0], 1 + 0.4 * u[1], 1 + 0.4 * u[2], 0.2 * u[3]]))
        expected = slow_jitter(images[k].double().numpy(), order, factors)
        assert out[k].numpy() == pytest.approx(expected, abs=1e-5)
    assert len(orders) > 4


def test_a_grey_image_has_no_hue_to_turn():
    images = torch.rand(4, 1, 6, 6)
    out, _ = jitter(images, torch.zeros(4, 1), seeded(0), brightness=0.2, contrast=0.2, p=1.0)
    assert 0 <= float(out.min()) <= float(out.max()) <= 1
    with pytest.raises(ValueError, match="1 channels; saturation and hue need 3"):
        jitter(images, torch.zeros(4, 1), seeded(0), hue=0.1)
