"""Train a two-head network: one visible loop."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ...core.checks import number_of
from ...files.disk import locked
from ..data.dataset import DataSet
from ..network.randomness import guarded_generators
from ..recipe import TrainingRecipe
from .checkpoint import State, put_back, restore, save, tidy
from .checks import check_choices, check_detached, check_network, warn_of_scale
from .devices import average_buffers, over_all, said_by_first, start
from .epoch import train_epoch
from .folder import HISTORY, LAST, check_same, describe, write_recipe
from .history import Board, Watch, rmse_in_unit, write_history
from .job import Job
from .schedule import best_epoch, done, rate
from .settle import settle
from .step import Meter, make_optimizer, make_step, set_rate
from .validate import Choice, NonFinite, means, random_parts, validate, warn_of_shift

__all__ = ["NonFinite", "Trained", "train"]

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
    began = time.monotonic()
    check_choices(data, recipe, likelihood=likelihood, precision=precision, graph=graph, devices=devices)
    check_network(net, data)
    if recipe.loss == "faithful":
        check_detached(net, data)
    warn_of_scale(data.splits["train"])
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected the folder of a run, new or begun")
    processes = start(device, devices, unused=recipe.loss == "mse")
    job = Job(net, data, recipe, seed, likelihood, precision, processes, workers)
    own = folder if processes.is_global_zero else None  # the others leave the folder alone
    with locked(own), guarded_generators(job.device):
        said = describe(job, record or {})
        job = job.placed(test=test)
        optimizer = make_optimizer(net, recipe, job.device)
        state = _begin(job, optimizer, said, folder, resume=resume)
        if not done(state.rows, recipe):
            try:
                _go_on(
                    job,
                    optimizer,
                    state,
                    folder=own,
                    graph=graph,
                    until=math.inf if time_limit is None else began + time_limit,
                    checkpoint_every=checkpoint_every,
                    quiet=quiet or not processes.is_global_zero,
                    progress=progress,
                )
            except NonFinite as problem:
                raise NonFinite(f"{problem}. {_back_to_best(net, state, own)}") from None
        processes.barrier()
        return _trained(job, state, folder)


def _begin(
    job: Job, optimizer: Optimizer, said: Mapping[str, Any], folder: Path | None, *, resume: bool
) -> State:
    """Make the folder ready, and read the state that training resumes from; only the first process writes."""
    own = folder if job.processes.is_global_zero else None
    if own is not None:
        tidy(own, resume=resume)
        if (own / LAST).is_file():
            check_same(own, said)
    job.processes.barrier()
    begun = folder is not None and (folder / LAST).is_file()
    state = restore(folder, job.net, optimizer, job.recipe) if folder is not None and begun else State()
    job.processes.barrier()
    if own is not None and begun:
        put_back(own, state)
    if own is not None and not done(state.rows, job.recipe):
        write_recipe(own, said)  # again if a run resumes: for more epochs, or from another place
    return state


def _go_on(
    job: Job,
    optimizer: Optimizer,
    state: State,
    *,
    folder: Path | None,
    graph: str,
    until: float,
    checkpoint_every: float,
    quiet: bool,
    progress: Callable[[Mapping[str, Any]], None] | None,
) -> None:
    """Train epoch after epoch, from where the state is, until the recipe or the clock ends it."""
    net, recipe, meter = job.net, job.recipe, Meter(job.device)
    steps = (recipe.epochs - len(state.rows)) * (len(job.train) // (job.size * job.processes.world_size))
    stepping = make_step(job, optimizer, meter, graph=graph, steps=steps)
    on = random_parts(job)
    watch = Watch(recipe.epochs, len(state.rows), quiet=quiet, data=job.data)
    board = Board(None if folder is None else folder / "tensorboard", len(state.rows) + 1)
    saved, stopped = time.monotonic(), False
    try:
        while not (stopped or done(state.rows, recipe)):
            began = time.monotonic()
            set_rate(optimizer, rate(state.rows, recipe))
            pace = partial(_set_rate_within, optimizer, state.rows, recipe)
            sums = train_epoch(
                job, stepping, meter, len(state.rows) + 1, pace if recipe.schedule == "cosine" else None
            )
            trained = time.monotonic()
            average_buffers(net, job.processes)
            if recipe.settle and len(state.rows) + 1 == recipe.epochs:
                settle(job)
            row = _measured(job, state.rows, over_all(job.processes, sums), on, fast=stepping.fast)
            row |= {
                "seconds": time.monotonic() - began,
                "train_seconds": trained - began,
                "learning_rate": rate(state.rows, recipe),
            }
            state.advance(row, net, recipe)
            now = time.monotonic()
            stopped = said_by_first(job.processes, now + (now - began) > until)
            if folder is not None:
                write_history(folder / HISTORY, state.rows, state.best_epoch)
                if stopped or now - saved >= checkpoint_every or done(state.rows, recipe):
                    save(folder, state, net, optimizer)
                    saved = time.monotonic()
            board.add(row)
            watch.show(row, kept=state.best_epoch == row["epoch"])
            if progress is not None and job.processes.is_global_zero:
                progress(row)
    finally:
        watch.close()
        board.close()


def _set_rate_within(
    optimizer: Optimizer, rows: Sequence[Mapping[str, Any]], recipe: TrainingRecipe, into: float
) -> None:
    """Set the rate of a step, from the share of its epoch that is done: a short schedule has too few epochs for it."""
    set_rate(optimizer, rate(rows, recipe, into))


def _measured(
    job: Job, before: Sequence[Mapping[str, Any]], sums: Tensor, on: Choice | None, *, fast: bool
) -> dict[str, Any]:
    """The row of an epoch that was trained: its scores on the training, the validation and the test cases.

    before: the rows so far. sums: of the training, over all processes. on: the modules that are random.
    """

    def look(split: str, on: Choice | None) -> Tensor:
        return over_all(job.processes, validate(job, split, on=on, fast=fast))

    recipe, scores = job.recipe, {"valid": look("valid", on)}
    if on is None:
        scores["one pass"] = scores["valid"]
    elif "valid_mse_one_pass" in (recipe.watch, recipe.keep):
        scores["one pass"] = look("valid", None)
    row: dict[str, Any] = {"epoch": len(before) + 1, **means(sums, scores, job.likelihood)}
    if row["epoch"] % LOOK_EVERY == 0 or best_epoch([*before, row], recipe) == row["epoch"]:
        if "one pass" not in scores:
            scores["one pass"] = look("valid", None)
        if "test" in job.data.splits:
            scores["test"] = look("test", on)
        row |= means(sums, scores, job.likelihood)
    return row | rmse_in_unit(row, job.data)


def _trained(job: Job, state: State, folder: Path | None) -> Trained:
    """The network with its kept weights, ready to predict."""
    job.net.load_state_dict(state.best)
    job.net.zero_grad(set_to_none=True)  # gradients of a captured step would keep its memory
    job.net.eval()
    warn_of_shift(state.rows[state.best_epoch - 1])
    finished = done(state.rows, job.recipe)
    return Trained(job.net, tuple(state.rows), state.best_epoch, finished, job.recipe, job.seed, folder)


def _back_to_best(net: nn.Module, state: State, folder: Path | None) -> str:
    """Load the best weights so far after a failed epoch, and say what can be resumed from."""
    if not state.best:
        return "No epoch was completed before"
    net.load_state_dict(state.best)
    kept = f"The network has the weights of epoch {state.best_epoch} again"
    return (
        f"{kept}; {folder} holds the last checkpoint"
        if folder is not None and (folder / LAST).is_file()
        else kept
    )
