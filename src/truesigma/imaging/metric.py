"""The tally as a torchmetrics metric: it merges across the ranks of a distributed run, and is kept in checkpoints.

The sums are a `Tally` on the host, in double precision. Between ranks and in checkpoints they travel as a tensor of
bytes, which are read with `weights_only`, so that a stranger's checkpoint cannot run code.
"""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from ..core.arrays import as_array, to_host
from ..core.elements import Error, Outputs
from ..core.law import Undefined
from ..core.sketches import Grid, Sketch
from ..core.tally import Tally
from ..core.values import Prediction

SETTINGS = (
    "levels",
    "edges",
    "outputs",
    "error",
)  # of a tally, which sums that are merged must have in common
# What a stored tally is made of: nothing else is read.
ARRAYS: tuple[Any, ...] = (
    np.ndarray,
    np.dtype,
    np.dtypes.Float64DType,
    np.dtypes.Int64DType,
    np.zeros(0).__reduce__()[0],
)
PARTS = (Tally, Undefined, Sketch, Grid, *ARRAYS)


class TallyMetric(Metric):
    """All sum-like scores of predictions that come in batches, on any number of ranks.

    `compute` scores everything since the last `reset`. `tally` holds the sums of this rank, and those of all ranks
    inside `sync_context`.

    Args:
        levels: of the intervals whose coverage, width and Winkler score are kept.
        edges: of the variance bins of UCE and ENCE; None: found at the end, as in a `Tally`.
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

    def __init__(
        self,
        *,
        levels: Iterable[float] = (0.5, 0.9, 0.95, 0.99),
        edges: Any = None,
        outputs: Outputs = "separate",
        error: Error = "mean",
    ) -> None:
        super().__init__(compute_with_cache=False)  # what is kept would follow the module into half precision
        self.empty = self.tally = Tally.empty(levels=levels, edges=edges, outputs=outputs, error=error)

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

        `group` names the part each case belongs to (its site, its scanner), which gets scores of its own; `patient`
        names its patient: standard errors of factors then count patients.
        """
        if isinstance(prediction, tuple | list) and len(prediction) == 2:
            location, variance = prediction
            prediction = Prediction(location, variance=variance)
        if not isinstance(prediction, Prediction):
            raise ValueError(
                f"prediction is a {type(prediction).__name__}; expected a Prediction, or (location, variance)."
            )
        # Predictions from draws are on the host, while targets come from a loader.
        if not isinstance(prediction.location, Tensor):
            target = to_host(as_array("target", target))
            weight = None if weight is None else to_host(as_array("weight", weight))
        if self.tally.sums and bool(self.tally.groups) != (group is not None):
            raise ValueError(
                "some cases have a group and others none, so scores of the groups would leave some out; give the group "
                "of every case, update(group=...), or of none."
            )
        self.tally = self.tally.merge(
            self.empty.add(prediction, target, weight=weight, group=group, patient=patient)
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch, and return its own scores; a refused batch leaves the sums as they were."""
        # torchmetrics replaces the whole by the batch, and would leave it so after an error
        before = dict(vars(self))
        try:
            return super().forward(*args, **kwargs)
        except ValueError:
            vars(self).update(before)
            raise

    def reset(self) -> None:
        """Forget all cases."""
        super().reset()
        self.tally = self.empty

    def compute(self) -> dict[str, Tensor]:
        """Every score that is defined, by its name: `coverage_0.9` for intervals, `Basel/mse` for groups."""
        named = {"": self.tally, **{f"{name}/": part for name, part in self.tally.groups.items()}}
        found: dict[str, Any] = {}
        for start, part in named.items():
            for name, value in part.summary().items():
                by_level: Mapping[Any, Any] = value if isinstance(value, dict) else {None: value}
                found.update(
                    {start + (name if k is None else f"{name}_{k:g}"): v for k, v in by_level.items()}
                )
        return {
            name: torch.tensor(value, dtype=torch.float64, device=self.device)
            for name, value in found.items()
            if value is not None
        }

    def _copy_state_dict(self) -> dict[str, Any]:
        """Return the state that torchmetrics keeps while it looks at a batch, or at all ranks."""
        return {"tally": self.tally}

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        self.tally = incoming_state["tally"].merge(self.tally)

    def _sync_dist(self, dist_sync_fn: Any = gather_all_tensors, process_group: Any = None) -> None:
        sent = packed(self.tally).to(self.device)
        self.tally = self.empty
        for received in dist_sync_fn(sent, group=process_group or self.process_group):
            self.tally = self.tally.merge(unpacked(received))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}tally"] = packed(self.tally)

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
        """Take the sums of a checkpoint. Sums of other settings are an error, unless they are of no cases."""
        name = f"{prefix}tally"
        if name in state_dict:
            stored = unpacked(state_dict.pop(name))
            pairs = {key: (getattr(stored, key), getattr(self.empty, key)) for key in SETTINGS}
            differ = [f"{key} {then} instead of {now}" for key, (then, now) in pairs.items() if then != now]
            if not differ:
                self.tally = stored
            elif stored.sums:
                error_msgs.append(
                    f"the stored sums of {prefix or 'this metric'} are of {', '.join(differ)}; expected a metric made "
                    "with the same. Make it so, or `reset` the metric before it is stored."
                )
        elif strict:
            missing_keys.append(name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def packed(tally: Tally) -> Tensor:
    """Turn a tally into bytes, (byte,) on the host.

    >>> unpacked(packed(Tally.empty(levels=[0.9])))
    Tally(0 elements, outputs='separate', error='mean')
    """
    file = io.BytesIO()
    torch.save(tally, file)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


def unpacked(stored: Tensor) -> Tally:
    """Read back the tally that `packed` turned into bytes."""
    with torch.serialization.safe_globals(list(PARTS)):
        return torch.load(io.BytesIO(stored.cpu().numpy().tobytes()), weights_only=True)
