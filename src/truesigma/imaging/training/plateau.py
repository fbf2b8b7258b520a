"""The learning rate that falls when the watched value stops gaining."""

import math
from dataclasses import dataclass, replace

__all__ = ["Plateau"]

GAIN = 1e-4  # smaller relative gains do not count


@dataclass(frozen=True)
class Plateau:
    """The learning rate, the best watched value so far, and the epochs waited since.

    After `patience` epochs without a gain of one part in ten thousand, the next one without multiplies the rate
    by `factor`: the rule of torch's ReduceLROnPlateau, as a value that can be written to a file. The gain is
    measured on the magnitude, so it also works for losses below zero.

    >>> Plateau(0.1).after(1.0, patience=0, factor=0.5).after(1.0, patience=0, factor=0.5).rate
    0.05
    """

    rate: float
    best: float = math.inf
    waited: int = 0

    def after(self, value: float, *, patience: int, factor: float) -> "Plateau":
        """The state after one more epoch whose watched value is given."""
        if value < self.best - (abs(self.best) * GAIN if math.isfinite(self.best) else 0.0):
            return replace(self, best=value, waited=0)
        if self.waited + 1 > patience:
            return replace(self, rate=self.rate * factor, waited=0)
        return replace(self, waited=self.waited + 1)

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values for JSON; a best that is not there yet is null."""
        return {
            "rate": self.rate,
            "best": self.best if math.isfinite(self.best) else None,
            "waited": self.waited,
        }

    @staticmethod
    def from_dict(stored: dict[str, float | None]) -> "Plateau":
        """The Plateau that `to_dict` wrote."""
        rate, best, waited = stored["rate"], stored["best"], stored["waited"]
        return Plateau(rate or 0.0, math.inf if best is None else best, int(waited or 0))
