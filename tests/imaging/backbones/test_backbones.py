"""Every backbone: features as announced, any number of channels, dropout where the paper has it."""

import copy

import pytest
import torch
from torch import nn

from truesigma.core import plugins
from truesigma.imaging.backbones import (
    any_timm,
    cells,
    densenet201,
    efficientnet_b4,
    efficientnet_lite0,
    points,
    resnet101,
    small,
    small3d,
)
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import load_recipe

LARGE = {
    "resnet101": 2048, "densenet201": 1920, "efficientnet_b4": 1792, "efficientnet_lite2": 1280,
    "efficientnet_lite0": 1280,
}  # fmt: skip


def test_every_file_of_the_folder_is_tested_here() -> None:
    assert set(plugins.names("backbones")) == {
        *LARGE,
        "small",
        "small3d",
        "any_timm",
        "points",
        "pooled",
        "cells",
    }


@pytest.mark.parametrize(("name", "features"), LARGE.items())
def test_large_networks_give_what_they_announce(name: str, features: int) -> None:
    net, announced = plugins.load("backbones", name).build(1)
    assert announced == features
    with torch.no_grad():
        assert net.eval()(torch.zeros(2, 1, 64, 64)).shape == (2, features)


def test_cells_are_means_of_the_volume_and_of_its_slopes() -> None:
    net, features = cells.build(2, cells=3)
    volume = torch.rand(1, 2, 9, 6, 12, generator=torch.Generator().manual_seed(0))
    made = net(volume).reshape(1, 2, 2, 3, 3, 3)
    assert features == made.numel()
    wrapped = torch.nn.functional.pad(volume, (1,) * 6, mode="circular")[0]
    for channel, a, b, c in ((0, 0, 0, 0), (1, 2, 1, 2), (0, 1, 2, 0)):
        steep = [
            sum(
                ((wrapped[channel, i + 2 * (axis == 0) + (axis != 0), j + 2 * (axis == 1) + (axis != 1),
                          k + 2 * (axis == 2) + (axis != 2)]
                  - wrapped[channel, i + (axis != 0), j + (axis != 1), k + (axis != 2)]) / 2) ** 2
                for axis in range(3)
            ) ** 0.5
            for i in range(3 * a, 3 * a + 3) for j in range(2 * b, 2 * b + 2) for k in range(4 * c, 4 * c + 4)
        ]  # fmt: skip
        cell = volume[0, channel, 3 * a : 3 * a + 3, 2 * b : 2 * b + 2, 4 * c : 4 * c + 4]
        assert float(made[0, 0, channel, a, b, c]) == pytest.approx(float(cell.mean()), abs=1e-6)
        assert float(made[0, 1, channel, a, b, c]) == pytest.approx(
            float(torch.stack(steep).mean()), abs=1e-5
        )


@pytest.mark.parametrize("channels", [1, 2, 3, 7])
def test_any_number_of_channels(channels: int) -> None:
    for backbone, _ in (small.build(channels), any_timm.build(channels, model="resnet18")):
        assert backbone.eval()(torch.zeros(1, channels, 64, 64)).shape[0] == 1
    volume, features = small3d.build(channels)
    assert volume.eval()(torch.zeros(1, channels, 16, 16, 16)).shape == (1, features)


def test_resnet_has_dropout_at_the_end_of_each_stage_and_the_usual_names() -> None:
    net, _ = resnet101.build(3, stage_dropout=0.3)
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        assert isinstance(stage[-1], nn.Dropout)
        assert stage[-1].p == 0.3
    assert "layer3.22.conv1.weight" in net.state_dict()
    dropouts = [m for m in net.modules() if isinstance(m, nn.Dropout)]
    assert len(dropouts) == 4


def test_densenet_has_functional_dropout_in_every_dense_layer() -> None:
    net, _ = densenet201.build(3)
    layers = [m for m in net.modules() if isinstance(m, densenet201.PlainLayer)]
    assert len(layers) == 6 + 12 + 48 + 32
    assert {layer.drop_rate for layer in layers} == {0.2}


