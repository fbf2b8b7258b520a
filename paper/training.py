"""Make new results: train an experiment of the plan, or resume it, and sample it (needs torch and the data)."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .paper import Paper
from .plan import Planned
from .runs import Run


def locate(folder: str | Path, data_set: str) -> Path:
    """The data set's own folder or zip below `folder`, or `folder` itself where it is the data set's root.

    >>> locate("nowhere", "oct").name
    'nowhere'
    """
    root = Path(folder)
    named = [root / data_set, *sorted(root.glob(f"{data_set}*.zip"))] if root.is_dir() else []
    return next((path for path in named if path.exists()), root)


def run_planned(
    paper: Paper,
    name: str,
    data: str | Path,
    *,
    runs: str | Path = "runs",
    other: str | Path | None = None,
    epochs: int | None = None,
    seconds: float | None = None,
    device: str = "auto",
    precision: str = "auto",
    quiet: bool = False,
) -> Any:
    """Train an experiment of the plan until it is done or the time is up, then sample it and write its results.

    Args:
        paper: the opened folder; results go to its results/NAME.
        name: of the experiment.
        data: folder of the data set, or of several by name (oct, boneage, breastpathq as folders or zip files).
        runs: where the training state is kept; the same call resumes from it.
        other: BreastPathQ, for the severe shift of bone age; None looks for it below `data`.
        epochs: instead of what the plan or the recipe says.
        seconds: time for training; what was reached by then is sampled, and another call resumes it.
        device: "auto", "cpu" or "cuda".
        precision: "fp32", "bf16", or "auto": bf16 on a GPU.
        quiet: no progress.

    Returns:
        The trained network with its history.
    """
    planned = paper.plan.find(name)
    reason = paper.plan.absent.get(planned.data_set)
    root = locate(data, planned.data_set)
    if not root.exists():
        why = f" ({reason})." if reason else "."
        raise ValueError(f"there is no {root}; {name} needs the data set {planned.data_set}{why}")
    import torch

    from .experiment import run_experiment

    if precision == "auto":
        precision = "bf16" if torch.cuda.is_available() and device != "cpu" else "fp32"
    train = {**planned.train, **({} if epochs is None else {"epochs": epochs})}
    chosen = replace(
        planned, train=train, shifts=_shifts(planned, data, other), weights=_weights(planned, data)
    )
    how: dict[str, Any] = {"device": device, "precision": precision, "time_limit": seconds, "quiet": quiet}
    return run_experiment(chosen, root, runs, paper.root / "results", **how)


def _weights(planned: Planned, data: str | Path) -> str:
    """The file of the weights to start from; empty for random ones."""
    if not planned.weights:
        return ""
    path = Path(data) / "weights" / planned.weights
    if not path.is_file():
        raise ValueError(f"there is no {path}; {planned.name} starts from these weights.")
    return str(path)


def _shifts(planned: Planned, data: str | Path, other: str | Path | None) -> dict[str, Any]:
    """The shifted test sets that can be made: the severe one of bone age needs BreastPathQ beside it."""
    if planned.data_set != "boneage":
        return dict(planned.shifts)
    found = locate(data, "breastpathq") if other is None else Path(other)
    beside = other is not None or found != Path(data)
    return {**planned.shifts, **({"other_root": str(found)} if beside else {})}


def run_missing(
    paper: Paper,
    data: str | Path,
    say: Callable[[str], None],
    *,
    names: Iterable[str] | None = None,
    seconds: float | None = None,
    **options: Any,
) -> list[str]:
    """Run what has no result, or resume it, where its data is below `data`; returns the names.

    Args:
        paper: the opened folder.
        data: folder of the data sets.
        say: is told what is done.
        names: of experiments and ensembles; None: all of the plan but what it leaves out.
        seconds: for training, all together.
        options: of `run_planned`.
    """
    if not Path(data).exists():
        raise ValueError(f"there is no {data}; expected the folder of the data sets.")
    done: list[str] = []
    began = time.monotonic()
    for planned in paper.plan.experiments if names is None else paper.plan.behind(names):
        found = paper.run(planned.name)
        if found is not None and _is_done(planned, found):
            continue
        if names is None and (why := paper.plan.why_left_out(planned.name)):
            say(f"{planned.name}: {why}; name it to run it")
            continue
        if planned.data_set != "simulated" and locate(data, planned.data_set) == Path(data):
            say(f"{planned.name}: no {planned.data_set} below {data}")
            continue
        left = None if seconds is None else seconds - (time.monotonic() - began)
        if left is not None and left <= 0:
            say(f"{planned.name}: the time is up")
            continue
        say(f"{planned.name}: {'resuming' if found else 'training'}")
        run_planned(paper, planned.name, data, seconds=left, **options)
        done.append(planned.name)
    return done


def _is_done(planned: Planned, run: Run) -> bool:
    """Whether a result needs no more training: it is of the planned schedule, and came to its end."""
    trained = run.about["recipe"].get("train", {})
    same = all(trained.get(key, value) == value for key, value in planned.train.items())
    return bool(run.about.get("finished", True)) and same
