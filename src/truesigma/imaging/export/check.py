"""Compare an exported model with its network: the numbers it drew are replayed in torch, and must agree."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...core.arrays import Host
from ...core.decompose import decompose
from ...core.values import Draws, Prediction
from ...evaluation.apply import interval_fields
from ...evaluation.card import Card
from ...evaluation.sets import as_cases
from ...recalibrate._referral import sigma_of
from ..data.units import Units
from ..network.outputs import values
from ..prediction.write import in_cards_unit, recalibrated
from .module import Calibrated, Finish
from .reading import Reading

CLOSE = 1e-4  # of a value and its scale; onnxruntime and torch sum in another order
RANDOM = "RandomUniformLike"


class Disagreement(RuntimeError):
    """An exported model that does not do what the network does."""


class _Replayed(TorchDispatchMode):
    """Gives recorded numbers where random ones are asked for."""

    def __init__(self, numbers: Iterable[Host]) -> None:
        super().__init__()
        self.numbers = iter(numbers)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.rand_like.default:
            return torch.from_numpy(next(self.numbers))
        return func(*args, **(kwargs or {}))


def verify(
    path: Path,
    model: Calibrated,
    given: Mapping[str, Tensor],
    drawn: Draws | None = None,
    reading: Reading | None = None,
) -> tuple[float, float]:
    """Run the file in onnxruntime, and compare it with the network, the card and the units in torch.

    Args:
        path: the exported file.
        model: what was exported.
        given: stored images and what is beside them, by the names of inputs, of two cases or more.
        drawn: what the network gives for them; None if the file draws masks of its own, which torch then replays.
        reading: how the file itself makes stored images of others, one after another; None if it takes stored ones.

    Returns:
        The largest difference, relative to |value| + scale, and that of the location in the target's unit.
        `Disagreement` if the first is above 1e-4, or if two runs draw the same.
    """
    import onnx
    import onnxruntime

    watched = onnx.load(path)
    random = [node.output[0] for node in watched.graph.node if node.op_type == RANDOM]
    for name in random:
        watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    plain = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    finish, differences = model.finish, []
    count = len(next(iter(given.values())))
    parts = [slice(None)] if reading is None else [slice(k, k + 1) for k in range(count)]
    for part in parts:
        seen = {name: tensor[part] for name, tensor in given.items()}
        taken = seen if reading is None else reading.instead(seen, part.start)
        arrays = {name: tensor.numpy() for name, tensor in taken.items()}
        found = dict(zip((o.name for o in session.get_outputs()), session.run(None, arrays)))
        numbers = [found.pop(name) for name in random]
        if drawn is None:
            draws = _replay(model, list(seen.values()), numbers)
            _check_numbers(numbers, session, arrays, random)
        else:
            draws = drawn[part]
        expected = _fields(as_predicted(draws, finish.card, finish.units), finish)
        differences.append(
            (_distance(found, expected), float(abs(found["location"] - expected["location"]).max()))
        )
        _check_referral(found, draws, finish)
        # On its own and unrecorded, as it will be used, with another number of cases.
        other = 1 if reading is None else 2
        some = plain.run(None, {name: np.concatenate([batch[:1]] * other) for name, batch in arrays.items()})
        if [o.shape for o in some] != [(other, *found[name].shape[1:]) for name in found]:
            raise Disagreement(
                f"{other} case(s) give outputs of shapes {[o.shape for o in some]}; expected a row for each."
            )
    relative, in_unit = zip(*differences)
    return max(relative), max(in_unit)


def _replay(model: Calibrated, given: list[Tensor], numbers: list[Host]) -> Draws:
    """Draw with the network for these images, using the random numbers that were drawn elsewhere."""
    with torch.no_grad():
        prepared = model.entering(*given)
        with _Replayed(numbers):
            mean, second = model.passes(prepared)
    pair = mean.flatten(0, 1), second.flatten(0, 1)
    law = model.finish.law
    middle, variance, _ = values(pair, len(mean), given[0], 0, law)
    return Draws(middle.numpy(), variance.numpy(), law=law)


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


def _check_numbers(numbers: list[Host], session: Any, given: Mapping[str, Host], names: list[str]) -> None:
    if not numbers:
        return
    if all(np.array_equal(a, b) for a, b in zip(numbers, session.run(names, given))):
        raise Disagreement("two runs of the exported model draw the same dropout masks; expected new ones.")


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
