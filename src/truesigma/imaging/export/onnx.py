"""The calibrated model as one ONNX file: an image in; location, variances, scale and interval bounds out.

The Monte-Carlo draws are inside, and so are the recalibration and the target's unit; its card is in the metadata. The
file runs in onnxruntime without torch and without this package.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.checks import check_kind, check_level, check_whole
from ...core.law import Law, Normal
from ...core.values import Draws
from ...evaluation.card import Card
from ...files.disk import BadFile, check_folder, now, plain, write_atomically
from ...files.provenance import versions
from ..data.batches import bare
from ..data.inputs import Inputs, with_planes
from ..data.units import SCALED, Units
from ..prediction.runs import sampled_like
from ..sampling.draws import dropout_draws, ensemble_draws
from .check import as_predicted, verify
from .graph import content_hash, need_onnx, onnx_graph
from .module import Calibrated, DropoutPasses, Finish, Members, check_exportable
from .reading import STORED, Reading

INPUT, BESIDE = "image", "inputs"


@dataclass(frozen=True, eq=False)
class Exported:
    """A file that was written and checked: its shapes, and how far onnxruntime is from torch."""

    path: Path
    input: tuple[int | str, ...]
    outputs: tuple[str, ...]
    draws: int
    difference: float  # the largest, relative to |value| + scale
    difference_in_unit: float  # the largest of the location
    known: tuple[str, ...]  # the images it was compared on; none: the example
    metadata: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Exported({self.path.name}, {INPUT} {self.input} -> {', '.join(self.outputs)})"


@contextmanager
def _plain_torch() -> Iterator[None]:
    """Torch as it is by default, whatever device or autocast the call is surrounded by: the file is in float32."""
    with torch.device("cpu"), torch.autocast("cpu", enabled=False):
        yield


@_plain_torch()
def to_onnx(
    nets: nn.Module | Sequence[nn.Module],
    out: str | Path,
    *,
    example: Tensor,
    card: Card | None = None,
    draws: int | None = None,
    seed: int | None = None,
    levels: Sequence[float] = (0.9,),
    law: Law = Normal(),
    units: Units | None = None,
    prepare: Callable[[Tensor], Tensor] | None = None,
    inputs: Inputs | None = None,
    beside: Tensor | None = None,
    about: Mapping[str, Any] | None = None,
    known: Sequence[str] = (),
    reading: Reading | None = None,
) -> Exported:
    """Write a calibrated network as one ONNX file that needs neither torch nor this package.

    Its input is `image`, float32 (case, ...) like the example, and for a network that takes more than the image
    `inputs`, float32 (case, input). Its outputs are named as the columns of `predict`:
    location, aleatoric and epistemic (variances), scale, lower_90 and upper_90; with a card that has a referral also
    `refer`, bool (case,). The masks are stored in the file,
    and it gives what `predict` gives. Before the file is put in place, onnxruntime
    runs it on the example, and torch predicts the same, in the target's unit: the results must agree.

    Args:
        nets: one network for Monte-Carlo dropout; a list for one pass of each member without dropout, so that
            `[net]` is the single pass. Each maps images to (mean, log-variance); it is left as it is.
        out: the file to write, .onnx.
        example: some images, (case, channel, ...): the number of cases stays free, the other lengths do not.
        card: from `calibrate` or `read_card`, fitted on predictions that were made in the same way.
        draws, seed: of Monte-Carlo dropout with common masks; None for the card's, or 25 and 0 (see `dropout_draws`).
        levels: of the intervals.
        law: Normal() or Laplace(), as the networks were trained.
        units: from the network's outputs to the target's unit; a card in a unit needs them.
        prepare: what is done to an image before the network, such as a normalisation; it goes into the file.
        inputs: what the network takes besides the image, standardised in the file.
        beside: the inputs of the example, (case, input), as in a table.
        about: what else the metadata should say, plain values by name.
        known: the names of the example's images, if they are real ones.
        reading: how stored images, as the example's, are made of those in files, which the file then takes instead,
            with `spacing`, float64 (case, axis), if the layout has a scale.

    Returns:
        What was written, with the largest difference from torch.

    Example:
        >>> import tempfile
        >>> from truesigma.imaging.network.two_head import TwoHead
        >>> net = TwoHead(nn.Flatten(), 16, 1, dropout=0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     to_onnx(net, f"{folder}/model.onnx", example=torch.rand(2, 1, 4, 4))
        Exported(model.onnx, image ('case', 1, 4, 4) -> location, aleatoric, epistemic, scale, lower_90, upper_90)

    Reference: Laves et al., MELBA 2021, Eq. 9 and 10.
    """
    need_onnx()
    target = check_path(out)
    for level in levels:
        check_level(level)
    if card is not None:
        _check_sayable(card, units)
    nets = list(nets) if isinstance(nets, nn.ModuleList) else nets
    members = [_on_host(net) for net in ([nets] if isinstance(nets, nn.Module) else nets)]
    dropout, images, given = isinstance(nets, nn.Module), _check_example(example), inputs or Inputs()
    numbers = _check_beside(beside, given)
    with torch.no_grad():
        # Also so that what it caches is made before the trace, from real numbers.
        prepared = images if prepare is None else prepare(images)
        prepared = with_planes(prepared, None if numbers is None else given.scaled(numbers))
    sampling = sampled_like(card if dropout else None, 25, draws=draws, seed=seed, masks=None)
    check_whole("draws", sampling["draws"], 1)
    if dropout:
        inner: nn.Module = DropoutPasses(members[0], prepared, draws=sampling["draws"], seed=sampling["seed"])
        probe = dropout_draws(members[0], [prepared], law=law, **sampling)
    else:
        probe, inner = ensemble_draws(members, [prepared], law=law), Members(members)
        sampling = {"draws": len(members)}
    units = units or Units((card.unit if card else "",), np.zeros(1), np.ones(1))
    if card is not None:
        _check_card(card, probe, sampling["draws"], dropout)
    finish = Finish(law, units, card, tuple(levels), as_predicted(probe, card, units).law)
    model = Calibrated(inner, finish, prepare, given).eval()
    constants = inner.masks if isinstance(inner, DropoutPasses) else []
    entering = {STORED if reading else INPUT: images} | ({} if numbers is None else {BESIDE: numbers})
    proto = onnx_graph(model, entering, constants, outputs=finish.names)
    proto = proto if reading is None else reading.before(proto)
    shape: tuple[int | str, ...] = ("case", *map(int, images.shape[1:])) if reading is None else reading.shape
    metadata = _sealed(proto, {**_describe(model, shape, sampling, reading), **(about or {})})
    agreed: list[float] = []

    def write(part: Path) -> None:
        part.write_bytes(proto.SerializeToString())
        agreed[:] = verify(part, model, entering, probe, reading)

    write_atomically(target, write)
    outputs, (relative, in_units) = tuple(finish.names), agreed
    return Exported(target, shape, outputs, sampling["draws"], relative, in_units, tuple(known), metadata)


def _describe(
    model: Calibrated, shape: tuple[int | str, ...], sampling: Mapping[str, Any], reading: Reading | None
) -> dict[str, Any]:
    """Describe a model for the metadata of its file."""
    given, finish = model.inputs, model.finish
    several = "ensemble" if sampling["draws"] > 1 else "single pass"
    kind = "dropout" if isinstance(model.passes, DropoutPasses) else several
    beside = {
        "name": BESIDE,
        "dtype": "float32",
        "shape": ("case", len(given)),
        "order": list(given.names),
        "standardised inside": given.to_list(),
    }
    return {
        "input": {"name": INPUT, "dtype": "float32", "shape": shape},
        **({} if reading is None else reading.describe()),
        **({"inputs": beside} if given else {}),
        "outputs": finish.describe(),
        "unit": finish.units.text,
        **({"names": finish.units.names} if finish.units.names else {}),
        "sampling": {"kind": kind, **sampling},
        "date": now(),
        "versions": {**versions(), "torch": torch.__version__},
        **({} if finish.card is None else {"card": finish.card.to_dict()}),
    }


def _sealed(proto: Any, described: Mapping[str, Any]) -> dict[str, str]:
    """Put metadata into a model, and the hash of it all; return them."""
    metadata = {name: v if isinstance(v, str) else json.dumps(plain(v)) for name, v in described.items()}
    proto.producer_name, proto.producer_version = "truesigma", versions()["truesigma"]
    for name, text in metadata.items():
        proto.metadata_props.add(key=name, value=text)
    metadata["sha256"] = content_hash(proto)
    proto.metadata_props.add(key="sha256", value=metadata["sha256"])
    return metadata


def check_path(out: str | Path) -> Path:
    """The file to write, before the work begins."""
    target = check_folder(out)
    if target.suffix.lower() != ".onnx":
        raise BadFile(f"{out} should end in .onnx.")
    return target


def _check_beside(beside: Tensor | None, inputs: Inputs) -> Tensor | None:
    if not inputs:
        return None
    if beside is None or beside.ndim != 2 or beside.shape[1] != len(inputs):
        what = "nothing" if beside is None else tuple(beside.shape)
        raise ValueError(
            f"beside is {what}; expected the inputs of the example, (case, {len(inputs)}): {', '.join(inputs.names)}."
        )
    return _three(beside)


def _on_host(net: nn.Module) -> nn.Module:
    """A copy on the processor, in single precision and evaluation mode."""
    return copy.deepcopy(bare(net)).to("cpu", torch.float32).eval()


def _check_example(example: Any) -> Tensor:
    if not isinstance(example, Tensor) or example.ndim < 2 or 0 in example.shape:
        given = tuple(example.shape) if isinstance(example, Tensor) else f"a {type(example).__name__}"
        raise ValueError(f"example is {given}; expected a tensor of images, (case, channel, ...).")
    return _three(example)


def _three(values: Tensor) -> Tensor:
    """The first two cases and the last: with only one, its length would be taken for a constant."""
    return torch.cat([values[:2], values[-1:]]).detach().to("cpu", torch.float32)


def _check_sayable(card: Card, units: Units | None) -> None:
    """Refuse a card that no graph can hold, or whose unit nothing says the network's outputs to be in."""
    check_kind("card", card, Card, "a Card: read_card(path) reads one")
    check_exportable(card)
    if card.unit not in ("", SCALED) and units is None:
        raise ValueError(
            f"the card was fitted in {card.unit}, and nothing says what the network's outputs are. Give "
            f"units=Units(({card.unit!r},), offset, factor), by which they become {card.unit}: 0 and 1 where they are "
            "already, those of the standardisation where the network learned standardised targets."
        )
    if card.data.get("masks") == "independent":
        raise ValueError(
            "the card was fitted on draws with independent masks, and a file holds masks common to all images; fit "
            "it on predictions with these, as `truesigma predict` makes them."
        )


def _check_card(card: Card, probe: Draws, passes: int, dropout: bool) -> None:
    """Refuse a card that was fitted on predictions of another kind; its law and unit are checked where it is used."""
    fitted, count = card.data.get("draws", passes), math.prod(probe.mean.shape[2:])
    if card.data.get("outputs", count) != count:
        raise ValueError(
            f"the card was fitted on {card.data['outputs']} outputs, the network has {count}; fit it on this network's "
            "predictions."
        )
    if fitted != passes and not (dropout and fitted > 1):
        raise ValueError(
            f"the card was fitted on {fitted} draws of each case, the model would make {passes}: another sigma. Fit "
            "the card on predictions made as here; `truesigma predict RUN --deterministic` makes those without dropout."
        )
