"""A trained run with its card as one ONNX file, compared with torch on images that the run knows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.plugins import accepted
from ...evaluation.card import Card, check_network
from ...files.disk import UNREADABLE
from ...files.headers import read_header
from ...files.images import read_image
from ..data.inputs import Inputs, inputs_from
from ..data.prepare import Layout, Normalise
from ..data.rows import per_axis, spacing_columns
from ..data.source import Source, intake, prepare_of, recorded
from ..prediction.runs import mark_of, open_runs, training_of
from .graph import need_onnx
from .onnx import Exported, check_path, to_onnx
from .reading import Reading


def export_runs(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    card: Card | None = None,
    draws: int | None = None,
    seed: int | None = None,
    deterministic: bool = False,
    levels: Sequence[float] = (0.9,),
    code: Collection[str | Path] = (),
) -> Exported:
    """Export trained runs: one with Monte-Carlo dropout or as a single pass, several as an ensemble.

    Args:
        folders: what `train` wrote.
        out: the file to write, .onnx.
        card: fitted on predictions of these runs that were made in the same way.
        draws, seed: of Monte-Carlo dropout; None for the card's, or the recipe's number and 0.
        deterministic: a single pass without dropout.
        levels: of the intervals.
        code: your own Python files that these runs may use, as in `load_run`.

    Returns:
        What was written; its input is an image as `read_image` gives it, with the mm between its pixels where images
        are resampled to a scale; resizing and normalisation are part of the file. It was compared with torch on three
        validation images, if these still exist.
    """
    need_onnx()
    check_path(out)
    runs = open_runs(folders, device="cpu", code=code)
    run, single = runs[0], deterministic or len(runs) > 1 or runs[0].fitted
    if card is not None:
        check_network(card, mark_of(runs))
        if "method" in card.data:
            raise ValueError(
                f"the card was fitted on sigmas by {card.data['method']}, which an exported file does not hold; fit it "
                "on draws of dropout, or on a single pass."
            )
    for name, value in (("draws", draws), ("seed", seed)):
        if value is not None and single:
            raise ValueError(
                f"{name} is of Monte-Carlo dropout in one run; leave it out for a single pass or an ensemble."
            )
    usual = run.draws if card is None else card.data.get("draws", run.draws)
    source, kept = recorded(run.about, code=code), run.about["record"]
    prepare, inputs = prepare_of(source, run.about), inputs_from(kept.get("inputs", ()))
    known = known_images(source, run.about) or _made_up(source, kept["image"], prepare, inputs)
    about = {
        "network": [training_of(one) for one in runs],
        "preprocessing": {
            "data set": Path(source.dataset).name,
            "options": accepted(source.plugin.read, source.options) if hasattr(source.plugin, "read") else {},
            "stored as": kept["image"],
            "resized inside": known.reading is not None,
            "normalised inside": kept["prepare"] or "the data set's own",
        },
        "compared on": list(known.names) or "noise",
    }
    return to_onnx(
        [one.net for one in runs] if single else run.net,
        out,
        example=known.images,
        card=card,
        draws=None if single else usual if draws is None else draws,
        seed=seed,
        levels=levels,
        law=run.law,
        units=run.units,
        prepare=prepare,
        inputs=inputs,
        beside=known.beside,
        about=about,
        known=known.names,
        reading=known.reading,
    )


@dataclass(frozen=True, eq=False)
class Known:
    """Images as a run's data set stores them, with their inputs as the table says them; without names of noise."""

    names: tuple[str, ...]
    images: Tensor
    beside: Tensor | None
    reading: Reading | None


def known_images(source: Source, about: Mapping[str, Any]) -> Known | None:
    """The images that a run has noted for comparison; None if they, or what reads them, are missing."""
    names, root = about["record"].get("known", ()), Path(source.root)
    columns = "inputs" in about["record"] or spacing_columns(source.options.get("spacing", ""))
    files = [root / name for name in names]
    if not files or not hasattr(source.plugin, "read") or not all(file.exists() for file in files):
        return None
    try:
        table = root / source.options.get("csv", "table.csv") if columns else None
        way = intake(source, about, files, table)
        images = torch.stack([way.stored(file) for file in files])
        pixels = [
            torch.from_numpy(read_image(one, dimensions=images.ndim - 2).astype(np.float32)) for one in files
        ]
        apart = [way.spacing.get(one, "") for one in files]
        reading = _reading(source, about["record"]["image"], pixels, apart, files)
    except UNREADABLE:
        return None
    numbers = way.numbers(files)
    return Known(tuple(names), images, None if numbers is None else torch.from_numpy(numbers), reading)


def _made_up(source: Source, image: Mapping[str, Any], prepare: Any, inputs: Inputs) -> Known:
    """Noise in the place of images that are gone."""
    noise = _noise(image, prepare)
    reading = _reading(source, image, list(noise), [""] * len(noise), ())
    return Known((), noise if reading is None else reading.stored(), _usual(inputs), reading)


def _reading(
    source: Source,
    image: Mapping[str, Any],
    images: Sequence[Tensor],
    spacing: Sequence[str],
    files: Sequence[Path],
) -> Reading | None:
    """How a table's images are read, with some to try it on; None for those that are stored as they are.

    spacing: mm between the pixels of each, where a column gives it. files: that say it otherwise.
    """
    options = source.options
    if source.dataset != "table" or not options.get("size"):
        return None
    names = ("size", "mm_per_pixel", "dimensions", "normalise", "coordinates")
    layout = Layout.of(**{name: options[name] for name in names if name in options})
    given = options.get("spacing", "")
    fixed = bool(layout.mm_per_pixel and given) and not spacing_columns(given)
    apart: list[Sequence[float]] = [per_axis("spacing", given if fixed else one) for one in spacing]
    if layout.mm_per_pixel and not all(apart):
        apart = [read_header(one, dimensions=layout.dimensions).spacing for one in files]
        apart = apart or [layout.mm_per_pixel] * len(images)
    return Reading(layout, image["dtype"] == "uint8", images, apart if layout.mm_per_pixel else (), fixed)


def _usual(inputs: Inputs) -> Tensor | None:
    """Inputs of three cases near the training mean, if no known case is at hand."""
    if not inputs:
        return None
    spread = [(c.mean, c.sd) if not c.levels else (0.5, 0.5) for c in inputs.columns for _ in c.names]
    return torch.tensor([[mean + k * sd for mean, sd in spread] for k in (-1, 0, 1)])


def _noise(image: Mapping[str, Any], prepare: Any) -> Tensor:
    """Images of noise with the mean and the deviation of the training images, as they are stored."""
    noise = torch.randn(3, *image["shape"], generator=torch.Generator().manual_seed(0))
    eight = image["dtype"] == "uint8"
    usual = Normalise((0.5,), (0.25,), 255.0 if eight else 1.0)
    given = prepare if isinstance(prepare, Normalise) and prepare.mean else usual
    mean, sd = (torch.tensor(one).view(-1, *[1] * (noise.ndim - 2)) for one in (given.mean, given.sd))
    stored = given.top * (mean + sd * noise)
    return stored.clamp(0, 255).round() if eight else stored
