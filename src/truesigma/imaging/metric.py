"""The tally as a metric of torchmetrics: its state is sums, so that it merges across the ranks of a distributed run.

The state is four tensors, stored with checkpoints and reduced by sum, minimum and maximum; nothing is pickled.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from ..binning import PER_OCTAVE, LogCells
from ..elements import Error, Outputs
from ..law import Undefined
from ..sums import Sum
from ..tally import Tally
from ..types import Prediction

LOWEST = -1075 * PER_OCTAVE  # the cell of the smallest float64
CELLS = 2100 * PER_OCTAVE  # to that of the largest


class TallyMetric(Metric):
    """All sum-like scores of predictions that come in batches, on any number of ranks.

    Args:
        levels: of the intervals whose coverage, width and Winkler score are kept.
        edges: of the variance bins of UCE and ENCE; None: cells of log2(variance), gathered in bins at the end.
        outputs: "separate" or "mean", for UCE, ENCE, NLL and the factors.
        error: "mean" or "draws", for UCE and ENCE.

    Example:
        >>> metric = TallyMetric()
        >>> metric.update((torch.zeros(3), torch.ones(3)), torch.tensor([0.0, 3.0, 4.0]))
        >>> round(float(metric.compute()["rmse"]), 3)
        2.887
        >>> metric.tally.summary()["coverage"][0.9]
        0.3333333333333333
    """

    is_differentiable = False
    full_state_update = False
    sums: Tensor
    cells: Tensor
    low: Tensor
    high: Tensor

    def __init__(
        self,
        *,
        levels: Iterable[float] = (0.5, 0.9, 0.95, 0.99),
        edges: Any = None,
        outputs: Outputs = "separate",
        error: Error = "mean",
    ) -> None:
        super().__init__()
        self._empty = Tally.empty(levels=levels, edges=edges, outputs=outputs, error=error)
        probe = self._empty.add(Prediction([0.0], [0.5], [0.5]), [0.0]).sums
        self._shapes = {key: np.shape(s) for key, s in probe.items() if not isinstance(s, LogCells)}
        size = sum(math.prod(shape) for shape in self._shapes.values())
        states = {
            "sums": (torch.zeros(size, dtype=torch.float64), "sum"),
            "cells": (torch.zeros((3, CELLS if edges is None else 0), dtype=torch.float64), "sum"),
            # Smallest and largest: the moment of the law, so that laws which do not mix are found; and the variance.
            "low": (torch.full((2,), math.inf, dtype=torch.float64), "min"),
            "high": (torch.full((2,), -math.inf, dtype=torch.float64), "max"),
        }
        for name, (start, reduction) in states.items():
            self.add_state(name, start, dist_reduce_fx=reduction, persistent=True)

    def update(
        self, prediction: Prediction | tuple[Tensor, Tensor], target: Tensor, *, weight: Tensor | None = None
    ) -> None:
        """Add a batch of whole cases: a Prediction, or (location, variance), and its targets."""
        given = prediction if isinstance(prediction, Prediction) else Prediction(*prediction)
        tally = self._empty.add(given, target, weight=weight)
        flat = np.concatenate([_flat(tally.sums[key], shape) for key, shape in self._shapes.items()])
        self.sums += torch.from_numpy(flat).to(self.sums.device)
        ends = [[float(given.law.moment)] * 2]
        cells = tally.sums["variance"]
        if isinstance(cells, LogCells) and cells.sums.shape[1]:
            place = slice(cells.start - LOWEST, cells.start - LOWEST + cells.sums.shape[1])
            self.cells[:, place] += torch.from_numpy(cells.sums).to(self.cells.device)
            ends.append([cells.low, cells.high])
        elif isinstance(cells, Undefined):
            self.cells += math.nan
        found = torch.tensor(ends, dtype=torch.float64, device=self.low.device)
        self.low[: len(ends)] = torch.minimum(self.low[: len(ends)], found[:, 0])
        self.high[: len(ends)] = torch.maximum(self.high[: len(ends)], found[:, 1])

    @property
    def tally(self) -> Tally:
        """The tally of what this rank holds: of all ranks inside `compute` and `sync_context`."""
        flat, moments = self.sums.cpu().numpy(), (float(self.low[0]), float(self.high[0]))
        if moments[0] > moments[1]:
            return self._empty
        if moments[0] != moments[1]:
            raise ValueError(
                "predictions of different likelihoods, Normal and Laplace, were given; use a metric for each."
            )
        found: dict[str, Sum] = {}
        start = 0
        for key, shape in self._shapes.items():
            part = flat[start : start + math.prod(shape)].reshape(shape)
            start += part.size
            found[key] = (
                Undefined("it is not defined for some of the batches.") if np.isnan(part).any() else part
            )
        if self.cells.shape[1]:
            found["variance"] = self._log_cells()
        return replace(self._empty, sums=found, moment=int(moments[0]))

    def _log_cells(self) -> Sum:
        cells = self.cells.cpu().numpy()
        filled = np.flatnonzero(cells[0])
        if np.isnan(cells[0]).any():
            return Undefined("it is not defined for some of the batches.")
        if not filled.size:
            return LogCells(0, np.zeros((3, 0)), math.inf, -math.inf)
        some = cells[:, filled[0] : filled[-1] + 1]
        return LogCells(int(filled[0]) + LOWEST, some, float(self.low[1]), float(self.high[1]))

    def compute(self) -> dict[str, Tensor]:
        """Every score that is defined, by its name; those of intervals as `coverage_0.9`."""
        found: dict[str, Any] = {}
        for name, value in self.tally.summary().items():
            by_level: Mapping[Any, Any] = value if isinstance(value, dict) else {None: value}
            found.update({name if k is None else f"{name}_{k:g}": v for k, v in by_level.items()})
        return {
            name: torch.tensor(value, dtype=torch.float64, device=self.sums.device)
            for name, value in found.items()
            if value is not None
        }


def _flat(sums: Sum, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The sums in a row; NaN for what is undefined, which stays NaN whatever is added to it."""
    return np.full(math.prod(shape), math.nan) if isinstance(sums, Undefined) else np.ravel(sums)
