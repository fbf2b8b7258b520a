"""The faster training step: the same numbers as the plain one, on a GPU or in Triton's interpreter."""

import gc
import os
import sys
import weakref
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from blob_images import PLAIN, QUICK, dataset, fit, same
from torch import Tensor, nn
from torch.nn import functional as F

from truesigma.imaging.gpu import faster as fast
from truesigma.imaging.gpu.captured_step import captured
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training import step as steps
from truesigma.imaging.training.devices import Alone
from truesigma.imaging.training.job import Job, channels_last
from truesigma.imaging.training.step import Meter, make_optimizer, plain
from truesigma.imaging.training.validate import random_parts, validate

pytest.importorskip("triton")
GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
kernels_run = pytest.mark.skipif(not GPU and not INTERPRETED, reason="needs a GPU or Triton's interpreter")
needs_gpu = pytest.mark.skipif(not GPU or INTERPRETED, reason="needs a GPU")
DEVICE = torch.device("cuda" if GPU and not INTERPRETED else "cpu")


def kernels():
    from truesigma.imaging.gpu import kernels as module

    return module


def test_nothing_stays_in_the_network() -> None:
    net = build(PLAIN, 1, 2, QUICK, seed=0)
    nothing = SimpleNamespace(NONE=0, RELU=1, SILU=2, RELU6=3, counters=lambda *_: None)
    for problem in (None, RuntimeError("stop")):
        refused = pytest.raises(RuntimeError, match="stop") if problem else nullcontext()
        with refused, fast.fused(net, nothing, 2):
            assert sum("forward" in vars(module) for module in net.modules()) == 8  # norms and ReLUs
            if problem:
                raise problem
        assert not any("forward" in vars(module) for module in net.modules())


def trained_by(net: nn.Module, pair, batch, steps: int = 2) -> dict[str, Tensor]:
    optimizer, meter = make_optimizer(net, QUICK, torch.device("cpu")), Meter(torch.device("cpu"))
    step = plain(*pair, optimizer, meter, likelihood="gaussian", precision="bf16")
    for _ in range(steps):
        torch.manual_seed(9)
        step(*batch)
    return net.state_dict()


@pytest.mark.parametrize("backbone", ["small", "timm:test_resnet", "timm:test_efficientnet"])
def test_weights_cast_at_once_train_to_the_same_bits(backbone: str) -> None:
    batch = torch.randn(4, 1, 32, 32), torch.rand(4, 2)
    nets = [build(backbone, 1, 2, QUICK, seed=0) for _ in range(2)]
    one = trained_by(nets[0], (nets[0], Tensor.backward), batch)
    other = trained_by(nets[1], fast.halved(nets[1]), batch)
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_frozen_weight_stays_and_a_gradient_of_other_strides_is_copied() -> None:
    net = build(PLAIN, 1, 2, QUICK, seed=0)
    first = next(net.backbone.parameters()).requires_grad_(False)
    before = first.clone()
    trained_by(net, fast.halved(net), (torch.randn(4, 1, 32, 32), torch.rand(4, 2)), steps=1)
    assert torch.equal(first, before)
    weight = torch.zeros(4, 3, 2, 2)
    turned = torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    found = fast._as(turned, weight)
    assert found.stride() == weight.stride()
    assert torch.equal(found, turned)


def test_without_triton_there_is_no_faster_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "truesigma.imaging.gpu.kernels", None)
    net = build(PLAIN, 1, 2, QUICK, seed=0)
    nothing = fast.faster(None, net, None, torch.zeros(1), torch.zeros(1), None, precision="bf16")  # type: ignore[arg-type]
    assert nothing is None


