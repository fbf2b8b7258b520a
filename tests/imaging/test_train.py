"""The training loop: it learns, resumes bit for bit, keeps the best, and names what is broken."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from truesigma.imaging import checkpoint
from truesigma.imaging import epoch as epochs
from truesigma.imaging import step as steps
from truesigma.imaging.checkpoint import (
    pack_optimizer,
    read_state,
    unpack_optimizer,
    write_state,
)
from truesigma.imaging.data import DataSet, Split
from truesigma.imaging.losses import gaussian
from truesigma.imaging.network import build
from truesigma.imaging.plateau import Plateau
from truesigma.imaging.recipe import Recipe
from truesigma.imaging.runs import load_run
from truesigma.imaging.train import NonFinite, Trained, train
from truesigma.imaging.validate import validate

SIDE = 16
QUICK = Recipe(epochs=4, batch=8, learning_rate=3e-3, patience=1, stage_dropout=0.1)


def same(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return images, target


def shaken(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return images + 0.05 * torch.randn(images.shape, generator=generator), target


def blobs(cases: int, seed: int) -> Split:
    """A spot whose place is the target (2 outputs), on grey whose brightness is the noise of the target."""
    generator = torch.Generator().manual_seed(seed)
    place, level = torch.rand(cases, 2, generator=generator), torch.rand(cases, 1, generator=generator)
    axis = torch.linspace(0, 1, SIDE)
    spot = torch.exp(
        -((axis[None, :, None] - place[:, :1, None]) ** 2 + (axis - place[:, 1:, None]) ** 2) / 0.02
    )
    image = (100 * spot + 150 * level[:, :, None]).clamp(0, 255).to(torch.uint8)[:, None]
    target = place + (0.01 + 0.2 * level) * torch.randn(cases, 2, generator=generator)
    return Split(image, target, tuple(f"case{i}.png" for i in range(cases)))


def dataset(train: Split, valid: Split, test: Split | None, augment: Callable[..., Any] = shaken) -> DataSet:
    splits = {"train": train, "valid": valid} | ({"test": test} if test is not None else {})
    return DataSet(
        "blobs", splits, lambda x: x.float() / 255, augment, ("mm", "mm"), torch.zeros(2), torch.ones(2)
    )


@pytest.fixture(scope="module")
def data() -> DataSet:
    return dataset(blobs(44, 1), blobs(24, 2), blobs(24, 3))


def fit(data: DataSet, recipe: Recipe = QUICK, *, backbone: str = "small", **options: Any) -> Trained:
    net = build(backbone, 1, 2, recipe, seed=5)
    return train(net, data, recipe, seed=1, **({"device": "cpu", "quiet": True} | options))


def weights(trained: Trained) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trained.net.state_dict().items()}


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def numbers(trained: Trained) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in trained.history]


def test_it_learns_the_place_and_the_noise() -> None:
    data = dataset(blobs(600, 1), blobs(300, 2), blobs(300, 3), same)
    recipe = Recipe(
        epochs=12, batch=16, learning_rate=2e-3, patience=4, stage_dropout=0.0, head_dropout={"other": 0}
    )
    trained = fit(data, recipe)
    first, best = trained.history[0], trained.history[trained.best_epoch - 1]
    spread = float(data.splits["valid"].target.var())
    assert best["valid_mse"] < 0.35 * spread
    assert best["valid_mse"] < 0.6 * first["valid_mse"]
    assert best["train_loss"] < first["train_loss"]
    # bright images are the noisy ones: the network says so
    test = data.splits["test"]
    with torch.no_grad():
        _, log_variance = trained.net(data.prepare(test.images))
    level = test.images.float().flatten(1).quantile(0.25, dim=1)
    dark, bright = log_variance[level < level.quantile(0.25)], log_variance[level > level.quantile(0.75)]
    assert float(bright.mean() - dark.mean()) > 0.4
    assert 0.6 < best["test_factor"] < 1.4
    assert best["test_variance_scaled"] == pytest.approx(best["valid_factor"] ** 2 * best["test_variance"])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_resume_after_a_break_in_an_epoch_is_bit_identical(
    data: DataSet, tmp_path: Path, optimizer: str
) -> None:
    recipe = Recipe(epochs=4, batch=8, learning_rate=3e-3, patience=0, optimizer=optimizer, momentum=0.9)
    whole = fit(data, recipe, out=tmp_path / "whole")
    calls = 0

    def breaks(images: Tensor, target: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        nonlocal calls
        calls += 1
        if calls == 2 * 6 + 3:  # six batches an epoch: the third batch of the third epoch
            raise KeyboardInterrupt
        return shaken(images, target, generator)

    with pytest.raises(KeyboardInterrupt):
        fit(dataset(*data.splits.values(), breaks), recipe, out=tmp_path / "broken")
    assert read_state(tmp_path / "broken" / "last.safetensors")[1]["epoch"] == 2
    # the network given to the resumed call may hold anything
    net = build("small", 1, 2, recipe, seed=99)
    again = train(net, data, recipe, seed=1, out=tmp_path / "broken", device="cpu", quiet=True)
    assert equal(weights(again), weights(whole))
    assert numbers(again) == numbers(whole)
    for name in ("last.safetensors", "best.safetensors"):
        a, b = (read_state(tmp_path / folder / name)[0] for folder in ("whole", "broken"))
        assert equal(a, b)


def test_time_limit_stops_and_the_same_call_goes_on(data: DataSet, tmp_path: Path) -> None:
    whole = fit(data)
    part = fit(data, out=tmp_path, time_limit=0.0)
    assert not part.finished
    assert len(part.history) == 1
    while not part.finished:
        part = fit(data, out=tmp_path, time_limit=0.0)
    assert equal(weights(part), weights(whole))
    assert numbers(part) == numbers(whole)
    done = fit(data, out=tmp_path)  # a finished run only loads
    assert done.finished
    assert equal(weights(done), weights(whole))


SCRIPT = """
import sys, time
sys.path.insert(0, {here!r})
import test_train as t
def slow(images, target, generator):
    time.sleep({pause})
    return t.shaken(images, target, generator)
