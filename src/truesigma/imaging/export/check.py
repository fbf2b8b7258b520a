"""Compare an exported model with its network: what both give for the same images must agree."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from ...core.arrays import Host
from ...core.decompose import decompose
from ...core.values import Draws, Prediction
from ...evaluation.apply import interval_fields
from ...evaluation.card import Card
from ...evaluation.sets import as_cases
from ...recalibrate._referral import sigma_of
from ..data.units import Units
from ..prediction.write import in_cards_unit, recalibrated
from .module import Calibrated, Finish
from .reading import Reading

CLOSE = 1e-4  # of a value and its scale; onnxruntime and torch sum in another order


class Disagreement(RuntimeError):
    """An exported model that does not do what the network does."""


def verify(
    path: Path,
    model: Calibrated,
    given: Mapping[str, Tensor],
    drawn: Draws,
    reading: Reading | None = None,
) -> tuple[float, float]:
    """Run the file in onnxruntime, and compare it with the network, the card and the units in torch.

    Args:
        path: the exported file.
        model: what was exported.
        given: stored images and what is beside them, by the names of inputs, of two cases or more.
        drawn: what the network gives for them.
        reading: how the file itself makes stored images of others, one after another; None if it takes stored ones.

    Returns:
        The largest difference, relative to |value| + scale, and that of the location in the target's unit.
        `Disagreement` if the first is above 1e-4.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    finish, differences = model.finish, []
    count = len(next(iter(given.values())))
    parts = [slice(None)] if reading is None else [slice(k, k + 1) for k in range(count)]
    for part in parts:
        seen = {name: tensor[part] for name, tensor in given.items()}
        taken = seen if reading is None else reading.instead(seen, part.start)
        arrays = {name: tensor.numpy() for name, tensor in taken.items()}
        found = dict(zip((o.name for o in session.get_outputs()), session.run(None, arrays)))
        draws = drawn[part]
        expected = _fields(as_predicted(draws, finish.card, finish.units), finish)
        differences.append(
            (_distance(found, expected), float(abs(found["location"] - expected["location"]).max()))
        )
        _check_referral(found, draws, finish)
        # With another number of cases.
        other = 1 if reading is None else 2
        some = session.run(
            None, {name: np.concatenate([batch[:1]] * other) for name, batch in arrays.items()}
        )
        if [o.shape for o in some] != [(other, *found[name].shape[1:]) for name in found]:
            raise Disagreement(
                f"{other} case(s) give outputs of shapes {[o.shape for o in some]}; expected a row for each."
            )
    relative, in_unit = zip(*differences)
    return max(relative), max(in_unit)


def as_predicted(draws: Draws, card: Card | None, units: Units) -> Prediction:
    """Turn a network's draws into predictions, as `predict` does."""
    return units.prediction(decompose(draws)) if card is None else recalibrated(card, draws, units)


def _fields(prediction: Prediction, finish: Finish) -> dict[str, Host]:
    plain = {name: getattr(prediction, name) for name in ("location", "aleatoric", "epistemic", "scale")}
    return {**plain, **interval_fields(prediction, finish.levels)}


def _check_referral(found: Mapping[str, Host], drawn: Draws, finish: Finish) -> None:
    """Refuse a file that refers other cases than the card does, except those whose sigma is at the threshold."""
    if finish.card is None or finish.refer is None:
        return
    given = in_cards_unit(finish.card, drawn, finish.units)
    sigma = sigma_of(finish.card.recipe.prediction(as_cases(given)))
    threshold = finish.refer.threshold or math.nan
    clear = ~(abs(sigma - threshold) <= CLOSE * threshold)
    if (found["refer"] != finish.card.referred(given))[clear].any():
        raise Disagreement(
            "refer of the exported model is not what the card says of these images. No file was written."
        )


def _distance(found: Mapping[str, Host], expected: Mapping[str, Host]) -> float:
    worst = 0.0
    total = expected["aleatoric"] + expected["epistemic"]
    for name, value in expected.items():
        size = abs(value) + (total if name in ("aleatoric", "epistemic") else expected["scale"])
        far = float((abs(found[name] - value) / size).max())
        if not far <= CLOSE:
            raise Disagreement(
                f"{name} of the exported model is off by {far:.2g} of its size; at most {CLOSE:g} was expected. No "
                "file was written. Does the network compute in a way that its trace does not show, such as on values?"
            )
        worst = max(worst, far)
    return worst