def test_other_gradients_than_the_plain_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that do nothing: the training goes on with the plain step, and says so; nothing has changed."""
    wrong = SimpleNamespace(
        NONE=0, RELU=1, SILU=2, RELU6=3, counters=lambda *_: None, Norm=SimpleNamespace(apply=lambda x, *_: x)
    )
    monkeypatch.setitem(sys.modules, "truesigma.imaging.gpu.kernels", wrong)
    monkeypatch.setattr("truesigma.imaging.gpu.kernels", wrong, raising=False)
    net, meter = build(PLAIN, 1, 2, QUICK, seed=0).train(), Meter(torch.device("cpu"))
    before = {name: value.clone() for name, value in net.state_dict().items()}

    def make(forward, backward, optimizer):
        return plain(forward, backward, optimizer, meter, likelihood="gaussian", precision="bf16")

    batch = torch.randn(8, 1, 32, 32), torch.rand(8, 2)
    with pytest.warns(UserWarning, match="faster training step is not used: its gradients err by"):
        assert fast.faster(make, net, None, *batch, meter.reset, precision="bf16") is None
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert int(meter.step) == 0


def gradients(backbone: str, precision: str, *, quick: bool) -> Tensor:
    """Of one step of batch 8 without dropout, all in a row; drop path draws from a seed."""
    recipe = TrainingRecipe(stage_dropout=0.0, head_dropout={"other": 0.0})
    torch.manual_seed(1)
    batch = channels_last(torch.randn(8, 3, 128, 128, device=DEVICE)), torch.rand(8, 6, device=DEVICE)
    net = build(backbone, 3, 6, recipe, seed=0).to(DEVICE).train()
    for parameter in net.parameters():
        parameter.data = channels_last(parameter.data)
    pair = fast.halved(net) if quick else (net, Tensor.backward)
    torch.manual_seed(2)
    with fast.fused(net, kernels(), 8) if quick else nullcontext():
        plain(*pair, fast._Still(), Meter(DEVICE), likelihood="gaussian", precision=precision)(*batch)
    return torch.cat([p.grad.double().flatten() for p in net.parameters()])


@needs_gpu
@pytest.mark.parametrize(
    "backbone",
    [
        "resnet101",
        "densenet201:layer_dropout=0.0",
        "efficientnet_b4:drop_connect=0.0",
        "efficientnet_b4",
        "efficientnet_lite2:drop_connect=0.0",
        "efficientnet_lite2",
    ],
)
def test_gradients_on_a_gpu_round_no_more_than_the_plain_steps(backbone: str) -> None:
    """Against float32 at most 1.1 times the error of eager bfloat16; drop path drops the same cases in all three."""
    exact, *found = (
        gradients(backbone, precision, quick=quick)
        for precision, quick in (("fp32", False), ("bf16", False), ("bf16", True))
    )
    errors = [float((one - exact).norm() / exact.norm()) for one in found]
    print(f"{backbone}: error of the gradients, plain {errors[0]:.4f}, faster {errors[1]:.4f}")
    assert errors[1] <= 1.1 * errors[0]


@needs_gpu
@pytest.mark.parametrize("backbone", ["densenet201", "efficientnet_b4"])
def test_running_statistics_on_a_gpu_round_no_more_than_the_plain_steps(
    backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty steps at rate 0, without dropout: what every norm has gathered, and outputs with it, beside float32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    still = {"densenet201": ":layer_dropout=0.0"}.get(backbone, ":drop_connect=0.0")
    recipe = TrainingRecipe(stage_dropout=0.0, head_dropout={"other": 0.0}, learning_rate=0.0)
    torch.manual_seed(1)
    coarse = torch.rand(30, 16, 3, 16, 16, device=DEVICE)
    batches = [
        (channels_last(F.interpolate(one, size=256, mode="bilinear")), torch.rand(16, 6, device=DEVICE))
        for one in coarse
    ]
    found = []
    for precision, quick in (("fp32", False), ("bf16", False), ("bf16", True)):
        net = build(backbone + still, 3, 6, recipe, seed=0).to(DEVICE).train()
        for parameter in net.parameters():
            parameter.data = channels_last(parameter.data)
        optimizer, meter = make_optimizer(net, recipe, DEVICE), Meter(DEVICE)

        def make(forward, backward, optimizer, meter=meter, precision=precision):
            return plain(forward, backward, optimizer, meter, likelihood="gaussian", precision=precision)

        if quick:
            step = fast.faster(make, net, optimizer, *batches[0], meter.reset, precision=precision)
            assert step is not None
        else:
            step = make(net, Tensor.backward, optimizer)
        for batch in batches:
            step(*batch)
        norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
        assert {int(norm.num_batches_tracked) for norm in norms} == {len(batches)}
        with torch.no_grad():
            outputs = torch.cat([part.float() for part in net.eval()(batches[0][0])], 1)
        found.append(
            {
                "mean": torch.cat([norm.running_mean for norm in norms]),
                "variance": torch.cat([norm.running_var for norm in norms]),
                "outputs": outputs,
            }
        )
    exact = found[0]
    sizes = {
        "mean": exact["variance"].sqrt() + 1e-6,
        "variance": exact["variance"] + 1e-12,
        "outputs": exact["outputs"].std(0) + 1e-6,
    }
    for name, size in sizes.items():
        away = [((one[name] - exact[name]) / size).abs() for one in found[1:]]
        plainly, quickly = (float(one.square().mean().sqrt()) for one in away)
        print(
            f"{backbone}, {name}: away by {plainly:.2g} and {quickly:.2g} (plain, faster), at most "
            f"{float(away[0].max()):.2g} and {float(away[1].max()):.2g}"
        )
        # EfficientNet magnifies: outputs with the plain step's statistics are not float32's either.
        assert quickly <= 1.3 * plainly + 1e-4 or (name == "outputs" and plainly > 1)


def test_what_the_kernels_count_in_lives_as_long_as_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph knows an address only: memory that was freed would belong to somebody else soon."""
    counters: list[weakref.ref[Tensor]] = []

    def count(*_: object) -> Tensor:
        made = torch.zeros(1)
        counters.append(weakref.ref(made))
        return made

    def norm(x, weight, bias, residual, kept, bn, done, act, passes, *squeeze):
        y = F.batch_norm(x, None, None, weight, bias, training=True, eps=bn.eps)
        return F.relu(y) if act else y

    right = SimpleNamespace(NONE=0, RELU=1, SILU=2, RELU6=3, counters=count, Norm=SimpleNamespace(apply=norm))
    monkeypatch.setitem(sys.modules, "truesigma.imaging.gpu.kernels", right)
    monkeypatch.setattr("truesigma.imaging.gpu.kernels", right, raising=False)
    monkeypatch.setattr(fast, "captured", lambda step, *_: lambda images, target: step(images, target))
    net, meter = build("small", 1, 2, QUICK, seed=0).train(), Meter(torch.device("cpu"))

    def make(forward, backward, optimizer):
        return plain(forward, backward, optimizer, meter, likelihood="gaussian", precision="bf16")

    optimizer = make_optimizer(net, QUICK, torch.device("cpu"))
    torch.manual_seed(0)
    batch = torch.randn(8, 1, 32, 32), torch.rand(8, 2)
    step = fast.faster(make, net, optimizer, *batch, meter.reset, precision="bf16")
    assert step is not None
    gc.collect()
    norms = sum(isinstance(module, nn.BatchNorm2d) for module in net.modules())
    assert sum(one() is not None for one in counters) == norms > 0
    assert all(module.training for module in net.modules())


