"""Train a two-head network: one visible loop."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ...core.checks import number_of
from ...files.disk import locked
from ..data.dataset import DataSet, Split, batches, resident
from ..gpu.captured_step import Step, captured
from ..gpu.faster import faster
from ..network.two_head import TwoHead
from ..recipe import TrainingRecipe
from .checkpoint import State, advance, done, fresh, improves, mend, rate, restore, save, tidy
from .checks import check_choices, check_detached, check_network, warn_of_scale
from .devices import Alone, Processes, average_buffers, over_all, said_by_first, start
from .epoch import seed_of, train_epoch
from .folder import BEST, HISTORY, LAST, as_begun, check_same, describe, write_recipe
from .history import Board, Watch, rmse_in_unit, write_history
from .step import Meter, channels_last, make_optimizer, plain, set_rate
from .validate import NonFinite, means, random_parts, validate, warn_of_shift

__all__ = ["NonFinite", "Trained", "train"]

WORTH_IT = 5000  # steps above which the faster one, 3 to 8 ms quicker, pays for compiling its kernels first
LOOK_EVERY = 5  # epochs between looks at the test split and without dropout, which choose nothing


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network with the kept weights loaded, and how it went: one row per epoch."""

    net: nn.Module
    history: tuple[Mapping[str, Any], ...]
    best_epoch: int
    finished: bool
    recipe: TrainingRecipe
    seed: int
    out: Path | None

    def __repr__(self) -> str:
        """How many epochs, and which one was kept."""
        state = "finished" if self.finished else "stopped"
        return f"Trained({state} after {number_of(len(self.history), 'epoch')}, kept epoch {self.best_epoch})"


