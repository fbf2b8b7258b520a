"""Per-voxel maps: a card applied to NIfTI predictions, written back as NIfTI with the same geometry.

`p1_location.nii.gz` with `p1_scale.nii.gz` (or `p1_aleatoric` and `p1_epistemic`, variances), and perhaps `p1_mask`,
becomes `p1_sigma.nii.gz`, the recalibrated standard deviation, with the bounds of intervals as `p1_lower_90` and
`p1_upper_90`. Input and output names never coincide, so that nothing is recalibrated twice.
"""

import gzip
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.law import Law, Undefined
from ..core.values import Draws, Prediction
from ..files.chunks import open_source
from ..files.disk import BadFile, write_atomically
from ..files.fields import from_fields, is_group
from ..files.find import NIFTI, CaseFiles, find_sources
from .apply import bound_names, interval_fields
from .card import Card

LOCATION = "location"
LEVEL = 1  # of compression, as nibabel has it: 6 takes twice as long and saves a tenth


@dataclass(frozen=True)
class Maps:
    """The result for one case: its location's file, the files written, and how many voxels count."""

    source: str
    files: tuple[str, ...]
    voxels: int


def find_maps(given: Sequence[str]) -> list[CaseFiles]:
    """Find the cases that NIfTI files, folders, globs or manifests name; each needs its location."""
    sources = find_sources(given)
    for source in sources:
        if not all(path.lower().endswith(NIFTI) for path in source.files.values()):
            raise BadFile(
                f"{source.name} is not a NIfTI file; expected .nii or .nii.gz, a file for each field of a case, or one "
                "table of predictions: apply the card to each."
            )
        if LOCATION not in source.files:
            raise BadFile(f"there is no location beside {source.name}; expected it, with its scale.")
    return sources


def apply_maps(
    card: Card,
    given: Sequence[str],
    out: str | Path,
    *,
    levels: Sequence[float] = (0.9,),
    law: Law | str | None = None,
    tick: Callable[[int], None] | None = None,
) -> list[Maps]:
    """Recalibrate maps and write sigma and the bounds of intervals as compressed NIfTI in single precision.

    Affine, orientation codes, units and everything else in the header are those of the location. Voxels outside the
    mask are 0. If the law has no variance, only the bounds are written. One case is in memory at a time.

    Args:
        card: from `calibrate` or `read_card`.
        given: NIfTI files, folders, globs or manifests.
        out: the folder to write to; folders below the one that all cases share are kept.
        levels: of the intervals.
        law: of the predictions; the card's unless given.
        tick: is called with 1 after each case.

    Returns:
        What was written, case by case.
    """
    import nibabel

    cases = find_maps(given)
    beginnings = _beginnings(cases, Path(out))
    _check_apart(cases, beginnings, levels)
    made = []
    for source, begin in zip(cases, beginnings):
        prediction = _recalibrated(card, source, law)
        head = nibabel.load(source.files[LOCATION]).header
        files = []
        for name, values in _results(prediction, levels):
            path = Path(f"{begin}{name}.nii.gz")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_nifti(path, values, head)
            files.append(str(path))
        inside = prediction.mask
        counted = prediction.location.size if inside is None else int(np.count_nonzero(inside))
        made.append(Maps(source.files[LOCATION], tuple(files), counted))
        if tick is not None:
            tick(1)
    return made


def _check_apart(cases: Sequence[CaseFiles], beginnings: Sequence[str], levels: Sequence[float]) -> None:
    """Refuse maps that would overwrite what is read, or one another."""
    read = {Path(file).resolve() for source in cases for file in source.files.values()}
    taken: dict[Path, str] = {}
    for source, begin in zip(cases, beginnings):
        for name in ("sigma", *(bound for level in levels for bound in bound_names(level))):
            path = Path(f"{begin}{name}.nii.gz").resolve()
            if path in read:
                raise BadFile(
                    f"{path} is read by this command and would be overwritten; write to another folder."
                )
            if path in taken:
                raise BadFile(
                    f"the maps of {taken[path]} and of {source.files[LOCATION]} would both be called {path}; rename "
                    "one of the two, or apply the card to each with a folder of its own."
                )
            taken[path] = source.files[LOCATION]


def write_nifti(path: Path, values: Host, head: Any) -> None:
    """Write an array as .nii.gz in single precision with a header, atomically; the same values give the same bytes."""
    import nibabel

    kind: Any = nibabel.Nifti2Image if isinstance(head, nibabel.Nifti2Header) else nibabel.Nifti1Image
    described = head.copy()
    described.set_data_dtype(np.float32)
    described["scl_slope"], described["scl_inter"] = 1, 0
    described["cal_min"] = described["cal_max"] = 0  # the window of what was there before
    # Without an affine of our own, the header's is kept, with both of its forms and their codes.
    image = kind(np.asarray(values, np.float32), None, described)

    def fill(part: Path) -> None:
        with part.open("wb") as file, gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as packed:
            packed.write(image.to_bytes())

    write_atomically(path, fill)


def _recalibrated(card: Card, source: CaseFiles, law: Law | str | None) -> Prediction:
    fields = next(iter(open_source(source).chunks(1)))
    group = next((value for name, value in source.labels.items() if is_group(name)), None)
    try:
        value = from_fields(fields, law=card.law if law is None else law, use_target=False)
        assert isinstance(value, Prediction | Draws)
        return card(value, group=None if group is None else np.asarray([group]))
    except ValueError as problem:
        raise BadFile(f"{source.files[LOCATION]}: {problem}") from problem


def _results(prediction: Prediction, levels: Sequence[float]) -> Iterator[tuple[str, Host]]:
    """The maps by name, 0 outside the mask."""
    inside = True if prediction.mask is None else to_host(prediction.mask)[0]
    maps: dict[str, Any] = {}
    try:
        with np.errstate(invalid="ignore"):
            maps["sigma"] = np.sqrt(to_host(prediction.variance))
    except Undefined:  # an interval needs no variance
        pass
    maps.update(interval_fields(prediction, levels))
    for name, values in maps.items():
        yield name, np.where(inside, values[0], 0)


def _beginnings(cases: Sequence[CaseFiles], out: Path) -> list[str]:
    """The beginning of each case's paths: from below the folder that all share up to the field's name."""
    paths = [Path(source.files[LOCATION]).resolve() for source in cases]
    shared = os.path.commonpath([path.parent for path in paths])
    beginnings = []
    for path in paths:
        name = path.name[: -len(next(e for e in reversed(NIFTI) if path.name.lower().endswith(e)))]
        begin = name.removesuffix(LOCATION) if name.endswith(LOCATION) else f"{name}_"
        beginnings.append(os.path.join(out, path.parent.relative_to(shared), begin))
    return beginnings