@needs_gpu
def test_a_faster_captured_step_on_a_gpu_trains_as_the_plain_one() -> None:
    """Thirty steps without dropout from the same weights: losses nearby, and the network is left as it was made."""
    recipe = TrainingRecipe(stage_dropout=0.0, head_dropout={"other": 0.0}, learning_rate=1e-4)
    torch.manual_seed(1)
    batch = channels_last(torch.randn(16, 3, 64, 64, device=DEVICE)), torch.rand(16, 2, device=DEVICE)
    sums = []
    for quick in (False, True):
        net = build("resnet101", 3, 2, recipe, seed=0).to(DEVICE).train()
        for parameter in net.parameters():
            parameter.data = channels_last(parameter.data)
        optimizer, meter = make_optimizer(net, recipe, DEVICE), Meter(DEVICE)

        def make(forward, backward, optimizer, meter=meter):
            return plain(forward, backward, optimizer, meter, likelihood="gaussian", precision="bf16")

        if quick:
            step = fast.faster(make, net, optimizer, *batch, meter.reset, precision="bf16")
            assert step is not None
        else:
            step = captured(make(net, Tensor.backward, optimizer), net, optimizer, *batch, meter.reset)
        # What was freed is used by others: a graph must not write there.
        others = [torch.ones(n, dtype=torch.int32, device=DEVICE) for n in range(1, 500)]
        for _ in range(30):
            step(*batch)
        assert all(bool((one == 1).all()) for one in others)
        assert int(meter.bad) < 0
        assert int(net.backbone.bn1.num_batches_tracked) == 30
        assert not any("forward" in vars(module) for module in net.modules())
        sums.append((meter.sums / meter.sums[0]).cpu())
    assert torch.allclose(sums[0], sums[1], rtol=0.05, atol=0.02)


@needs_gpu
def test_training_on_a_gpu_takes_the_faster_step_where_it_pays(data, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(steps, "WORTH_IT", 10)
    monkeypatch.setattr(steps, "faster", lambda *a, **k: taken.append(fast.faster(*a, **k)) or taken[-1])
    still = dataset(*(data.splits[name] for name in ("train", "valid", "test")), augment=same)
    long = fit(still, device="cuda", precision="bf16")
    assert len(taken) == 1
    assert taken[0] is not None
    assert long.history[-1]["train_loss"] < long.history[0]["train_loss"]


@kernels_run
def test_validation_with_fused_kernels_gives_the_same_scores(data) -> None:
    """Two draws with dropout and one pass without; the network is left in training mode, with its own modules."""
    net = build(PLAIN, 1, 2, QUICK, seed=0).to(DEVICE).train()
    job = Job(net, data, replace(QUICK, batch=1 if GPU else 3), processes=Alone(DEVICE))
    on = random_parts(job)
    for some, near in ((None, 1e-4), (on, 0.02)):  # on a processor masks fall on channels that lie elsewhere
        plainly, quickly = (validate(job, "valid", on=some, fast=fast) for fast in (False, True))
        assert torch.allclose(plainly, quickly, rtol=near)
    assert not any("forward" in vars(module) for module in net.modules())
