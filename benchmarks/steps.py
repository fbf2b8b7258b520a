"""Ways to a faster captured training step, timed beside the one the package has; on one GPU.

python benchmarks/steps.py --networks resnet101,densenet201,efficientnet_b4 --ways plain,fused,compiled

plain: as `truesigma train` captures it. fused: batch norm, activation and residual in one kernel a pass
(`fused_norm.py`). compiled: each repeated block of ResNet and EfficientNet through torch.compile, one compilation for
each distinct shape, drop-connect left outside (its rate differs from block to block, and would compile each anew).
With `fused`, the error of the gradients against float32, without dropout, beside that of plain bfloat16.

Measured once on an H200 (torch 2.11, batch 16, 256 x 256, bfloat16, milliseconds a step; DenseNet-201 took 27.7 before
its features grew by one cat a layer, and its compilation for any number of channels did not end within 200 s):
resnet101 plain 11.21, fused 9.49, compiled 8.92; densenet201 plain 20.79, fused 15.64; efficientnet_b4 plain 16.52,
fused 14.60, compiled 12.75. Gradient error of fused over plain 1.001, 1.000, 0.920. Set-up, eleven processes at once on
16 cores: fused 3 to 17 s, compiled 24 and 70 s. To capture the validation of 256 images brings nothing (32.5 ms eager,
35.2 captured).
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.training.step import (
    Meter,
    Step,
    autocast,
    captured,
    channels_last,
    make_optimizer,
    plain,
)

DEVICE = torch.device("cuda")
BATCH, SIDE, OUTPUTS = 16, 256, 6
STILL = {"resnet101": "", "densenet201": ":layer_dropout=0.0"}  # else :drop_connect=0.0


def compile_blocks(net: nn.Module) -> None:
    """Compile each repeated block; blocks of one shape share the compilation."""
    import torch._dynamo as dynamo
    from timm.layers import DropPath
    from timm.models._efficientnet_blocks import DepthwiseSeparableConv, InvertedResidual
    from timm.models.resnet import Bottleneck

    dynamo.config.recompile_limit = dynamo.config.accumulated_recompile_limit = 256
    DropPath.forward = dynamo.disable(DropPath.forward)
    for module in net.modules():
        if isinstance(module, Bottleneck | DepthwiseSeparableConv | InvertedResidual):
            module.compile(dynamic=False)


def make(
    backbone: str, way: str, precision: str = "bf16", **choices: object
) -> tuple[nn.Module, Optimizer, Meter, Step]:
    """A network that is to be stepped in this way, and its eager step."""
    recipe = load_recipe("exact", batch=BATCH, **choices)
    net = build(backbone, 3, OUTPUTS, recipe, seed=0).to(DEVICE).train()
    for parameter in net.parameters():
        parameter.data = channels_last(parameter.data)
    if way == "fused":
        from fused_norm import patch

        patch(net)
    if way == "compiled":
        compile_blocks(net)
    optimizer, meter = make_optimizer(net, recipe, DEVICE), Meter(DEVICE)
    step = plain(net, Tensor.backward, optimizer, meter, likelihood="gaussian", precision=precision)
    return net, optimizer, meter, step


def batch() -> tuple[Tensor, Tensor]:
    """Random images and targets, the same in every call."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(BATCH, 3, SIDE, SIDE, generator=generator).to(DEVICE)
    return channels_last(images), torch.rand(BATCH, OUTPUTS, generator=generator).to(DEVICE)


def gradients(network: str, way: str, precision: str) -> Tensor:
    """All gradients of one batch without dropout, in one vector."""
    backbone = network + STILL.get(network, ":drop_connect=0.0")
    net, *_ = make(backbone, way, precision, stage_dropout=0.0, head_dropout={"other": 0.0})
    images, target = batch()
    with autocast(DEVICE, precision):
        mean, spread = net(images)
    ((mean - target).square() / spread.exp() + spread).mean().backward()
    return torch.cat([parameter.grad.double().flatten() for parameter in net.parameters()])


def milliseconds(step: Callable[[], None], steps: int = 50) -> float:
    """The middle of three means over that many steps."""
    for _ in range(5):
        step()
    means = []
    for _ in range(3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        means.append(1e3 * (time.perf_counter() - began) / steps)
    return sorted(means)[1]


def main() -> None:
    """Time every network in every way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", default="resnet101,densenet201,efficientnet_b4")
    parser.add_argument("--ways", default="plain,fused,compiled")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("steps.py times captured steps: it needs an NVIDIA GPU")
    for network in chosen.networks.split(","):
        for way in chosen.ways.split(","):
            began = time.perf_counter()
            net, optimizer, meter, eager = make(network, way)
            images, target = batch()
            eager(images, target)
            step = captured(eager, net, optimizer, meter, images, target)
            ready = time.perf_counter() - began
            took = milliseconds(lambda step=step, images=images, target=target: step(images, target))
            print(f"{network}, {way}: {took:.2f} ms a step, set-up {ready:.1f} s", flush=True)
        if "fused" in chosen.ways:
            exact = gradients(network, "plain", "fp32")
            away = [float((gradients(network, way, "bf16") - exact).norm()) for way in ("plain", "fused")]
            print(f"{network}: error of the gradients, fused over plain {away[1] / away[0]:.3f}", flush=True)


if __name__ == "__main__":
    main()
