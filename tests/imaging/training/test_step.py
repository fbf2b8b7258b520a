"""Steps on a GPU, with a pretended one: batches made ahead, and steps captured as a graph."""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from blob_images import QUICK, equal
from torch import Tensor

from truesigma.imaging.gpu.captured_step import Step, captured
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training import epoch as epochs
from truesigma.imaging.training import step as steps


def test_batches_are_made_one_ahead_on_a_second_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pretended CUDA: order kept, each waited for and marked as used on the main stream, none made too early."""
    log: list[str] = []
    marked = SimpleNamespace(record_stream=lambda stream: log.append("mark"))
    main = SimpleNamespace(wait_event=lambda event: log.append(f"wait {event}"))
    events = iter(range(100))
    side = SimpleNamespace(wait_stream=lambda other: None, record_event=lambda: next(events))
    fake = SimpleNamespace(
        Stream=lambda device: side, current_stream=lambda device: main, stream=lambda s: nullcontext()
    )
    monkeypatch.setattr(epochs, "torch", SimpleNamespace(cuda=fake))

    def made():
        for number in range(3):
            log.append(f"make {number}")
            yield marked, marked

    for number, _ in enumerate(epochs.one_ahead(made(), SimpleNamespace(type="cuda"))):
        log.append(f"step {number}")
    assert [entry for entry in log if entry != "mark"] == [
        "make 0", "make 1", "wait 0", "step 0", "make 2", "wait 1", "step 1", "wait 2", "step 2",
    ]  # fmt: skip
    assert log.count("mark") == 6


class Recorder:
    """Stands for torch.cuda.CUDAGraph where there is no GPU: `graph` notes the step, `replay` runs it again."""

    def __init__(self) -> None:
        self.work: Callable[[], None] = lambda: None

    def replay(self) -> None:
        self.work()


@contextmanager
def pretended(monkeypatch: pytest.MonkeyPatch, step: Step, fails: bool = False):
    """A CUDA whose streams do nothing and whose graphs run the step they were given."""
    noted: list[tuple[Tensor, Tensor]] = []

    def noting(images: Tensor, target: Tensor) -> None:
        noted.append((images, target))
        step(images, target)

    @contextmanager
    def capture(graph: Recorder, capture_error_mode: str):
        yield
        if fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        graph.work = lambda: step(*noted[-1])

    stream = SimpleNamespace(wait_stream=lambda other: None)
    fake = SimpleNamespace(
        CUDAGraph=Recorder, Stream=lambda: stream, current_stream=lambda: stream, stream=lambda s: nullcontext(),
        synchronize=lambda: None, graph=capture, is_available=lambda: False,  # optimisers of older torch ask
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(steps.torch, "cuda", fake)
        yield noting


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("used", [False, True])
def test_a_captured_step_starts_from_the_weights_given(monkeypatch, data, optimizer: str, used: bool) -> None:
    """Warm-up and capture leave weights, buffers and optimiser as they were; replays then train as plain steps do."""
    recipe = TrainingRecipe(
        optimizer=optimizer, momentum=0.9, learning_rate=1e-2, head_dropout={"other": 0}, stage_dropout=0
    )
    split, results = data.splits["train"], []
    parts = [(data.prepare(split.images[i : i + 8]), split.target[i : i + 8]) for i in range(0, 40, 8)]
    for graphed in (False, True):
        net = build("small", 1, 2, recipe, seed=0)
        made, meter = steps.make_optimizer(net, recipe, torch.device("cpu")), steps.Meter(torch.device("cpu"))
        step = steps.plain(net, Tensor.backward, made, meter, likelihood="gaussian", precision="fp32")
        if used:
            step(*parts[4])
        if graphed:
            with pretended(monkeypatch, step) as noting:
                step = captured(noting, net, made, *parts[3], meter.reset)
        meter.reset()
        for batch in parts:
            step(*batch)
        results.append((net.state_dict(), meter.sums.clone(), int(meter.step)))
    assert equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert results[1][2] == len(parts)


def test_a_capture_that_fails_warns_and_runs_plainly(monkeypatch, data) -> None:
    net = build("small", 1, 2, QUICK, seed=0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    made, meter = steps.make_optimizer(net, QUICK, torch.device("cpu")), steps.Meter(torch.device("cpu"))
    step = steps.plain(net, Tensor.backward, made, meter, likelihood="gaussian", precision="fp32")
    split = data.splits["train"]
    with pretended(monkeypatch, step, fails=True) as noting, pytest.warns(UserWarning, match="CUDA graph"):
        chosen = captured(noting, net, made, data.prepare(split.images[:8]), split.target[:8], meter.reset)
    assert chosen is noting
    assert equal(before, net.state_dict())
    assert int(meter.step) == 0
