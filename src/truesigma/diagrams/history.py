r"""Error and variance over the epochs of a training run: why the variance of an overfitted network is too small.

$$\mathrm{MSE}(t) \quad\text{beside}\quad \mathrm{mean}\,\hat\sigma^2(t) \quad\text{and}\quad
  s(t)^2\,\mathrm{mean}\,\hat\sigma^2(t)$$
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Host
from ..files.disk import plain
from ..files.tables import read_table
from ._style import BLUE, GREY, RED, Axes, axes_or_new, note_power, style

TITLE = "training history"


@dataclass(frozen=True, eq=False)
class History:
    """Values per epoch; NaN where a run did not measure one."""

    split: str  # which split is the unseen one: "test", or "valid" where no test split was watched
    epoch: Host
    train_mse: Host
    train_variance: Host
    unseen_mse: Host
    unseen_variance: Host
    factor: Host  # of sigma scaling, fitted on the validation split in each epoch

    @property
    def calibrated_variance(self) -> Host:
        """factor^2 times the variance on unseen cases: intra-training calibration, applied at test only."""
        return self.factor**2 * self.unseen_variance

    @property
    def columns(self) -> Any:
        """Plain values by name, for a csv file."""
        parts = {name: part for name, part in vars(self).items() if name != "split"}
        return plain({**parts, "calibrated_variance": self.calibrated_variance})

    def __repr__(self) -> str:
        return f"History({self.epoch.size} epochs, unseen cases: {self.split})"


def table(history: str | Path | Iterable[Mapping[str, Any]]) -> History:
    """Read the history of a training run.

    Args:
        history: the path of a `history.csv`, or its rows: mappings with `epoch`, `train_mse`, `train_variance`,
            `valid_mse`, `valid_variance`, `valid_factor`, and `test_mse`, `test_variance` where there was a test split.

    Returns:
        The numbers to draw: those of the test split, or of the validation split where there is none.

    Example:
        >>> row = dict(train_mse=1.0, train_variance=1.0, valid_mse=4.0, valid_variance=1.0, valid_factor=2.0)
        >>> table([{"epoch": 1, **row}]).calibrated_variance
        array([4.])

    Reference: Laves et al., MELBA 2021, section 2.3, Figures 2 and 4.
    """
    rows = read_table(Path(history), exact=True)[1] if isinstance(history, str | Path) else list(history)
    if not rows:
        raise ValueError("the history has no rows; expected one for each epoch.")
    split = "test" if any(row.get("test_mse") not in (None, "") for row in rows) else "valid"
    wanted = ("epoch", "train_mse", "train_variance", f"{split}_mse", f"{split}_variance", "valid_factor")
    missing = [name for name in wanted if name not in rows[0]]
    if missing:
        raise ValueError(
            f"the history lacks {', '.join(missing)}; expected the columns {', '.join(wanted)}, as in history.csv."
        )
    columns = [np.array([_number(name, row.get(name)) for row in rows]) for name in wanted]
    return History(split, *columns)


def _number(name: str, value: Any) -> float:
    if value is None or value == "":
        return float("nan")
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name} holds {value!r} in the history; expected a number.") from None


def draw(
    table: History, ax: Axes = None, *, calibrated: bool = False, title: str = "", unit: str = ""
) -> Axes:
    """Draw error and mean variance over the epochs, on a logarithmic axis.

    Args:
        table: what `table` computed.
        ax: matplotlib axes; None for a new figure of one journal column.
        calibrated: show the variance on unseen cases after sigma scaling with each epoch's factor, too.
        title: of the panel.
        unit: of the target.

    Returns:
        The axes.
    """
    unseen = "test" if table.split == "test" else "validation"
    with style():
        ax = axes_or_new(ax)

        def line(values: Host, **look: Any) -> None:
            # Epochs in which the split was not looked at are skipped.
            measured = np.isfinite(values)
            ax.plot(table.epoch[measured], values[measured], **look)

        line(table.train_mse, color=BLUE, label="train MSE")
        line(table.train_variance, color=BLUE, linestyle="--", label=r"train $\hat\sigma^2$")
        line(table.unseen_mse, color=RED, label=f"{unseen} MSE")
        before = {"color": GREY if calibrated else RED, "linestyle": "--"}
        line(table.unseen_variance, **before, label=rf"{unseen} $\hat\sigma^2$")
        if calibrated:
            line(table.calibrated_variance, color=RED, linestyle="--", label=rf"{unseen} $s^2\,\hat\sigma^2$")
        ax.set_yscale("log")
        ax.set_xlim(table.epoch.min(), max(table.epoch.max(), table.epoch.min() + 1))
        ax.set_xlabel("epoch")
        note_power(ax.yaxis, "error and variance", unit, log=True)
        ax.set_title(title)
        ax.legend(loc="best", ncols=2)
    return ax
