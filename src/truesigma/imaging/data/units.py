"""Units: networks work on targets scaled to about [0, 1], and people read months and millimetres."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays import Host, as_array, to_host
from ...core.values import Draws, Prediction, changed

FAR = 1e3  # in ranges of the target: that far from 0, single precision has four digits left
SCALED = "scaled"  # written as the unit in files of predictions that were left as the network gives them


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of each output and the conversion to it: value = offset + factor * scaled, variance = factor^2 * scaled.

    Args:
        unit: one for each output, such as ("months",).
        offset: (output,): for standardised targets their mean; an array, a tensor or a list.
        factor: (output,), above 0: their standard deviation.
        names: of the outputs, if they have any.

    >>> months = Units(("months",), np.array([1.0]), np.array([227.0]))
    >>> made = months.prediction(Prediction([[0.5]], aleatoric=[[0.0001]], epistemic=[[0.0]]))
    >>> made.location.round(1).tolist(), made.scale.round(2).tolist(), months.text
    ([[114.5]], [[2.27]], 'months')
    """

    unit: tuple[str, ...]
    offset: Any
    factor: Any
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.unit, str):
            raise ValueError(f"unit is {self.unit!r}; expected one for each output, as ({self.unit!r},).")
        for name in ("unit", "names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("offset", "factor"):
            values = to_host(as_array(name, getattr(self, name))).astype(np.float64)
            if values.shape != (len(self.unit),) or not np.isfinite(values).all():
                raise ValueError(
                    f"{name} is {values.tolist()} and unit {self.unit}; expected a finite number for each output."
                )
            object.__setattr__(self, name, values)
        if not (self.factor > 0).all():
            raise ValueError(
                f"factor is {self.factor.tolist()}; expected numbers above 0, as the targets' standard deviations."
            )

    def _of_outputs(self, scaled: Any, *lengths: int) -> Host:
        """Values (..., output) on the host; one unit goes with any number of outputs."""
        values = to_host(as_array("scaled", scaled))
        if len(self.unit) > 1 and values.shape[-1:] not in [(n,) for n in (len(self.unit), *lengths)]:
            raise ValueError(
                f"values of shape {values.shape} were given for {len(self.unit)} outputs, in {self.text}; expected "
                f"(..., {len(self.unit)})."
            )
        return values

    @property
    def text(self) -> str:
        """The unit as written in files: one for all outputs, or a list: months (age), kg (weight)."""
        if not self.mixed:
            return self.unit[0]
        return ", ".join(map("{} ({})".format, self.unit, self.names) if self.names else self.unit)

    @property
    def mixed(self) -> bool:
        """Whether outputs have different units, so that a mean over them has none."""
        return len(set(self.unit)) > 1

    def location(self, scaled: Any) -> Any:
        """Scaled values (..., output) in the unit, in the precision they came in; far from 0 in double."""
        values = self._of_outputs(scaled)
        kind = np.float64 if far_from_zero(self.offset, self.factor) else values.dtype
        return (self.offset + self.factor * values.astype(np.float64)).astype(kind)

    def variance(self, scaled: Any) -> Any:
        """Scaled variances (..., output or 1) in the unit squared."""
        values = self._of_outputs(scaled, 1)
        return (self.factor**2 * values.astype(np.float64)).astype(values.dtype)

    def convert(self, scaled: Draws | Prediction) -> Draws | Prediction:
        """Convert draws or a prediction to the unit."""
        return self.draws(scaled) if isinstance(scaled, Draws) else self.prediction(scaled)

    def draws(self, scaled: Draws) -> Draws:
        """Convert draws to the unit; the law stays."""
        return changed(scaled, mean=self.location(scaled.mean), variance=self.variance(scaled.variance))

    def prediction(self, scaled: Prediction) -> Prediction:
        """A prediction in the unit; the law, which is that of (y - location) / scale, stays."""
        given = {name: getattr(scaled, name) for name in ("aleatoric", "epistemic", "spread")}
        made = {name: self.variance(one) for name, one in given.items() if one is not None}
        return changed(scaled, location=self.location(scaled.location), **made)


def far_from_zero(offset: Host, factor: Host) -> bool:
    """Whether targets lie so far from 0 that single precision would round them by a part of their range.

    >>> far_from_zero(np.array([2000.0]), np.array([0.5])), far_from_zero(np.array([36.5]), np.array([5.0]))
    (True, False)
    """
    return bool((np.abs(offset) > FAR * factor).any())


def units_from(about: Mapping[str, Any]) -> Units:
    """The units in a run's recipe.json."""
    said = about["data"]
    return Units(said["unit"], said["offset"], said["factor"], said.get("names", ()))