data = t.dataset(t.blobs(44, 1), t.blobs(24, 2), t.blobs(24, 3), slow)
recipe = t.Recipe(epochs=8, batch=8, learning_rate=3e-3, patience=1, stage_dropout=0.1)
t.fit(data, recipe, out={out!r}, devices={devices})
"""


def script(folder: Path, out: Path, *, pause: float = 0.0, devices: int = 1) -> list[str]:
    here = str(Path(__file__).parent)
    path = folder / f"run{devices}_{pause}.py"
    path.write_text(SCRIPT.format(here=here, out=str(out), pause=pause, devices=devices))
    return [sys.executable, str(path)]


@pytest.mark.slow
def test_kill_9_loses_at_most_the_current_epoch(tmp_path: Path) -> None:
    subprocess.run(script(tmp_path, tmp_path / "whole"), check=True)
    for tries in range(6):
        process = subprocess.Popen(script(tmp_path, tmp_path / "killed", pause=0.05))
        last, before = tmp_path / "killed" / "last.safetensors", tries
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if last.exists() and read_state(last)[1]["epoch"] > before:
                time.sleep(0.02 * tries)  # die at different moments of an epoch
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert read_state(last)[1]["epoch"] > before
    subprocess.run(script(tmp_path, tmp_path / "killed"), check=True)
    for name in ("last.safetensors", "best.safetensors"):
        assert equal(read_state(tmp_path / "whole" / name)[0], read_state(tmp_path / "killed" / name)[0])
    assert not list((tmp_path / "killed").glob(".*"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.integers(0, 3))
def test_plateau_is_torchs(values: list[float], patience: int) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience, factor=0.5, eps=0)
    ours = Plateau(1.0)
    for value in values:
        theirs.step(value)
        ours = Plateau.from_dict(json.loads(json.dumps(ours.to_dict())))
        ours = ours.after(value, patience=patience, factor=0.5)
        assert ours.rate == optimizer.param_groups[0]["lr"]


def test_plateau_counts_no_gain_in_a_loss_below_zero() -> None:
    state = Plateau(1.0)
    for _ in range(3):
        state = state.after(-2.0, patience=0, factor=0.5)
    assert state.rate == 0.25


def test_rate_falls_in_the_history(data: DataSet) -> None:
    recipe = Recipe(epochs=5, batch=44, learning_rate=1e-12, patience=1, factor=0.5)
    rates = [row["learning_rate"] for row in fit(data, recipe).history]
    assert rates == pytest.approx([1e-12, 1e-12, 1e-12, 5e-13, 5e-13], rel=1e-9)


@pytest.mark.parametrize("keep", ["valid_mse", "valid_loss", "last"])
def test_the_kept_weights_are_the_best_epochs(data: DataSet, tmp_path: Path, keep: str) -> None:
    recipe = Recipe(epochs=5, batch=8, learning_rate=2e-2, patience=20, keep=keep)
    trained = fit(data, recipe, out=tmp_path)
    column = [row["valid_mse" if keep == "last" else keep] for row in trained.history]
    best = len(column) if keep == "last" else min(range(len(column)), key=column.__getitem__) + 1
    assert trained.best_epoch == best
    sums = validate(
        trained.net,
        data,
        data.splits["valid"],
        likelihood="gaussian",
        precision="fp32",
        size=7,
        device=torch.device("cpu"),
    )
    assert float(sums[2] / sums[0]) == pytest.approx(trained.history[best - 1]["valid_mse"], rel=1e-5)
    net, meta = load_run(tmp_path)
    assert equal(net.state_dict(), weights(trained))
    assert not net.training
    assert meta["data"]["unit"] == ["mm", "mm"]
    assert meta["recipe"]["train"]["keep"] == keep


def test_the_test_split_chooses_nothing(data: DataSet) -> None:
    train_split, valid, test = data.splits.values()
    other = Split(test.images.flip(0), 1 - test.target, test.name)
    runs = [fit(dataset(train_split, valid, split)) for split in (test, other, None)]
    assert equal(weights(runs[0]), weights(runs[1]))
    assert equal(weights(runs[0]), weights(runs[2]))
    assert runs[0].history[0]["test_mse"] != runs[1].history[0]["test_mse"]
    assert runs[2].history[0]["test_mse"] is None


def test_validate_is_the_slow_loop(data: DataSet) -> None:
    net = build("small", 1, 2, QUICK, variances="each", seed=0).eval()
    split = data.splits["valid"]
    sums = [0.0] * 5
    for i in range(len(split)):
        with torch.no_grad():
            mean, log_variance = net(data.prepare(split.images[i : i + 1]))
        error, variance = (mean - split.target[i]).square(), log_variance.exp()
        loss = gaussian(mean, log_variance, split.target[i : i + 1])
        for j, value in enumerate(
            (torch.ones(1), loss, error.mean(), variance.mean(), (error / variance).mean())
        ):
            sums[j] += float(value)
    for size, world in ((5, 1), (100, 1), (5, 3)):
        options = {"likelihood": "gaussian", "precision": "fp32", "size": size, "device": torch.device("cpu")}
        parts = [validate(net, data, split, **options, rank=rank, world=world) for rank in range(world)]
        torch.testing.assert_close(sum(parts), torch.tensor(sums, dtype=torch.float64), rtol=1e-5, atol=1e-6)


def test_laplace_factor_is_the_mean_of_error_over_b(data: DataSet) -> None:
    trained = fit(data, likelihood="laplace")
    split = data.splits["test"]
    with torch.no_grad():
        mean, log_b = trained.net(data.prepare(split.images))
    row = trained.history[trained.best_epoch - 1]
    assert row["test_factor"] == pytest.approx(
        float(((split.target - mean).abs() / log_b.exp()).mean()), rel=1e-4
    )
    assert row["test_variance"] == pytest.approx(float((2 * (2 * log_b).exp()).mean()), rel=1e-4)


class TestBrokenData:
    def test_an_image_that_is_not_finite_is_named_and_the_last_state_kept(self, tmp_path: Path) -> None:
        split = blobs(20, 1)
        images = split.images.float()
        broken = Split(images.index_fill(0, torch.tensor(13), torch.nan), split.target, split.name)
        recipe = Recipe(epochs=2, batch=4)
        good = dataset(Split(images, split.target, split.name), blobs(8, 2), None, same)
        fit(good, Recipe(epochs=1, batch=4), out=tmp_path)
        before = read_state(tmp_path / "last.safetensors")
        with pytest.raises(
            NonFinite, match=r"Not finite in the data: case13.png.*state after epoch 1"
        ) as caught:
            fit(dataset(broken, blobs(8, 2), None, same), recipe, out=tmp_path)
        assert str(caught.value).count(".png") == 4 + 1  # the four cases of the batch, and the cause
        after = read_state(tmp_path / "last.safetensors")
        assert equal(before[0], after[0])
        assert before[1] == after[1]

    def test_on_the_processor_the_weights_are_not_touched_by_it(self) -> None:
        split = blobs(8, 1)
        images = split.images.float().index_fill(0, torch.tensor(3), torch.nan)
        net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3))
        two = Halves(net)
        before = {name: value.clone() for name, value in two.state_dict().items()}
        broken = dataset(Split(images, split.target, split.name), blobs(8, 2), None, same)
        with pytest.raises(NonFinite, match=r"case3\.png"):
            train(two, broken, Recipe(epochs=1, batch=8), seed=0, device="cpu", quiet=True)
        assert equal(before, two.state_dict())

    def test_a_case_without_target_is_named_before_anything_runs(self) -> None:
        split = blobs(8, 1)
        bare = Split(split.images, split.target.index_fill(0, torch.tensor(5), torch.nan), split.name)
        with pytest.raises(ValueError, match=r"case5\.png"):
            fit(dataset(bare, blobs(8, 2), None))
        with pytest.raises(ValueError, match="'valid'"):
            fit(dataset(split, bare, None))

    def test_a_validation_image_that_is_not_finite_is_named(self) -> None:
        split = blobs(8, 2)
        images = split.images.float().index_fill(0, torch.tensor(2), torch.inf)
        with pytest.raises(NonFinite, match=r"case2\.png"):
            fit(dataset(blobs(8, 1), Split(images, split.target, split.name), None))


class Halves(nn.Module):
    """A module of one's own: the last of its outputs is the log-variance."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out = self.inner(x)
        return out[:, :-1], out[:, -1:]


