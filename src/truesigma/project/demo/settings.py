"""How large the demo is, and what it compares."""

from dataclasses import dataclass

CHOICES = {"none": "none", "aux": "aux", "sigma": "sigma", "aleatoric only": "sigma:part=aleatoric"}
NEW = 5  # volumes that nobody has seen, predicted from their raw files


@dataclass(frozen=True)
class Settings:
    """Cases to train on, to recalibrate on and to score on; epochs; draws; and the seed of all of it.

    >>> Settings().options["cases"]
    2600
    """

    seed: int = 0
    train: int = 400
    valid: int = 600
    test: int = 1600
    epochs: int = 45
    draws: int = 25

    def __post_init__(self) -> None:
        for name in ("train", "valid", "test", "epochs", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1.")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; expected 0 or more.")

    @property
    def options(self) -> dict[str, int]:
        """Those of the simulated data set."""
        cases = self.train + self.valid + self.test
        return {"cases": cases, "train": self.train, "valid": self.valid, "seed": self.seed}
