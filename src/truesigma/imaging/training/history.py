"""What a training run writes per epoch: history.csv, TensorBoard, and a line or a bar to watch."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files.disk import write_rows

__all__ = ["COLUMNS", "Board", "Watch", "write_history"]

COLUMNS = (
    "epoch", "seconds", "train_seconds", "learning_rate", "train_loss", "train_mse", "train_variance",
    "valid_loss", "valid_mse", "valid_mse_one_pass", "valid_variance", "valid_factor",
    "test_loss", "test_mse", "test_variance", "test_factor", "test_variance_scaled",
)  # fmt: skip
LINE_EVERY = 5.0  # seconds between lines of a log


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows as csv, atomically; what is not known (no test split) stays empty."""
    write_rows(path, [COLUMNS, *([row.get(name) for name in COLUMNS] for row in rows)])


class Board:
    """The same rows in TensorBoard's format, where that is installed; else nothing."""

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
        """One epoch."""
        if self.writer is not None:
            for name in COLUMNS[1:]:
                if row[name] is not None:
                    self.writer.add_scalar(name.replace("_", "/", 1), row[name], row["epoch"])

    def close(self) -> None:
        """Flush."""
        if self.writer is not None:
            self.writer.close()


class Watch:
    """Progress with the time left: a bar on a terminal, a line now and then in a log, nothing when quiet."""

    def __init__(self, epochs: int, done: int, *, quiet: bool) -> None:
        """Start the clock at epoch `done` of `epochs`."""
        self.epochs, self.first, self.start, self.printed = epochs, done, time.monotonic(), 0.0
        self.quiet, self.bar, self.task = quiet, None, None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self.bar = Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True))
            self.task = self.bar.add_task("training", total=epochs, completed=done)
            self.bar.start()

    def show(self, row: Mapping[str, Any]) -> None:
        """One epoch is done."""
        if self.quiet:
            return
        epoch, now = int(row["epoch"]), time.monotonic()
        left = (now - self.start) / max(1, epoch - self.first) * (self.epochs - epoch)
        text = (
            f"epoch {epoch}/{self.epochs}  loss {row['train_loss']:.4f}  mse train {row['train_mse']:.3g} "
            f"valid {row['valid_mse']:.3g}  factor {row['valid_factor']:.2f}  rate {row['learning_rate']:.1g}  "
            f"{row['seconds']:.1f} s, {_clock(left)} left"
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
    """Hours, minutes, seconds.

    >>> _clock(3725)
    '1:02:05'
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
