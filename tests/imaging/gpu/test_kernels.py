"""The fused kernels of the faster step: torch's numbers, block by block, on a GPU or in Triton's interpreter."""

import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from timm.layers.drop import DropPath
from timm.layers.norm_act import BatchNormAct2d
from timm.models._efficientnet_blocks import DepthwiseSeparableConv, InvertedResidual, SqueezeExcite
from timm.models.densenet import DenseBlock
from timm.models.resnet import Bottleneck
from torch import Tensor, nn

from truesigma.imaging.gpu import faster as fast

pytest.importorskip("triton")
GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
kernels_run = pytest.mark.skipif(not GPU and not INTERPRETED, reason="needs a GPU or Triton's interpreter")
DEVICE = torch.device("cuda" if GPU and not INTERPRETED else "cpu")

squeezed = {"act_layer": nn.SiLU, "se_layer": SqueezeExcite}
dropped = {**squeezed, "drop_path_rate": 0.4}
BLOCKS = {
    "norm": lambda: nn.BatchNorm2d(5),
    "norm, ReLU": lambda: nn.Sequential(nn.BatchNorm2d(5), nn.ReLU()),
    "norm with ReLU6": lambda: BatchNormAct2d(5, act_layer=nn.ReLU6),
    "more channels than a tile": lambda: nn.Sequential(nn.Conv2d(5, 70, 1, bias=False), BatchNormAct2d(70)),
    "bottleneck": lambda: Bottleneck(
        5, 4, downsample=nn.Sequential(nn.Conv2d(5, 16, 1, bias=False), nn.BatchNorm2d(16))
    ),
    "dense block": lambda: dense_block(),
    "inverted residual": partial(InvertedResidual, 5, 5, exp_ratio=4, **squeezed),
    "inverted residual, more of all than a tile": lambda: wide_block(),
    "inverted residual, drop path": partial(InvertedResidual, 5, 5, exp_ratio=4, **dropped),
    "inverted residual, drop path, nothing to add": partial(InvertedResidual, 5, 7, exp_ratio=4, **dropped),
    "inverted residual, drop path, no gate": partial(
        InvertedResidual, 5, 5, exp_ratio=4, act_layer=nn.ReLU6, drop_path_rate=0.4
    ),
    "depthwise": partial(DepthwiseSeparableConv, 5, 5, **squeezed),
    "depthwise, more cases than at once": partial(DepthwiseSeparableConv, 5, 5, **squeezed),
    "depthwise, drop path": partial(DepthwiseSeparableConv, 5, 5, **dropped),
    "depthwise, drop path, activation": partial(DepthwiseSeparableConv, 5, 5, pw_act=True, **dropped),
}


def dense_block() -> nn.Module:
    block = DenseBlock(3, 5, bn_size=2, growth_rate=3, norm_layer=partial(BatchNormAct2d, act_layer=nn.ReLU))
    return nn.Sequential(block, nn.BatchNorm2d(14))


def wide_block() -> nn.Module:
    """Two tiles of channels, and two of inner features."""
    inner = partial(SqueezeExcite, rd_channels=70)
    return InvertedResidual(5, 5, exp_ratio=16, act_layer=nn.SiLU, se_layer=inner)


def test_the_kernels_in_tritons_interpreter() -> None:
    """The tests that need the kernels, in a process where the interpreter runs them."""
    if GPU or INTERPRETED:
        pytest.skip("they run here")
    files = [__file__, str(Path(__file__).with_name("test_faster.py"))]
    words = ["-k", "kernels_give or rounds or fused_kernels", "-p", "no:cacheprovider", *files]
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{len(BLOCKS) + 5} passed" in done.stdout, done.stdout[-500:]


class DrawnInFloat32(DropPath):
    """Drop path that draws as float32 does, whatever the type: a GPU draws others in float64."""

    def forward(self, x: Tensor) -> Tensor:
        return x * super().forward(torch.ones(len(x), 1, 1, 1, device=x.device))


def results(block: nn.Module, images: Tensor, *, quick: bool) -> list[Tensor]:
    """Output, gradients and buffers of a training pass."""
    images = images.detach().clone().requires_grad_()
    block.zero_grad()
    torch.manual_seed(6)
    with fast.fused(block, kernels(), len(images)) if quick else nullcontext():
        y = block(images)
    (y * torch.arange(y.numel(), device=y.device).reshape(y.shape).sin().to(y.dtype)).sum().backward()
    assert images.grad is not None
    return [y, images.grad, *(p.grad for p in block.parameters() if p.grad is not None), *block.buffers()]


def kernels():
    from truesigma.imaging.gpu import kernels as module

    return module


def made(name: str) -> nn.Module:
    torch.manual_seed(3)
    block = BLOCKS[name]().train()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return block.to(DEVICE)