def train(
    net: nn.Module,
    data: DataSet,
    recipe: TrainingRecipe,
    *,
    seed: int,
    out: str | Path | None = None,
    likelihood: str = "gaussian",
    device: str = "auto",
    precision: str = "fp32",
    devices: int = 1,
    time_limit: float | None = None,
    resume: bool = True,
    checkpoint_every: float = 0.0,
    graph: str = "auto",
    workers: int = 4,
    quiet: bool = False,
    progress: Callable[[Mapping[str, Any]], None] | None = None,
    record: Mapping[str, Any] | None = None,
    test: bool = True,
) -> Trained:
    """Train a network that returns (mean, log-variance) on the train split, watching the validation split.

    Each epoch visits the cases in a new order. The random numbers of an epoch depend on the seed and the epoch
    alone, so a resumed run repeats an uninterrupted one (on the processor bit for bit). The weights kept are
    the best epoch's by the recipe's `keep`. Test numbers are recorded and never used to choose.

    A row of the history: epoch, seconds, train_seconds, learning_rate; train_* as running means over the epoch
    (augmented, dropout on, weights still moving); valid_* and test_* after it, with dropout, from two draws;
    valid_mse_one_pass without. The test split and the pass without dropout are looked at in every fifth epoch and in
    each new best one, and are None in the others. loss is in nats per output, mse that of the mean of many draws,
    estimated from the two, valid_mse_two_draws that of their own mean (see `case_scores`), variance the mean predicted
    (aleatoric) one v, factor = sqrt(mean(e / v)) (Laplace: mean(|y - mu| / b)), and
    test_variance_scaled = valid_factor^2 test_variance. train_rmse and valid_rmse are in the target's unit, if all
    outputs have one scale.

    Arguments:
        net: from `build`, or any module that returns (mean, log-variance).
        data: with the splits train, valid and, optionally, test.
        recipe: what to do; its batch is shared out over `devices`.
        seed: of the order, the augmentation and the dropout.
        out: folder for recipe.json, best and last.safetensors, history.csv, tensorboard; None writes nothing.
        likelihood: "gaussian" or "laplace".
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        precision: "fp32" or "bf16" (autocast; weights and heads stay float32).
        devices: processes, one per GPU (or on the processor), gradients averaged.
        time_limit: seconds; no epoch is begun that would end after it, but one is always trained.
        resume: continue the run in `out` if there is one; False overwrites it.
        checkpoint_every: seconds between checkpoints; 0: every epoch, so that a kill loses one at most.
        graph: "auto" captures the step as a CUDA graph on one GPU, and in a long run uses fused kernels in it if Triton
            is installed (see `faster`); all batches are then full, and the cases left over wait for the next epoch's
            order. "off" never does, and keeps the smaller last batch.
        workers: threads that read streamed images.
        progress: called with each row.
        record: plain values to keep in recipe.json, such as the data set's options.
        test: also look at the test split, which chooses nothing; False leaves its columns empty.

    Returns:
        Trained; `finished` is False if the time limit came first: the same call resumes.

    >>> from truesigma.imaging.data.dataset import DataSet, Split
    >>> from truesigma.imaging.network.two_head import build
    >>> def some(n): return Split(torch.rand(n, 1, 32, 32), torch.rand(n, 1), tuple(map(str, range(n))))
    >>> data = DataSet("noise", {"train": some(8), "valid": some(4)}, torch.Tensor.float,
    ...                lambda images, target, generator: (images, target), ("",), torch.zeros(1), torch.ones(1))
    >>> recipe = TrainingRecipe(epochs=2, batch=4)
    >>> train(build("small", 1, 1, recipe, seed=0), data, recipe, seed=0, device="cpu", quiet=True).finished
    True
    """
    called = time.monotonic()
    check_choices(data, recipe, likelihood=likelihood, precision=precision, graph=graph, devices=devices)
    check_network(net, data)
    if recipe.loss == "faithful":
        check_detached(net, data)
    warn_of_scale(data.splits["train"])
    processes = start(device, devices, unused=recipe.loss == "mse")
    where, rank, world = processes.device, processes.global_rank, processes.world_size
    leads = processes.is_global_zero
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected the folder of a run, new or begun")
    recipe = as_begun(folder, recipe) if resume else recipe
    said = describe(
        net, data, recipe, seed=seed, likelihood=likelihood, precision=precision, record=record or {}
    )
    splits = {
        name: resident(data.splits[name], where) for name in ("train", "valid", "test") if name in data.splits
    }
    if "test" in splits and not (test and splits["test"].labelled):
        del splits["test"]
    held = locked(folder if leads else None)
    with held, torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        net.to(where)
        for parameter in net.parameters():
            parameter.data = channels_last(parameter.data)
        if recipe.loss in ("faithful", "mse") and isinstance(net, TwoHead):
            # If the variance weighs the mean's errors, another start would train the mean differently.
            net.expect(splits["train"].target.var(0, correction=0))
        optimizer = make_optimizer(net, recipe, where)
        if folder is not None and leads:
            tidy(folder)
            if resume and (folder / LAST).is_file():
                check_same(folder, said)
                mend(folder, recipe)
        processes.barrier()
        state = _begin(net, optimizer, recipe, folder, resume=resume, leads=leads)
        processes.barrier()
        if done(state, recipe):
            return _trained(net, state, recipe, seed, folder)
        if folder is not None and leads:
            write_recipe(folder, said)  # again if a run resumes: for more epochs, or from another place
        size, meter = min(recipe.batch, len(splits["train"])) // world, Meter(where)
        step, full, fast = _step(
            net,
            optimizer,
            meter,
            processes,
            data,
            splits["train"],
            graph,
            size,
            likelihood=likelihood,
            precision=precision,
            loss=recipe.loss,
            steps=(recipe.epochs - state.epoch) * (len(splits["train"]) // (size * world)),
        )
        on = random_parts(net, data, splits["valid"], precision=precision, device=where)
        seen: dict[str, Any] = {
            "likelihood": likelihood, "precision": precision, "device": where, "rank": rank, "world": world,
            "workers": workers, "size": (16 if where.type == "cuda" else 4) * recipe.batch, "fast": fast,
        }  # fmt: skip
        watch = Watch(recipe.epochs, state.epoch, quiet=quiet or not leads, unit=data.unit[0])
        board = Board(folder / "tensorboard" if folder and leads else None, state.epoch + 1)
        saved, stopped = time.monotonic(), False
        try:
            while not done(state, recipe) and not stopped:
                began = time.monotonic()
                set_rate(optimizer, rate(state, recipe))
                sums = train_epoch(
                    net, data, splits["train"], step, meter, seed=seed, epoch=state.epoch + 1, size=size,
                    full=full, rank=rank, world=world, device=where, workers=workers,
                )  # fmt: skip
                trained = time.monotonic()
                average_buffers(net, processes)
                # The same draws in every epoch: what changes is the network.
                drawn: dict[str, Any] = {"on": on, "seed": seed_of(seed, rank), **seen}
                sums = over_all(processes, sums)
                scores = {"valid": over_all(processes, validate(net, data, splits["valid"], **drawn))}
                if on is None:
                    scores["one pass"] = scores["valid"]
                elif "valid_mse_one_pass" in (recipe.watch, recipe.keep):
                    scores["one pass"] = over_all(processes, validate(net, data, splits["valid"], **seen))
                row: dict[str, Any] = {"epoch": state.epoch + 1, **means(sums, scores, likelihood)}
                if row["epoch"] % LOOK_EVERY == 0 or improves(state, row, recipe):
                    if "one pass" not in scores:
                        scores["one pass"] = over_all(processes, validate(net, data, splits["valid"], **seen))
                    if "test" in splits:
                        scores["test"] = over_all(processes, validate(net, data, splits["test"], **drawn))
                    row |= means(sums, scores, likelihood)
                row |= {
                    **rmse_in_unit(row, data),
                    "seconds": time.monotonic() - began,
                    "train_seconds": trained - began,
                    "learning_rate": rate(state, recipe),
                }
                advance(state, row, net, recipe)
                spent, took = time.monotonic() - called, time.monotonic() - began
                stopped = time_limit is not None and spent + took > time_limit
                stopped = said_by_first(processes, stopped)
                if folder is not None and leads:
                    write_history(folder / HISTORY, state.rows, state.best_epoch)
                    due = time.monotonic() - saved >= checkpoint_every
                    if due or stopped or done(state, recipe):
                        save(folder, state, net, optimizer)
                        saved = time.monotonic()
                board.add(row)
                watch.show(row, kept=state.best_epoch == row["epoch"])
                if progress is not None and leads:
                    progress(row)
        except NonFinite as error:
            raise NonFinite(f"{error}. {_put_back(net, state, folder)}") from None
        finally:
            watch.close()
            board.close()
        processes.barrier()
        return _trained(net, state, recipe, seed, folder)


def _trained(net: nn.Module, state: State, recipe: TrainingRecipe, seed: int, folder: Path | None) -> Trained:
    """The network with its kept weights, ready to predict."""
    net.load_state_dict(state.best)
    net.zero_grad(set_to_none=True)  # gradients of a captured step would keep its memory
    net.eval()
    warn_of_shift(state.rows[state.best_epoch - 1])
    return Trained(net, tuple(state.rows), state.best_epoch, done(state, recipe), recipe, seed, folder)


def _begin(
    net: nn.Module,
    optimizer: Optimizer,
    recipe: TrainingRecipe,
    folder: Path | None,
    *,
    resume: bool,
    leads: bool,
) -> State:
    """The state to start from: the checkpoint's if a run resumes, otherwise a fresh one."""
    if folder is not None and resume and (folder / LAST).is_file():
        return restore(folder, net, optimizer, recipe)
    if folder is not None and leads:
        for name in (LAST, BEST, HISTORY):
            (folder / name).unlink(missing_ok=True)
    return fresh(recipe)


def _step(
    net: nn.Module,
    optimizer: Optimizer,
    meter: Meter,
    processes: Processes,
    data: DataSet,
    split: Split,
    graph: str,
    size: int,
    *,
    likelihood: str,
    precision: str,
    loss: str,
    steps: int,
) -> tuple[Step, bool, bool]:
    """The training step, whether it takes full batches only, and whether it is the faster one.

    steps: how many there will be at most.
    """

    def plainly(forward: Callable[[Tensor], Any], backward: Any, optimizer: Any) -> Step:
        return plain(
            forward, backward, optimizer, meter, likelihood=likelihood, precision=precision, loss=loss
        )

    if not isinstance(processes, Alone):
        module, wrapped = processes.setup(net, optimizer)
        return plainly(module, processes.backward, wrapped), False, False
    if graph == "auto" and processes.device.type == "cuda":
        first = next(batches(split, size, prepare=data.prepare, device=processes.device))
        images, target = channels_last(first.images), first.target
        net.train()
        if steps >= WORTH_IT:
            quick = faster(plainly, net, optimizer, images, target, meter.reset, precision=precision)
            if quick is not None:
                return quick, True, True
        step = plainly(net, Tensor.backward, optimizer)
        graph_step = captured(step, net, optimizer, images, target, meter.reset)
        return graph_step, graph_step is not step, False
    return plainly(net, Tensor.backward, optimizer), False, False


def _put_back(net: nn.Module, state: State, folder: Path | None) -> str:
    """Load the best weights so far after a failed epoch, and say what can be resumed from."""
    if not state.best:
        return "No epoch was completed before"
    net.load_state_dict(state.best)
    kept = f"The network has the weights of epoch {state.best_epoch} again"
    return kept + (
        f"; {folder} holds the state after epoch {state.on_disk}" if folder and state.on_disk else ""
    )