def test_efficientnet_drops_paths_more_often_the_deeper_they_are() -> None:
    net, _ = efficientnet_b4.build(3)
    rates = [m.drop_prob for m in net.modules() if type(m).__name__ == "DropPath"]
    assert len(rates) > 20
    assert rates == sorted(rates)
    assert 0.17 < rates[-1] <= 0.2


@pytest.mark.parametrize("name", ["densenet201", "efficientnet_b4", "resnet101"])
def test_draws_differ_in_training_mode_only(name: str) -> None:
    """Dropout of the backbone itself: the heads' own is switched off here."""
    net = build(name, 3, 2, load_recipe("paper"), seed=0).eval()
    x = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(net.backbone(x), net.backbone(x))
        net.backbone.train()
        for module in net.backbone.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        torch.manual_seed(0)  # paths are dropped seldom, and not in every pass
        assert not torch.equal(net.backbone(x), net.backbone(x))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_growing_dense_block_is_timms_to_the_bit(dropout: float) -> None:
    """Outputs, gradients and running statistics, with features joined once a layer or anew before each."""
    net, _ = densenet201.build(1, layer_dropout=dropout)
    ours = next(module for module in net.modules() if isinstance(module, densenet201.GrowingBlock))
    theirs = copy.deepcopy(ours)
    for module in theirs.modules():
        if isinstance(module, densenet201.GrowingBlock | densenet201.PlainLayer):
            module.__class__ = type(module).__mro__[1]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    results = []
    for block in (ours.train(), theirs.train()):
        image = torch.rand(2, 64, 8, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            out = block(image)
        (out * out.detach().cos()).sum().backward()
        results.append([out, image.grad, *(p.grad for p in block.parameters()), *block.buffers()])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_weights_under_other_names_and_in_the_same_order_are_taken() -> None:
    source, _ = efficientnet_lite0.build(3)
    files = {
        f"layer{k}.{name.split('.')[-1]}": value
        for k, (name, value) in enumerate(source.state_dict().items())
    }
    grey, settled = (efficientnet_lite0.build(n, settled=True)[0] for n in (1, 3))
    for net in (grey, settled):
        efficientnet_lite0.put_in_order(net, files | {"_fc.weight": torch.zeros(1000, 1280)})
    image = torch.randn(2, 1, 64, 64)
    expected = source.eval()(image.expand(-1, 3, -1, -1))
    assert torch.equal(
        settled.train()(image.expand(-1, 3, -1, -1)), expected
    )  # statistics are kept in training
    assert torch.allclose(grey.eval()(image), expected, atol=1e-4)
    with pytest.raises(ValueError, match="another version"):
        efficientnet_lite0.put_in_order(settled, dict(reversed(files.items())))


def test_a_map_with_one_peak_is_the_place_of_the_peak() -> None:
    net, features = points.build(1, points=1)
    two = build("points:points=1", 1, 2, load_recipe("own"), seed=0)
    two.aim([(0, 1)], (10.0, 20.0), (40.0, 50.0), (64, 96))
    peak = torch.full((1, 1, 16, 24), -20.0)
    peak[0, 0, 3, 9] = 20.0
    for one in (net, two.backbone):
        one.maps = nn.Sequential()
        one.joined[0] = nn.Sequential()
        one.joined[0].forward = lambda _: peak
    x, y = net(torch.zeros(1, 1, 64, 96))[0, :2].tolist()
    assert (x, y) == pytest.approx((9.5 / 24, 3.5 / 16))
    mean, _ = two.eval()(torch.zeros(1, 1, 64, 96))
    # The middle of the cell (3, 9) of 4 pixels each, in pixels counted from the first one's centre.
    assert (mean[0] * torch.tensor([40.0, 50.0]) + torch.tensor([10.0, 20.0])).tolist() == pytest.approx(
        [37.5, 13.5]
    )
    assert features == 4 + points.BESIDE + net.signs
    with pytest.raises(ValueError, match="finds 1 points"):
        two.aim([(0, 1), (2, 3)], (0.0,) * 4, (1.0,) * 4, (64, 96))