def test_a_module_of_ones_own_trains_and_says_how_to_read_it(data: DataSet, tmp_path: Path) -> None:
    net = Halves(nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3)))
    train(net, data, Recipe(epochs=1, batch=8), seed=0, out=tmp_path, device="cpu", quiet=True)
    with pytest.raises(ValueError, match="load_weights"):
        load_run(tmp_path)


def test_a_file_is_no_folder_of_a_run(data: DataSet, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file; expected the folder of a run"):
        fit(data, out=tmp_path / "file")


def test_a_run_with_other_choices_is_not_continued(data: DataSet, tmp_path: Path) -> None:
    fit(data, out=tmp_path)
    longer = Recipe(epochs=5, batch=8, learning_rate=3e-3, patience=1, stage_dropout=0.1)
    assert len(fit(data, longer, out=tmp_path).history) == 5
    with pytest.raises(ValueError, match=r"train\.batch"):
        fit(data, Recipe(epochs=5, batch=4, learning_rate=3e-3, patience=1, stage_dropout=0.1), out=tmp_path)
    with pytest.raises(ValueError, match="likelihood"):
        fit(data, longer, out=tmp_path, likelihood="laplace")
    with pytest.raises(ValueError, match=r"data\.cases"):
        fit(dataset(blobs(40, 1), blobs(24, 2), None), longer, out=tmp_path)
    anew = fit(data, Recipe(epochs=1, batch=4), out=tmp_path, resume=False)
    assert len(anew.history) == 1


def test_files_of_a_run_are_plain(data: DataSet, tmp_path: Path) -> None:
    trained = fit(data, out=tmp_path, record={"root": "somewhere"})
    for name in ("best.safetensors", "last.safetensors"):
        with safe_open(tmp_path / name, framework="pt") as file:
            json.loads(file.metadata()["state"])
    meta = json.loads((tmp_path / "recipe.json").read_text())
    assert meta["network"]["backbone"] == "small"
    assert meta["record"] == {"root": "somewhere"}
    with (tmp_path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["valid_mse"]) for row in rows] == [row["valid_mse"] for row in trained.history]
    assert list((tmp_path / "tensorboard").iterdir())
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors", ".json", ".csv", ""}


