"""The tally as a torchmetrics metric, which merges across the ranks of a distributed run.

The sums are a `Tally` on the host, in double precision. As other metrics' states, they are not part of checkpoints
unless a module stores `metric.tally` itself.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ..core.arrays import as_array, to_host
from ..core.elements import Error, Outputs
from ..core.tally import Tally
from ..core.values import Prediction


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

    def _sync_dist(self, dist_sync_fn: Any = None, process_group: Any = None) -> None:
        group = process_group or self.process_group
        tallies: list[Any] = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(tallies, self.tally, group=group)
        self.tally = reduce(Tally.merge, tallies)
