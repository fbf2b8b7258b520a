"""Predict with trained networks: the cases of a split, or new image files without targets."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.cases import Cases
from ...core.decompose import decompose
from ...core.law import Law, Normal
from ...core.values import Draws, Prediction, changed
from ...files.images import ENDINGS
from ..data.dataset import DataSet, Split, batches, resident
from ..data.folder import FileReader, images_below
from ..data.source import Intake
from ..data.units import SCALED
from ..sampling.draws import Masks, Precision, dropout_draws, dropout_moments, ensemble_draws
from ..sampling.fitted import FittedSigma
from ..sampling.moments import MonteCarloError, error_of

Noted = Callable[[MonteCarloError], None]
Nets = nn.Module | Sequence[nn.Module] | FittedSigma
Told = Callable[[int], None]  # is called with how many more cases were handed to the network


def predict_split(
    nets: Nets,
    data: DataSet,
    split: str = "test",
    *,
    draws: int = 25,
    seed: int = 0,
    law: Law = Normal(),
    batch: int = 16,
    precision: Precision = "fp32",
    compile: bool = False,
    masks: Masks = "common",
    moments: bool = False,
    scaled: bool = False,
    progress: Told | None = None,
    note: Noted | None = None,
) -> Cases | Draws | Prediction:
    """Predict every case of a split, in the target's unit.

    Args:
        nets: one network for Monte-Carlo dropout; a list for an ensemble, one pass each without dropout; or one with
            the sigma of `fit_sigma`.
        data: with the split, as the networks were trained on it.
        split: its name.
        draws: of each case; an ensemble has as many as members.
        seed: of the dropout masks.
        law: Normal() or Laplace(), as the networks were trained.
        batch: cases at a time; independent masks depend on it.
        precision: "fp32" or "bf16".
        compile: as for `dropout_draws`; an ensemble is not compiled.
        masks: "common" to all cases, or "independent" (see `dropout_draws`).
        moments: keep only location, aleatoric and epistemic: memory does not grow with the draws.
        scaled: leave targets and predictions as the networks see them, in about [0, 1].
        progress: is called with the number of cases of each batch.
        note: is called with the Monte-Carlo error of location and scale, as the networks see them: in about [0, 1].

    Returns:
        Cases with their draws (none with `moments`), names and groups; if no case has a target, only the Draws or the
        Prediction.

    Example:
        >>> from truesigma.imaging.data.dataset import Split
        >>> from truesigma.imaging.network.two_head import TwoHead
        >>> some = Split(torch.rand(3, 1, 4, 4), torch.rand(3, 1), ("a", "b", "c"))
        >>> data = DataSet("noise", {"test": some}, torch.Tensor.float, lambda x, y, g: (x, y), ("mm",),
        ...                torch.zeros(1), torch.ones(1))
        >>> predict_split(TwoHead(nn.Flatten(), 16, 1, dropout=0.5), data, draws=4)
        Cases(3 cases, normal, in mm)
    """
    if split not in data.splits:
        raise ValueError(f"{data.name} has no split {split!r}; it has {', '.join(data.splits)}")
    chosen, units = data.splits[split], data.units
    if not len(chosen):
        raise ValueError(f"the split {split!r} of {data.name} has no cases")
    device = _device(nets)
    made = batches(resident(chosen, device), batch, prepare=data.prepare, device=device)
    images = _counted((one.images for one in made), progress)
    value = _sample(
        nets, images, draws=draws, seed=seed, law=law, precision=precision, compile=compile, masks=masks,
        moments=moments, note=note,
    )  # fmt: skip
    target = chosen.target.cpu().numpy()
    if not scaled:
        value, target = units.convert(value), units.location(target)
    known = ~np.isnan(target)
    if not known.any():
        return value
    if not known.all():
        value = changed(value, mask=known)  # outputs without a target count in no score
    prediction = decompose(value) if isinstance(value, Draws) else value
    return Cases(
        prediction,
        target,
        id=np.asarray(chosen.name),
        group=chosen.apart,
        patient=None if chosen.patient is None else np.asarray(chosen.patient),
        unit=SCALED if scaled else units.text,
        names=units.names,
        draws=value if isinstance(value, Draws) else None,
    )


def predict_images(
    nets: Nets,
    files: Sequence[Path],
    way: Intake,
    *,
    batch: int = 16,
    moments: bool = True,
    skip_broken: bool = False,
    workers: int = 4,
    progress: Told | None = None,
    **how: Any,
) -> tuple[list[Path], Draws | Prediction]:
    """Predict new image files, without targets; images are streamed, so that a folder may have any size.

    Args:
        nets: as in `predict_split`.
        files: the images, from `list_images`.
        way: how files become network input, from `intake`.
        batch, progress, how: as in `predict_split`: draws, seed, law, precision, compile, masks, note.
        moments: False keeps the draws.
        skip_broken: leave out files that cannot be read, instead of stopping and naming them.
        workers: threads that read files.

    Returns:
        (files that were predicted, their prediction as the network gives it, scaled: see `Units.convert`).
    """
    device = _device(nets)
    reader = _reader(files, way)
    if skip_broken and len(reader.broken) < len(files):
        files = [path for row, path in enumerate(files) if row not in reader.broken]
        reader = _reader(files, way)
    raw, unknown = way.numbers(files), torch.full((len(files), 1), torch.nan)
    inputs = None if raw is None else way.inputs.standardised(raw)
    split = Split(reader, unknown, tuple(reader.names), inputs=inputs)
    made = batches(split, batch, prepare=way.prepare, device=device, workers=workers)
    images = _counted((one.images for one in made), progress)
    return list(files), _sample(nets, images, moments=moments, **how)


def _reader(files: Sequence[Path], way: Intake) -> FileReader:
    """Stream the images of files, as they are stored for the network."""
    remedy = "Restore them, or leave them out (--skip-broken)."
    return FileReader([str(path) for path in files], lambda row: way.stored(files[row]), remedy)


def list_images(places: Iterable[Path], *, volumes: bool = False) -> list[Path]:
    """List the image files that are named, and those in named folders, in the order of their names.

    Args:
        places: files and folders. A folder gives the images in it and below.
        volumes: the network takes 3-D images: folders of DICOM slices are then one image each.

    Example:
        >>> list_images([Path("scan.png")])
        [PosixPath('scan.png')]
    """
    found: list[Path] = []
    for place in places:
        if not place.exists() and not place.name.lower().endswith((*ENDINGS, ".npz")):
            raise ValueError(f"there is no folder or file {place}; check the name")
        if not place.is_dir():
            found.append(place)  # a missing image is named when it is read, with all others
            continue
        below = images_below(place)
        images = sorted(
            one for here, series, some in below for one in ([here] if volumes and series else some)
        )
        if not images:
            raise ValueError(
                f"{place} holds no images; expected files ending in {' '.join((*ENDINGS, '.npz'))}"
            )
        found += images
    if not found:
        raise ValueError("no images were given; expected files or folders")
    return found


def _device(nets: Nets) -> torch.device:
    """Where the networks are."""
    one = nets if isinstance(nets, nn.Module) else nets.net if isinstance(nets, FittedSigma) else nets[0]
    return next(one.parameters()).device


def _sample(
    nets: Nets,
    images: Iterable[Tensor],
    *,
    moments: bool,
    draws: int = 25,
    seed: int = 0,
    law: Law = Normal(),
    precision: Precision = "fp32",
    compile: bool = False,
    masks: Masks = "common",
    note: Noted | None = None,
) -> Draws | Prediction:
    if isinstance(nets, FittedSigma):
        made = nets(images)
        return decompose(made) if moments and isinstance(made, Draws) else made
    how: dict[str, Any] = {"draws": draws, "seed": seed, "compile": compile, "masks": masks}
    if isinstance(nets, nn.Module) and moments:
        return dropout_moments(nets, images, law=law, precision=precision, note=note, **how)
    if isinstance(nets, nn.Module):
        drawn = dropout_draws(nets, images, law=law, precision=precision, **how)
    else:
        drawn = ensemble_draws(nets, images, law=law, precision=precision)
    if note is not None:
        note(error_of(drawn))
    return decompose(drawn) if moments else drawn


def _counted(images: Iterable[Tensor], progress: Told | None) -> Iterator[Tensor]:
    for one in images:
        yield one
        if progress is not None:
            progress(len(one))