def test_seldom_checkpoints_are_still_written_at_the_end(data: DataSet, tmp_path: Path) -> None:
    seen: list[bool] = []
    fit(
        data,
        out=tmp_path,
        checkpoint_every=1e6,
        progress=lambda _: seen.append((tmp_path / "last.safetensors").exists()),
    )
    assert seen == [False, False, False, True]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.safetensors"
    write_state(path, {"a": torch.arange(6.0).reshape(2, 3).T}, {"epoch": 1})

    def fails(tensors: object, part: Path, metadata: object) -> None:
        part.write_bytes(b"half")
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", fails)
    with pytest.raises(OSError, match=r"state.safetensors could not be written: No space left"):
        write_state(path, {"a": torch.zeros(1)}, {"epoch": 2})
    tensors, values = read_state(path)
    assert values == {"epoch": 1}
    assert torch.equal(tensors["a"], torch.arange(6.0).reshape(2, 3).T)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.safetensors"]
    path.write_bytes(b"not a state")
    with pytest.raises(ValueError, match=r"state\.safetensors"):
        read_state(path)


def test_optimiser_state_comes_back_in_the_layout_of_its_parameter() -> None:
    """Fused kernels on a GPU refuse moments whose strides are not the parameter's."""
    nets = [nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last) for _ in range(2)]
    adams = [torch.optim.Adam(net.parameters(), fused=True) for net in nets]
    nets[0](torch.rand(2, 3, 8, 8)).sum().backward()
    adams[0].step()
    stored = {name: value.contiguous() for name, value in pack_optimizer(nets[0], adams[0]).items()}
    unpack_optimizer(stored, nets[1], adams[1])
    first, second = (adam.state[net.weight] for adam, net in zip(adams, nets))
    assert second["exp_avg"].stride() == nets[1].weight.stride()
    assert all(torch.equal(first[key], second[key]) for key in ("exp_avg", "exp_avg_sq", "step"))


