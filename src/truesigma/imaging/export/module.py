"""A calibrated network as one module: an image in; location, variances, scale and interval bounds out.

It consists of tensor operations alone, so that it can be exported. Nothing is checked inside: whoever exports it
compares its results with those of the package (`truesigma.imaging.export`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.decompose import moments
from ...core.law import Law, central_bounds
from ...core.recalibration import Across
from ...core.values import Prediction, trusted
from ...evaluation.apply import bound_names
from ...evaluation.card import Card
from ...recalibrate._referral import Referral
from ..data.inputs import Inputs, with_planes
from ..data.units import SCALED, Units
from ..network.outputs import bounded_exp, log_variance
from ..sampling.masks import with_masks
from ..sampling.trace import Untraceable, split

BYTES = np.arange(256, dtype=np.uint8)[:, None]


class Members(nn.Module):
    """One pass of each network, as in evaluation: (mean, second output), each (member, case, output...)."""

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, second = zip(*[net(x) for net in self.nets])
        return torch.stack(mean), torch.stack(second)


class DropoutPasses(nn.Module):
    """Monte-Carlo dropout: (mean, second output), each (draw, case, output...).

    What comes before the first random operation runs once, and the draws of the rest are folded into its batch. The
    masks are inputs after the images.
    """

    bits: Tensor

    def __init__(self, net: nn.Module, example: Tensor, *, draws: int, seed: int) -> None:
        super().__init__()
        self.masks: list[Tensor] = []  # booleans as bits, which a table of all bytes unpacks
        self.shapes: list[tuple[int, ...]] = []
        self.register_buffer("bits", torch.from_numpy(np.unpackbits(BYTES, axis=1)).bool())
        try:
            pieces = split(net, example)
        except Untraceable as problem:
            name = type(net).__name__
            raise ValueError(
                f"{name} cannot be exported, since torch.export cannot follow it: {problem}"
            ) from problem
        self.prefix = pieces.prefix
        masked = with_masks(pieces.rest, seed)
        if masked is None:
            raise ValueError(
                f"{type(net).__name__} draws random numbers inside fused attention, or the like, which cannot "
                "be exported. Export a single pass, or an ensemble: nets=[net]."
            )
        self.rest = masked.rest
        for mask in masked.masks(range(draws), torch.device("cpu")):
            self.shapes.append(tuple(mask.shape))
            packed = np.packbits(mask.numpy()) if mask.dtype == torch.bool else mask.numpy()
            self.masks.append(torch.from_numpy(packed))
        self.batched, self.draws, self.folds = pieces.batched, draws, not pieces.obstacle

    def forward(self, x: Tensor, *masks: Tensor) -> tuple[Tensor, Tensor]:
        handed, masks = self.prefix(x), tuple(map(self._unpacked, masks, self.shapes))
        if not self.folds:
            each = [[mask[draw : draw + 1] for mask in masks] for draw in range(self.draws)]
            mean, second = zip(*[self.rest(*handed, *own) for own in each])
            return torch.stack(mean), torch.stack(second)
        inputs = [torch.cat([t] * self.draws) if fold else t for t, fold in zip(handed, self.batched)]
        mean, second = self.rest(*inputs, *masks)
        return mean.unflatten(0, (self.draws, -1)), second.unflatten(0, (self.draws, -1))

    def _unpacked(self, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
        if mask.dtype != torch.uint8:
            return mask
        return self.bits.index_select(0, mask.int()).flatten()[: math.prod(shape)].reshape(shape)


def check_exportable(card: Card) -> None:
    """Say which card cannot become part of a graph, and what to do."""
    fitted, recipe = card.recalibration, card.recipe
    if isinstance(fitted, Across):
        raise ValueError(
            f"{fitted.to_dict()['name']} takes the predictions of its networks apart, and cannot be exported. Predict "
            "with `truesigma predict RUN...` and the card, or train one network, without folds, for one file."
        )
    if not hasattr(fitted, "variance_ratio"):
        raise ValueError(
            f"the recalibration {fitted.to_dict()['name']!r} cannot be exported: it has no variance_ratio(total), that "
            "says in array operations what it does to the variances. Add the method to its file, or export with a card "
            "of sigma, aux, isotonic or conformal."
        )
    if recipe.tables["decompose"]["clamp"]:
        raise ValueError(
            f"recipe {recipe.name!r} clamps the draws to [0, 1], which cannot be exported; fit the card with recipe "
            "'exact' or 'paper'."
        )


@dataclass(frozen=True, eq=False)
class Finish:
    """From the outputs of some passes to the numbers people read, as `results.recalibrated` makes them.

    Args:
        law: of the network's likelihood.
        units: of its targets.
        card: of the recalibration; None for none.
        levels: of the intervals.
        final_law: of the recalibrated prediction.
    """

    law: Law
    units: Units
    card: Card | None
    levels: tuple[float, ...]
    final_law: Law

    def __post_init__(self) -> None:
        for level in self.levels:
            if math.inf in (abs(bound) for bound in central_bounds(self.final_law, level)):
                raise ValueError(
                    f"the {level:g} interval of this recalibration is infinite: it was fitted on too few cases for "
                    "that level. Ask for a lower level, or fit it on more cases."
                )

    @property
    def names(self) -> list[str]:
        bounds = [name for level in self.levels for name in bound_names(level)]
        refer = [] if self.refer is None else ["refer"]
        return ["location", "aleatoric", "epistemic", "scale", *bounds, *refer]

    @property
    def refer(self) -> Referral | None:
        """Which cases to refer, if the card says so."""
        return None if self.card is None else self.card.refer

    def describe(self) -> dict[str, str]:
        """Describe each output, for the metadata."""
        several = self.units.names if len(self.units.names) > 1 else ()
        said = {
            "location": f"prediction of {', '.join(several)}" if several else "prediction",
            "aleatoric": "variance of the noise",
            "epistemic": "variance of the model",
            "scale": {"normal": "standard deviation", "laplace": "b of the Laplace law"}.get(
                self.final_law.name, "scale of the law"
            ),
        }
        for level in self.levels:
            for name, side in zip(bound_names(level), ("lower", "upper")):
                said[name] = f"{side} bound of the {100 * level:.10g} % interval"
        if self.units.text:
            squared = {"aleatoric": " squared", "epistemic": " squared"}
            said = {
                name: f"{words}, in {self.units.text}{squared.get(name, '')}" for name, words in said.items()
            }
        return said if self.refer is None else {**said, "refer": f"(case,): {self.refer.words}"}

    def __call__(self, mean: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        variance = bounded_exp(log_variance(second, self.law))
        offset, factor = (torch.tensor(a, dtype=mean.dtype) for a in (self.units.offset, self.units.factor))
        scaled = self.card is not None and self.card.unit == SCALED  # then it is applied before the unit
        if not scaled:
            mean, variance = offset + factor * mean, factor**2 * variance
        choice = {} if self.card is None else self.card.recipe.tables["decompose"]
        kind = {name: choice[name] for name in ("aleatoric", "ddof") if name in choice}
        location, aleatoric, epistemic, _ = moments(mean, variance, **kind)
        refer = [] if self.refer is None else [_refer(self.refer, aleatoric + epistemic)]
        if self.card is not None:
            fitted: Any = self.card.recalibration
            if getattr(fitted, "part", "total") == "aleatoric":
                epistemic = torch.zeros_like(epistemic)
            ratio = fitted.variance_ratio(aleatoric + epistemic)
            aleatoric, epistemic = aleatoric * ratio, epistemic * ratio
        if scaled:
            location = offset + factor * location
            aleatoric, epistemic = factor**2 * aleatoric, factor**2 * epistemic
        made = trusted(
            Prediction, location=location, aleatoric=aleatoric, epistemic=epistemic, law=self.final_law
        )
        intervals = [made.interval(level) for level in self.levels]
        bounds = [bound for interval in intervals for bound in (interval.lower, interval.upper)]
        return location, aleatoric, epistemic, made.scale, *bounds, *refer


def _refer(refer: Referral, total: Tensor) -> Tensor:
    """Whether each case is to be referred, (case,), by its sigma before recalibration; all without a threshold."""
    mean = total.flatten(1).mean(dim=1)
    return mean > (-1.0 if refer.threshold is None else refer.threshold**2)


class Calibrated(nn.Module):
    """Prepare an image, pass it through the network, and finish; inputs, if any, are the second tensor."""

    def __init__(
        self,
        passes: nn.Module,
        finish: Finish,
        prepare: Callable[[Tensor], Tensor] | None,
        inputs: Inputs | None = None,
    ) -> None:
        super().__init__()
        self.passes, self.finish, self.prepare = passes, finish, prepare or nn.Identity()
        self.inputs = inputs or Inputs()

    def entering(self, image: Tensor, beside: Tensor | None = None) -> Tensor:
        """Prepare an image for the network."""
        return with_planes(self.prepare(image), None if beside is None else self.inputs.scaled(beside))

    def forward(self, image: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        beside, masks = (more[0], more[1:]) if self.inputs else (None, more)
        return self.finish(*self.passes(self.entering(image, beside), *masks))
