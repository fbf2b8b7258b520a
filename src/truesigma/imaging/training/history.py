"""The history of a training run, epoch by epoch: history.csv, TensorBoard, and a line or a bar to watch."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files.disk import write_rows
from ..data.dataset import DataSet

__all__ = ["COLUMNS", "Board", "Watch", "error_text", "rmse_in_unit", "write_history"]

COLUMNS = (
    "epoch", "seconds", "train_seconds", "learning_rate", "train_loss", "train_mse", "train_variance",
    "valid_loss", "valid_mse", "valid_mse_two_draws", "valid_mse_one_pass", "valid_variance", "valid_factor",
    "test_loss", "test_mse", "test_variance", "test_factor", "test_variance_scaled",
    "train_rmse", "valid_rmse", "kept",
)  # fmt: skip
LINE_EVERY = 5.0  # seconds between lines of a log


def write_history(path: Path, rows: Sequence[Mapping[str, Any]], best_epoch: int) -> None:
    """Write the rows as csv, atomically; unknown values (no test split) stay empty.

    best_epoch: whose weights are kept so far; its row has kept = 1, the others 0.
    """
    marked = [{**row, "kept": int(row["epoch"] == best_epoch)} for row in rows]
    write_rows(path, [COLUMNS, *([row.get(name) for name in COLUMNS] for row in marked)])


def rmse_in_unit(row: Mapping[str, Any], data: DataSet) -> dict[str, float | None]:
    """Convert errors to RMSE in the target's unit; None if outputs have different units.

    >>> import torch
    >>> class Months: factor, unit = torch.tensor([200.0]), ("months",)
    >>> rmse_in_unit({"train_mse": 0.0004, "valid_mse": 0.0025}, Months)
    {'train_rmse': 4.0, 'valid_rmse': 10.0}
    """
    factors = data.factor.tolist()
    factor = factors[0] if len(set(factors)) == len(set(data.unit)) == 1 else None
    # The product of two residuals can be below 0 in the mean over very few cases.
    return {
        f"{split}_rmse": None if factor is None else round(factor * max(0.0, row[f"{split}_mse"]) ** 0.5, 9)
        for split in ("train", "valid")
    }


def error_text(row: Mapping[str, Any], split: str, unit: str) -> str:
    """Write the error of a split: in the target's unit, or the MSE of scaled targets without a common unit.

    >>> error_text({"valid_rmse": 4.31, "valid_mse": 0.01}, "valid", "mm")
    'RMSE 4.31 mm'
    >>> error_text({"valid_rmse": 0.0, "valid_mse": -0.01}, "valid", "mm")
    'RMSE unknown, as draws differ too widely'
    """
    rmse = row.get(f"{split}_rmse")
    if rmse is None:
        return f"MSE {row[f'{split}_mse']:.4g} of scaled targets"
    if row[f"{split}_mse"] < 0:  # the estimate from two draws may be
        return "RMSE unknown, as draws differ too widely"
    return f"RMSE {rmse:.4g} {unit}".rstrip()


class Board:
    """Writes the rows for TensorBoard, if that is installed."""

    def __init__(self, folder: Path | None, first: int) -> None:
        """Open the folder; entries from epoch `first` on, left by an interrupted run, are replaced."""
        self.writer: Any = None
        if folder is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                return
            self.writer = SummaryWriter(str(folder), purge_step=first)

    def add(self, row: Mapping[str, Any]) -> None:
        """Write one epoch."""
        if self.writer is not None:
            for name in COLUMNS[1:]:
                if row.get(name) is not None:
                    self.writer.add_scalar(name.replace("_", "/", 1), row[name], row["epoch"])

    def close(self) -> None:
        """Flush."""
        if self.writer is not None:
            self.writer.close()


class Watch:
    """Progress with the time left: a bar on a terminal, a line now and then in a log, nothing when quiet."""

    def __init__(self, epochs: int, done: int, *, quiet: bool, unit: str = "") -> None:
        """Start the clock at epoch `done` of `epochs`; errors are in this unit."""
        self.unit = unit
        self.epochs, self.first, self.start, self.printed = epochs, done, time.monotonic(), 0.0
        self.quiet, self.bar, self.task = quiet, None, None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self.bar = Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True))
            self.task = self.bar.add_task("training", total=epochs, completed=done)
            self.bar.start()

    def show(self, row: Mapping[str, Any], *, kept: bool = False) -> None:
        """Show one finished epoch; kept: it is the best so far."""
        if self.quiet:
            return
        epoch, now = int(row["epoch"]), time.monotonic()
        left = (now - self.start) / max(1, epoch - self.first) * (self.epochs - epoch)
        train, valid = (error_text(row, split, self.unit) for split in ("train", "valid"))
        text = (
            f"epoch {epoch}/{self.epochs}  loss {row['train_loss']:.4f}  train {train}  "
            f"valid {valid}{' (best)' if kept else ''}  factor {row['valid_factor']:.2f}  "
            f"rate {row['learning_rate']:.1g}  {row['seconds']:.1f} s, {_clock(left)} left"
        )
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=epoch, description=text)
        elif epoch == self.epochs or now - self.printed >= LINE_EVERY:
            print(text, file=sys.stderr, flush=True)
            self.printed = now

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.bar is not None:
            self.bar.stop()


def _clock(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds.

    >>> _clock(3725)
    '1:02:05'
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
