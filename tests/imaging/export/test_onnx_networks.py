"""Networks of one's own as ONNX files: dropout of every kind, fields, volumes, and those that cannot be followed."""

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx_models import IMAGES, run
from torch import nn

from truesigma.imaging import TwoHead
from truesigma.imaging.backbones import small3d
from truesigma.imaging.export.graph import averages
from truesigma.imaging.export.onnx import to_onnx


class Layers(nn.Module):
    """Dropout of features, of the functional kind, and of whole paths; a deterministic convolution before."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.mean, self.spread = nn.Conv2d(6, 6, 3), nn.Linear(24, 2), nn.Linear(24, 1)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.dropout2d(x, 0.3, self.training)
        y = F.dropout(self.second(x).flatten(1), 0.4, self.training)
        if self.training:
            y = y * y.new_empty(y.shape[0], 1).bernoulli_(0.8).div_(0.8)
        return self.mean(y), self.spread(y)


class Dense(nn.Module):
    """A value for every pixel."""

    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 1)

    def forward(self, x):
        x = F.dropout(x, 0.3, self.training)
        return self.mean(x), self.spread(x)


class Shared(nn.Module):
    """One mask for all cases of a batch: the draws cannot be folded into it."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        x = x.flatten(1) * F.dropout(x.new_ones(16), 0.5, self.training)
        return self.head(x)[:, :1], self.head(x)[:, 1:]


class Volume(nn.Module):
    """3-D images."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(1, 4, 3), nn.Dropout3d(0.3), nn.Flatten(), nn.Linear(32, 2))

    def forward(self, x):
        return self.body(x).chunk(2, dim=1)


@pytest.mark.parametrize("net", [Layers, Dense, Shared, Volume])
def test_networks_of_ones_own(net, tmp_path):
    torch.manual_seed(1)
    net = net().train()
    images = torch.rand(3, 1, 4, 4, 4) if isinstance(net, Volume) else IMAGES[:3]
    before = {name: value.clone() for name, value in net.state_dict().items()}
    made = to_onnx(net, tmp_path / "m.onnx", example=images, draws=5)
    assert net.training  # left as it was found
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    for cases in (1, 3, 7):
        found = run(made.path, images[:1].expand(cases, *images.shape[1:]))
        shape = (cases, 1, 4, 4) if isinstance(net, Dense) else (cases, 2 if isinstance(net, Layers) else 1)
        assert {value.shape for value in found.values()} == {shape}
        assert (found["epistemic"] > 0).any()
        assert all(np.isfinite(value).all() for value in found.values())


def test_what_is_before_the_first_dropout_runs_once(tmp_path):
    made = to_onnx(Layers().eval(), tmp_path / "m.onnx", example=IMAGES, draws=25)
    graph = onnx.load(made.path).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("Conv") == 2  # not 50: the draws are folded into the cases
    assert not any("Random" in kind for kind in kinds)
    first = next(node for node in graph.node if node.op_type == "Conv")
    assert first.input[0] == "image"  # before the images are repeated


class Fixed(nn.Module):
    """Written for two cases."""

    def forward(self, x):
        x = F.dropout(x, 0.5, self.training).reshape(len(x), 16)
        return x[:, :1], x[:, 1:2]


def test_a_network_that_cannot_be_followed_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"Fixed cannot be exported"):
        to_onnx(Fixed(), tmp_path / "m.onnx", example=IMAGES)
    assert list(tmp_path.iterdir()) == []


class Noise(nn.Module):
    """Random in a way that is no dropout."""

    def forward(self, x):
        x = x.flatten(1) + torch.randn_like(x.flatten(1))
        return x[:, :1], x[:, 1:2]


def test_other_random_numbers_are_constants_of_the_file(tmp_path):
    made = to_onnx(Noise(), tmp_path / "m.onnx", example=IMAGES, draws=3)
    assert made.difference < 1e-4


@pytest.mark.parametrize("side", [16, 40])
def test_volumes_of_the_backbone_that_init_proposes(side, tmp_path):
    """Its adaptive pooling, of one place and of three, is written though torch's exporter does not know it."""
    torch.manual_seed(0)
    backbone, features = small3d.build(1, stage_dropout=0.0)
    net = TwoHead(backbone, features, 1, dropout=0.0).eval()
    volumes = torch.rand(3, 1, side, side, side)
    made = to_onnx([net], tmp_path / "m.onnx", example=volumes)  # an ensemble of one: a pass without dropout
    with torch.no_grad():
        mean, _ = net(volumes)
    np.testing.assert_allclose(run(made.path, volumes)["location"], mean, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 2), (3, 2), (5, 3), (7, 1), (4, 6)])
def test_averages_are_those_of_torch(before, after):
    line = torch.rand(1, before)
    expected = F.adaptive_avg_pool1d(line, after)
    torch.testing.assert_close(line @ torch.from_numpy(averages(before, after)), expected)


def test_what_surrounds_the_export_does_not_change_it(tmp_path):
    net = Layers()
    to_onnx(net, tmp_path / "plain.onnx", example=IMAGES, draws=3)
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        to_onnx(net, tmp_path / "inside.onnx", example=IMAGES, draws=3)
    plain, inside = (run(tmp_path / name, IMAGES) for name in ("plain.onnx", "inside.onnx"))
    assert all(np.array_equal(plain[name], inside[name]) for name in plain)
