"""The history of a training run, epoch by epoch: history.csv, TensorBoard, and a line or a bar to watch."""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...core.cases import name_of
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


def rmse_in_unit(row: Mapping[str, Any], data: DataSet) -> dict[str, Any]:
    """The root of the errors in the target's unit: of all outputs together if they have one unit, and of each.

    Training errors are counted for all outputs together: they are None if these are scaled by different factors.

    >>> import torch
    >>> class Months: factor, unit = torch.tensor([200.0]), ("months",)
    >>> rmse_in_unit({"train_mse": 0.0004, "valid_mse": 0.0025, "valid_mse_by_output": [0.0025]}, Months)
    {'train_rmse': 4.0, 'valid_rmse': 10.0, 'valid_rmse_by_output': [10.0]}
    """
    factors, one_unit = data.factor.tolist(), len(set(data.unit)) == 1
    # The product of two residuals can be below 0 in the mean over very few cases.
    squares = [max(0.0, mse) * factor**2 for factor, mse in zip(factors, row["valid_mse_by_output"])]
    together = max(0.0, row["train_mse"]) ** 0.5 * factors[0]
    return {
        "train_rmse": round(together, 9) if one_unit and len(set(factors)) == 1 else None,
        "valid_rmse": round((sum(squares) / len(squares)) ** 0.5, 9) if one_unit else None,
        "valid_rmse_by_output": [round(square**0.5, 9) for square in squares],
    }


def error_text(row: Mapping[str, Any], split: str, unit: Sequence[str], names: Sequence[str] = ()) -> str:
    """The error of a split in words, in the target's unit: of each output if they have several; "" if it is unknown.

    >>> error_text({"valid_rmse": 4.31, "valid_mse": 0.01}, "valid", ["mm"])
    'RMSE 4.31 mm'
    >>> row = {"valid_rmse": None, "valid_rmse_by_output": [4.31, 0.2], "valid_mse": 0.01}
    >>> error_text(row, "valid", ["months", "m"], ["age", "height"])
    'RMSE 4.31 months (age), 0.2 m (height)'
    >>> error_text({"valid_rmse": 0.0, "valid_mse": -0.01}, "valid", ["mm"])
    'RMSE unknown, as draws differ too widely'
    """
    if row[f"{split}_mse"] < 0:  # the estimate from two draws may be
        return "RMSE unknown, as draws differ too widely"
    if row.get(f"{split}_rmse") is not None:
        return f"RMSE {row[f'{split}_rmse']:.4g} {unit[0]}".rstrip()
    each = [
        f"{value:.4g} {one} ({name_of(names, k)})"
        for k, (value, one) in enumerate(zip(row.get(f"{split}_rmse_by_output", ()), unit))
    ]
    return f"RMSE {', '.join(each)}" if each else ""


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

    def __init__(self, epochs: int, done: int, *, quiet: bool, data: DataSet) -> None:
        """Start the clock at epoch `done` of `epochs`; errors are in the data's units."""
        self.data = data
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
        unit, names = self.data.unit, self.data.names
        train, valid = (error_text(row, split, unit, names) for split in ("train", "valid"))
        text = (
            f"epoch {epoch}/{self.epochs}  loss {row['train_loss']:.4f}  {train and f'train {train}  '}"
            f"valid {valid}{' (best)' if kept else ''}  factor {row['valid_factor']:.2f}  "
            f"rate {row['learning_rate']:.1g}  {row['seconds']:.1f} s, {timedelta(seconds=round(left))} left"
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