def test_torchs_generator_is_left_alone_and_the_seed_decides(data: DataSet) -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    a = fit(data)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    assert equal(weights(fit(data)), weights(a))
    other = train(build("small", 1, 2, QUICK, seed=5), data, QUICK, seed=2, device="cpu", quiet=True)
    assert not equal(weights(other), weights(a))


def test_streamed_images_train_like_those_in_memory(data: DataSet) -> None:
    class Images:
        def __init__(self, images: Tensor) -> None:
            self.images = images

        def __len__(self) -> int:
            return len(self.images)

        def __getitem__(self, index: int) -> Tensor:
            return self.images[index]

    streamed = dataset(*(Split(Images(s.images), s.target, s.name) for s in data.splits.values()))
    assert equal(weights(fit(streamed, workers=2)), weights(fit(data)))


def test_bf16_learns_about_the_same(data: DataSet) -> None:
    half, full = fit(data, precision="bf16"), fit(data)
    assert half.history[0]["train_mse"] == pytest.approx(full.history[0]["train_mse"], rel=0.1)
    assert half.history[-1]["train_mse"] < half.history[0]["train_mse"]
    assert {value.dtype for value in weights(half).values()} == {torch.float32, torch.int64}


def test_volumes_train(data: DataSet) -> None:
    def volume(split: Split) -> Split:
        return Split(split.images[:, :, None].expand(-1, -1, SIDE, -1, -1), split.target, split.name)

    trained = fit(dataset(*map(volume, data.splits.values())), Recipe(epochs=1, batch=8), backbone="small3d")
    assert trained.finished


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "cauchy"}, "likelihood"), ({"precision": "fp8"}, "precision"), ({"device": "gpu"}, "device"),
        ({"graph": "yes"}, "graph"), ({"devices": 3}, "shared out"),
    ],
)  # fmt: skip
def test_bad_options_are_named(data: DataSet, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(data, **options)


def test_lines_say_what_is_left(data: DataSet, capsys: pytest.CaptureFixture[str]) -> None:
    fit(data, quiet=False)
    text = capsys.readouterr().err
    assert "epoch 1/4" in text
    assert "epoch 4/4" in text
    assert "0:00:00 left" in text


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
def pretended(monkeypatch: pytest.MonkeyPatch, step: steps.Step, fails: bool = False):
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
        synchronize=lambda: None, graph=capture,
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(steps.torch, "cuda", fake)
        yield noting


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("used", [False, True])
def test_a_captured_step_starts_from_the_weights_given(monkeypatch, data, optimizer: str, used: bool) -> None:
    """Warm-up and capture leave weights, buffers and optimiser as they were; replays then train as plain steps do."""
    recipe = Recipe(
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
                step = steps.captured(noting, net, made, meter, *parts[3])
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
        chosen = steps.captured(noting, net, made, meter, data.prepare(split.images[:8]), split.target[:8])
    assert chosen is noting
    assert equal(before, net.state_dict())
    assert int(meter.step) == 0


@pytest.mark.slow
def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    """Without batch statistics and dropout, two processes with half batches give the gradients of one."""
    text = (
        "import sys, torch\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_train as t\n"
        "torch.manual_seed(0)\n"
        "seen = []\n"
        "def note(images, target, generator):\n"
        "    seen.extend(target[:, 0].tolist())\n"
        "    return images, target\n"
        "nn = torch.nn\n"
        "net = t.Halves(nn.Sequential(nn.Flatten(), nn.Linear(256, 32), nn.Tanh(), nn.Linear(32, 3)))\n"
        "data = t.dataset(t.blobs(44, 1), t.blobs(25, 2), t.blobs(24, 3), note)\n"
        "recipe = t.Recipe(epochs=3, batch=8, learning_rate=3e-3)\n"
        "out, devices = sys.argv[1], int(sys.argv[2])\n"
        "trained = t.train(net, data, recipe, seed=1, out=out, device='cpu', devices=devices, quiet=True)\n"
        "import os\n"
        "rank = os.environ.get('LOCAL_RANK', '0')\n"
        "t.json.dump(seen, open(f'{out}/seen{rank}.json', 'w'))\n"
    )
    path = tmp_path / "two.py"
    path.write_text(text)
    for devices in (1, 2):
        done = subprocess.run(
            [sys.executable, str(path), str(tmp_path / str(devices)), str(devices)], env=os.environ
        )
        assert done.returncode == 0
    one, two = (read_state(tmp_path / str(n) / "last.safetensors") for n in (1, 2))
    for name, value in one[0].items():
        torch.testing.assert_close(two[0][name], value, rtol=1e-3, atol=1e-5)
    for a, b in zip(one[1]["rows"], two[1]["rows"]):
        for column in ("train_loss", "train_mse", "valid_mse", "valid_factor", "test_variance"):
            assert b[column] == pytest.approx(a[column], rel=1e-3)
    seen = [json.loads((tmp_path / "2" / f"seen{rank}.json").read_text()) for rank in (0, 1)]
    for epoch in range(3):
        first, second = (set(part[22 * epoch : 22 * epoch + 22]) for part in seen)
        assert len(first) == len(second) == 22
        assert not first & second
    with (tmp_path / "2" / "history.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3


def test_cosine_ends_low_and_keeps_its_length(tmp_path: Path, data: DataSet) -> None:
    recipe = Recipe(epochs=4, batch=8, learning_rate=3e-3, schedule="cosine", stage_dropout=0.1)
    whole = fit(data, recipe)
    half = [0.5 * 3e-3 * (1 + math.cos(math.pi * epoch / 4)) for epoch in range(4)]
    assert [row["learning_rate"] for row in whole.history] == pytest.approx(half)
    fit(data, recipe, out=tmp_path, time_limit=0.0)
    resumed = fit(data, recipe, out=tmp_path)
    assert resumed.finished
    assert all(
        torch.equal(a, b) for a, b in zip(whole.net.state_dict().values(), resumed.net.state_dict().values())
    )
    longer = Recipe(epochs=5, batch=8, learning_rate=3e-3, schedule="cosine", stage_dropout=0.1)
    with pytest.raises(ValueError, match=r"train\.epochs = 4, now 5"):
        fit(data, longer, out=tmp_path)
