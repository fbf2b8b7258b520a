"""The tally as a torchmetrics metric: its state is sums, so that it merges across the ranks of a distributed run.

The state is a few tensors, stored with checkpoints and reduced by sum, minimum and maximum; nothing is pickled. Their
first axis is the whole, then each group; what each patient adds to the factors is kept separately.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from ..core.arrays import as_array, to_host
from ..core.elements import Error, Outputs
from ..core.law import Undefined
from ..core.sketches import Sketch
from ..core.sums import Sum
from ..core.tally import Tally
from ..core.values import Prediction

STATE = 1 << 16  # points of a sketch: more than it has elements, or cells
FACTORS = ("factor total", "factor aleatoric")
SETTINGS = "settings"  # in checkpoints: what the sums are of, as the bytes of a JSON text


class TallyMetric(Metric):
    """All sum-like scores of predictions that come in batches, on any number of ranks.

    Its state stays in double precision, whatever the precision of the module it is part of. `compute` is of everything
    since the last `reset`.

    Args:
        levels: of the intervals whose coverage, width and Winkler score are kept.
        edges: of the variance bins of UCE and ENCE; None: found at the end, as in a `Tally`.
        outputs: "separate" or "mean", for UCE, ENCE, NLL and the factors.
        error: "mean" or "draws", for UCE and ENCE.
        groups: names of the groups (sites, scanners) that get a tally of their own; the same on every rank.
        patients: names of the patients, whose cases belong together: standard errors of factors then count them.

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
    people: Tensor

    def __init__(
        self,
        *,
        levels: Iterable[float] = (0.5, 0.9, 0.95, 0.99),
        edges: Any = None,
        outputs: Outputs = "separate",
        error: Error = "mean",
        groups: Iterable[str] = (),
        patients: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self.groups, self.patients = (
            tuple(dict.fromkeys([names] if isinstance(names, str) else map(str, names)))
            for names in (groups, patients)
        )
        self._empty = Tally.empty(levels=levels, edges=edges, outputs=outputs, error=error)
        probe = self._empty.add(Prediction([0.0], aleatoric=[0.5], epistemic=[0.5]), [0.0]).sums
        self._shapes = {key: np.shape(s) for key, s in probe.items() if not isinstance(s, Sketch)}
        size = sum(math.prod(shape) for shape in self._shapes.values())
        rows = 1 + len(self.groups)
        states: dict[str, tuple[Tensor, Any]] = {
            "sums": (torch.zeros((rows, size), dtype=torch.float64), "sum"),
            "cells": (torch.zeros((rows, 3, STATE if edges is None else 0), dtype=torch.float64), _merged),
            # Smallest and largest: the moment of the law, to detect laws that do not mix; and the variance.
            "low": (torch.full((rows, 2), math.inf, dtype=torch.float64), "min"),
            "high": (torch.full((rows, 2), -math.inf, dtype=torch.float64), "max"),
            # S and W of each patient, for each factor.
            "people": (torch.zeros((len(FACTORS), len(self.patients), 2), dtype=torch.float64), "sum"),
        }
        for name, (start, reduction) in states.items():
            kept = name != "people" or bool(self.patients)  # checkpoints without patients stay as they were
            self.add_state(name, start, dist_reduce_fx=reduction, persistent=kept)

    def update(
        self,
        prediction: Prediction | tuple[Tensor, Tensor],
        target: Any,
        *,
        weight: Any = None,
        group: Any = None,
        patient: Any = None,
    ) -> None:
        """Add a batch of whole cases: a Prediction, also one on the host, or (location, variance), and its targets.

        `group` names the part each case belongs to, one of the metric's `groups`; `patient` names its patient, one of
        the metric's `patients`.
        """
        pair = isinstance(prediction, tuple | list) and len(prediction) == 2
        if not (isinstance(prediction, Prediction) or pair):
            raise ValueError(
                f"prediction is a {type(prediction).__name__}; expected a Prediction, or (location, variance)."
            )
        if isinstance(prediction, Prediction):
            given = prediction
        else:
            location, variance = prediction
            given = Prediction(location, variance=variance)
        self._leave_inference_mode()
        # Predictions from draws are on the host, while targets come from a loader.
        if not isinstance(given.location, Tensor):
            target = to_host(as_array("target", target))
            weight = None if weight is None else to_host(as_array("weight", weight))
        for kind, known, names in (("patient", self.patients, patient), ("group", self.groups, group)):
            if known and names is None:
                raise ValueError(
                    f"this metric was told its {kind}s; give the {kind} of every case: update({kind}=...)."
                )
        tally = self._empty.add(given, target, weight=weight, group=group, patient=patient)
        seen = {
            "group": tally.groups,
            "patient": {name: 0 for one in tally.patients.values() for name in one},
        }
        for kind, known in (("group", self.groups), ("patient", self.patients)):
            if unknown := sorted(set(seen[kind]) - set(known)):
                raise ValueError(
                    f"{kind} {unknown[0]!r} is none of this metric's {kind}s, {known}; name all of them when it is "
                    f"made: TallyMetric({kind}s=[...])."
                )
        for number, key in enumerate(FACTORS):
            for name, sums in tally.patients.get(key, {}).items():
                held = torch.from_numpy(np.asarray(sums, dtype=np.float64))
                self.people[number, self.patients.index(name)] += held.to(self.people.device)
        self._put(0, tally)
        for name, part in tally.groups.items():
            self._put(1 + self.groups.index(name), part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch, and return its own scores; a refused batch leaves the state as it was."""
        # torchmetrics replaces the whole by the batch, and would leave it so after an error
        before = dict(vars(self))
        try:
            return super().forward(*args, **kwargs)
        except ValueError:
            vars(self).update(before)
            raise

    def _leave_inference_mode(self) -> None:
        """Copy a state that was reset in inference mode, as Lightning does: it could not be added to outside of it."""
        if self.sums.is_inference() and not torch.is_inference_mode_enabled():
            for name in self._defaults:
                setattr(self, name, getattr(self, name).clone())

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Any = "") -> "TallyMetric":
        """Move the state, but keep its precision: `module.to(dtype)` would convert it, and half counts to 2048."""

        def moved(tensor: Tensor) -> Tensor:
            made = fn(tensor)
            return made if made.dtype == tensor.dtype else tensor.to(made.device)

        super()._apply(moved, exclude_state)
        return self

    @property
    def _settings(self) -> dict[str, Any]:
        """What the sums are of, as plain values."""
        kept = {name: getattr(self._empty, name) for name in ("levels", "edges", "outputs", "error")}
        return {**kept, "groups": self.groups, "patients": self.patients}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Store what the sums are of beside them: sums of other levels or groups may have the same shape."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self._persistent["sums"]:
            text = json.dumps(self._settings).encode()
            destination[prefix + SETTINGS] = torch.tensor(list(text), dtype=torch.uint8)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the sums of a checkpoint, as copies; an empty state of other settings says nothing, and is left out."""
        stored = {
            name: state_dict.pop(prefix + name) for name in self._defaults if prefix + name in state_dict
        }
        text = state_dict.pop(prefix + SETTINGS, None)
        now = json.loads(json.dumps(self._settings))
        then = now if text is None else json.loads(bytes(text.tolist()))
        alike = then == now and all(
            value.shape == getattr(self, name).shape for name, value in stored.items()
        )
        if alike:
            for name, value in stored.items():
                setattr(self, name, value.to(getattr(self, name), copy=True))
        elif "low" in stored and stored["low"].isfinite().any():
            names = [name for name in now if then.get(name) != now[name]]
            what = ", ".join(f"{name} {then.get(name)} instead of {now[name]}" for name in names)
            error_msgs.append(
                f"the stored sums of {prefix or 'this metric'} are of {what or 'other levels, edges or groups'}; "
                "expected a metric made with the same. Make it so, or `reset` the metric before it is stored."
            )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _put(self, row: int, tally: Tally) -> None:
        """Add a tally to the state of the whole, or of a group."""
        flat = np.concatenate([_flat(tally.sums[key], shape) for key, shape in self._shapes.items()])
        self.sums[row] += torch.from_numpy(flat).to(self.sums.device)
        ends = [[float(tally.moment or 0)] * 2]
        cells = tally.sums["variance"]
        if isinstance(cells, Sketch) and cells.sums.size:
            known = [self._sketch(place) for place in range(len(self.cells))]
            known[row] = known[row].merge(cells) if isinstance(known[row], Sketch) else known[row]
            self.cells = torch.cat([_state(one, self.cells.device) for one in known])
            ends.append(list(cells.ends))
        elif isinstance(cells, Undefined):
            self.cells[row] += math.nan
        found = torch.tensor(ends, dtype=torch.float64, device=self.low.device)
        self.low[row, : len(ends)] = torch.minimum(self.low[row, : len(ends)], found[:, 0])
        self.high[row, : len(ends)] = torch.maximum(self.high[row, : len(ends)], found[:, 1])

    @property
    def tally(self) -> Tally:
        """The tally of this rank; of all ranks inside `compute` and `sync_context`."""
        parts = {name: self._part(row) for row, name in enumerate(self.groups, start=1)}
        held = self.people.cpu().numpy()
        patients = {
            key: {name: one for name, one in zip(self.patients, sums) if one[1] > 0}
            for key, sums in zip(FACTORS, held)
        }
        groups = {name: part for name, part in parts.items() if part.sums}
        return replace(self._part(0), groups=groups, patients=patients if self.patients else {})

    def _part(self, row: int) -> Tally:
        """The tally of the whole, or of a group."""
        flat, moments = self.sums[row].cpu().numpy(), (float(self.low[row, 0]), float(self.high[row, 0]))
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
        if self.cells.shape[2]:
            found["variance"] = self._sketch(row)
        return replace(self._empty, sums=found, moment=int(moments[0]))

    def _sketch(self, row: int) -> Sum:
        return _sketch(self.cells[row], float(self.low[row, 1]), float(self.high[row, 1]))

    def compute(self) -> dict[str, Tensor]:
        """Every score that is defined, by its name: `coverage_0.9` for intervals, `Basel/mse` for groups."""
        tally = self.tally
        named = {"": tally, **{f"{name}/": part for name, part in tally.groups.items() if _counts(part)}}
        found: dict[str, Any] = {}
        for start, part in named.items():
            for name, value in part.summary().items():
                by_level: Mapping[Any, Any] = value if isinstance(value, dict) else {None: value}
                found.update(
                    {start + (name if k is None else f"{name}_{k:g}"): v for k, v in by_level.items()}
                )
        return {
            name: torch.tensor(value, dtype=torch.float64, device=self.sums.device)
            for name, value in found.items()
            if value is not None
        }


def _sketch(state: Tensor, low: float, high: float) -> Sum:
    """What is in a state (3, point), in any order and with gaps; NaN where a batch had none."""
    sums = state.cpu().numpy()
    if np.isnan(sums).any():
        return Undefined("it is not defined for some of the batches.")
    return Sketch.of_points(sums, low, high)


def _state(sketch: Sum, device: torch.device) -> Tensor:
    """The state of a row, (1, 3, point): elements or cells, and zeros behind them; NaN where there are none."""
    if isinstance(sketch, Undefined):
        return torch.full((1, 3, STATE), math.nan, dtype=torch.float64, device=device)
    free = STATE - sketch.sums.shape[1]
    return torch.from_numpy(np.pad(sketch.sums, ((0, 0), (0, free)))).to(device)[None]


def _merged(states: Tensor) -> Tensor:
    """The states of all ranks, (rank, row, 3, point), as one."""
    rows = []
    for ranks in states.unbind(1):
        points = torch.cat(list(ranks), dim=1)
        some = points[:, points[0] > 0]
        if points.isnan().any() or not some.shape[1]:
            rows.append(points[None, :, : states.shape[-1]] if not some.shape[1] else ranks[:1] + math.nan)
            continue
        low, high = (float(end) for end in torch.aminmax(some[2] / some[0]))
        rows.append(_state(Sketch.of_points(some.cpu().numpy(), low, high), states.device))
    return torch.cat(rows)


def _counts(tally: Tally) -> bool:
    """Whether masks and weights leave anything of it."""
    return bool(tally.sums["n"][0] > 0)


def _flat(sums: Sum, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The sums in a row; NaN for what is undefined, which stays NaN whatever is added to it."""
    return np.full(math.prod(shape), math.nan) if isinstance(sums, Undefined) else np.ravel(sums)
