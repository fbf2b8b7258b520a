"""Masks common to all images: an image has the same draws in any company, and each draw is one thinned network."""

import copy

import numpy as np
import pytest
import torch
from dropout_networks import Heads
from torch import nn
from torch.nn import functional

from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.sampling.draws import dropout_draws


def draw(net, batches, **options):
    return dropout_draws(net, batches, **{"draws": 6, "seed": 3, **options}).mean


def test_an_image_has_the_same_draws_in_any_folder_batch_and_chunk(net, images):
    whole = draw(net, [images])
    for size in (1, 2, 5):
        np.testing.assert_allclose(draw(net, images.split(size)), whole, rtol=1e-5, atol=1e-6)
    for chunk in (1, 2, 4):
        np.testing.assert_allclose(draw(net, [images], chunk=chunk), whole, rtol=1e-5, atol=1e-6)
    some = [4, 0, 6]
    np.testing.assert_allclose(draw(net, [images[some]]), whole[:, some], rtol=1e-5, atol=1e-6)
    # More draws begin with the same ones.
    np.testing.assert_allclose(draw(net, [images], draws=9)[:6], whole, rtol=1e-5, atol=1e-6)
    assert abs(draw(net, [images], seed=4) - whole).max() > 0.01
    assert abs(whole[0] - whole[1]).max() > 0.01


def test_the_masks_do_not_hang_on_torchs_generator(net, images):
    torch.manual_seed(0)
    first = draw(net, [images])
    torch.manual_seed(1)
    state = torch.get_rng_state()
    np.testing.assert_array_equal(draw(net, [images]), first)
    assert torch.equal(torch.get_rng_state(), state)


class Loop(nn.Module):
    """The network with its dropout written out, for one draw, from masks made by hand."""

    def __init__(self, net: Heads, masks: list[torch.Tensor]) -> None:
        super().__init__()
        self.net, self.masks = copy.deepcopy(net).eval(), masks

    def forward(self, x):
        x = self.net.body[:3](x.clone())
        x = x * self.masks[0] / (1 - 0.3)
        x = self.net.body[4:9](x)
        x = x * self.masks[1] / (1 - 0.5)
        return self.net.mean(x)


def test_a_draw_is_the_network_with_these_units_dropped(net, images):
    """Masks of one case, made from (seed, draw, operation, shape) as the definition says, multiplied in by hand."""
    found = draw(net, images.split(3))
    for n in range(6):
        masks = []
        for operation, (shape, rate) in enumerate([((1, 4, 1, 1), 0.3), ((1, 24), 0.5)]):
            key = np.random.SeedSequence([3, n, operation, *shape]).generate_state(1)
            generator = torch.Generator().manual_seed(int(key[0]))
            masks.append(torch.empty(shape).bernoulli_(1 - rate, generator=generator))
        with torch.no_grad():
            expected = Loop(net, masks)(images)
        np.testing.assert_allclose(found[n], expected, rtol=1e-5, atol=1e-6)


def test_draws_have_the_law_of_independent_ones(net, images):
    """Each image by itself cannot tell: the same mean and variance over many draws."""
    many = {kind: draw(net, [images], draws=4000, masks=kind) for kind in ("common", "independent")}
    error = many["independent"].std(0) / np.sqrt(4000)
    assert (abs(many["common"].mean(0) - many["independent"].mean(0)) < 6 * error).all()
    np.testing.assert_allclose(many["common"].std(0), many["independent"].std(0), rtol=0.1)
    # But the cases move together.
    together = np.corrcoef(many["common"][:, :, 0].T)[0, 1]
    assert abs(together) > 0.2 > abs(np.corrcoef(many["independent"][:, :, 0].T)[0, 1])


@pytest.mark.parametrize("backbone", ["small", "efficientnet_lite2"])
def test_networks_with_batch_norm_and_drop_path(backbone):
    net = build(backbone, 1, 2, TrainingRecipe(), seed=0).eval()
    x = torch.rand(4, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    whole = draw(net, [x], draws=3)
    np.testing.assert_allclose(draw(net, x.split(1), draws=3), whole, rtol=1e-4, atol=1e-5)
    assert whole.std(0).max() > 0


class Noisy(nn.Module):
    """Noise of several kinds, on several axes."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(4, 2)

    def forward(self, x):
        x = x + 0.1 * torch.randn_like(x) + torch.rand(x.shape[0], 1)
        turned = functional.dropout(x.T, 0.5, training=True).T  # the case is the second axis
        parts = x.reshape(-1, 2) * torch.bernoulli(
            torch.full((2 * x.shape[0], 2), 1.0), 0.5
        )  # two rows for each case
        return self.mean(turned + parts.reshape(-1, 4)), self.mean(x)


def test_noise_of_other_kinds_is_common_too():
    net, x = Noisy(), torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    whole = draw(net, [x])
    np.testing.assert_allclose(draw(net, x.split(2), chunk=2), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(draw(net, [x[3:4]]), whole[:, 3:4], rtol=1e-5, atol=1e-6)


class Attention(nn.Module):
    def __init__(self, traceable: bool = True) -> None:
        super().__init__()
        self.inner, self.mean = (
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True),
            nn.Linear(8, 1),
        )
        self.traceable = traceable

    def forward(self, x):
        if not self.traceable and float(x.sum()) > 1e9:
            return x, x
        x = self.inner(x).mean(1)
        return self.mean(x), self.mean(x)


@pytest.mark.parametrize(
    ("traceable", "words"), [(True, "one image is passed at a time"), (False, "cannot follow")]
)
def test_fused_attention_passes_one_image_at_a_time_and_says_so(traceable, words):
    net, x = Attention(traceable).eval(), torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match=words):
        whole = draw(net, [x])
    with pytest.warns(UserWarning, match=words):
        np.testing.assert_allclose(draw(net, x.split(3)), whole, rtol=1e-5, atol=1e-6)
    assert whole.std(0).min() > 0


def test_masks_of_another_kind_are_refused(net, images):
    with pytest.raises(ValueError, match=r"masks is 'same'; expected 'common'"):
        draw(net, [images], masks="same")


def test_the_default_device_has_no_part_in_the_masks(net, images):
    """`torch.set_default_device("cuda")` would draw them from a generator that nobody seeded."""
    plain = dropout_draws(net, [images], draws=3, seed=0)
    torch.set_default_device("meta")
    try:
        drawn = dropout_draws(net, [images], draws=3, seed=0)
    finally:
        torch.set_default_device(None)
    assert np.array_equal(drawn.mean, plain.mean)