def images(cases: int = 3) -> Tensor:
    torch.manual_seed(4)
    return (2 * torch.randn(cases, 5, 13, 9) + 1).to(DEVICE, memory_format=torch.channels_last)


@kernels_run
@pytest.mark.parametrize("name", BLOCKS)
def test_kernels_give_torchs_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs, gradients, running statistics and counts, against torch in float64; a second pass too."""
    monkeypatch.setattr(
        torch.backends.cudnn, "allow_tf32", False
    )  # convolutions in ten bits would hide all else
    quick, exact = made(name), made(name).double()
    if type(getattr(exact, "drop_path", None)) is DropPath:
        exact.drop_path = DrawnInFloat32(exact.drop_path.drop_prob)
    batch = images(17)[..., :4, :3] if name == "depthwise, more cases than at once" else images()
    for _ in range(2):  # the counters of the programs are zero again
        found, expected = results(quick, batch, quick=True), results(exact, batch.double(), quick=False)
        for one, other in zip(found, expected, strict=True):
            assert float((one.double() - other).detach().norm()) < 2e-5 * float(
                other.detach().double().norm()
            )


@kernels_run
def test_it_rounds_no_more_than_torch() -> None:
    """The error of all gradients against float32 is at most 1.1 times that of torch, both in 16 bits.

    On a processor float16, because the interpreter cuts bfloat16 off in place of rounding it.
    """
    names = ("inverted residual", "norm, ReLU", "inverted residual, drop path", "depthwise")
    torch.manual_seed(5)
    block = nn.Sequential(*(BLOCKS[name]() for name in names)).to(DEVICE).train()
    buffers = len(list(block.buffers()))
    errors, exact = [], torch.cat([g.flatten() for g in results(block, images(), quick=False)[1:-buffers]])
    for quick in (False, True):
        with torch.autocast(DEVICE.type, torch.bfloat16 if DEVICE.type == "cuda" else torch.float16):
            rough = results(block, images(), quick=quick)[1:-buffers]
        errors.append(float((torch.cat([g.float().flatten() for g in rough]) - exact).norm()))
    assert 0 < errors[1] <= 1.1 * errors[0]


@kernels_run
@pytest.mark.parametrize("mode", ["training", "draws of validation", "one pass"])
def test_fused_kernels_drop_the_paths_that_timm_drops(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same cases at the same seed, block after block, and the generator is left where timm leaves it."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # as above
    torch.manual_seed(5)
    parts = [InvertedResidual(5, 5, exp_ratio=2, **squeezed, drop_path_rate=rate) for rate in (0.3, 0.0, 0.6)]
    parts[1].drop_path = DropPath(0.0)
    parts[2].drop_path.scale_by_keep = False
    net = nn.Sequential(*parts).to(DEVICE).train()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train(mode == "training")
        if isinstance(module, DropPath):
            module.train(mode != "one pass")
    batch, found = images(12), []
    for quick in (False, True):
        torch.manual_seed(6)
        patched = fast.fused(net, kernels(), 12, training=mode == "training") if quick else nullcontext()
        with torch.no_grad(), patched:
            assert not quick or all("forward" in vars(part) for part in parts)
            found.append((net(batch), torch.rand(3, device=DEVICE)))
    (plainly, after), (quickly, then) = found
    assert torch.equal(after, then)
    assert torch.allclose(plainly, quickly, rtol=2e-4, atol=1e-4)


class Other(InvertedResidual):
    """A block of somebody else: what it does is not known."""


class OtherPath(DropPath):
    """A drop path of somebody else."""


def test_blocks_that_end_otherwise_are_left_alone() -> None:
    """Only norms are replaced in them: without a residual, behind an activation, or where a part is not timm's."""
    plain = partial(InvertedResidual, 5, 5, exp_ratio=2, **dropped)
    other = {name: plain() for name in ("drop path", "norm", "dropout", "frozen norm")}
    other["drop path"].drop_path = OtherPath(0.4)
    other["norm"].bn3 = nn.BatchNorm2d(5)
    other["dropout"].bn3.drop = nn.Dropout(0.1)
    other["frozen norm"].bn3.eval()
    other |= {
        "residual": InvertedResidual(5, 7, exp_ratio=2, **dropped),
        "activation": DepthwiseSeparableConv(5, 5, pw_act=True, **dropped),
        "class": Other(5, 5, exp_ratio=2, **dropped),
    }
    stand_in = SimpleNamespace(NONE=0, RELU=1, SILU=2, RELU6=3, counters=lambda *_: None)
    for block, folded in [*((block, False) for block in other.values()), (plain(), True)]:
        with fast.fused(block, stand_in, 2):  # type: ignore[arg-type]
            assert ("forward" in vars(block)) == folded
            assert "forward" in vars(block.bn1)
