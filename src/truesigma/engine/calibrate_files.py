"""The card of a recalibration that is fitted on files, which may be larger than memory."""

import hashlib
import math
from pathlib import Path
from typing import Any

from ..core.law import Law
from ..evaluation.card import Card, made_by
from ..evaluation.fit import Choice
from ..evaluation.passes import Passes, Report
from ..evaluation.recipe import Recipe, load_recipe
from ..evaluation.verdicts import NONE, whole
from ..files.disk import now
from ..files.fileset import FileSet, open_fileset
from ..files.find import Files
from ..files.provenance import versions
from .evaluate_files import answers_of, fit_files
from .local import run


def calibrate_files(
    calibration: Files | FileSet,
    recalibration: Choice = "sigma",
    *,
    recipe: str | Recipe = "exact",
    law: Law | str | None = None,
    mask_missing: bool = False,
    report: Report | None = None,
) -> Card:
    """Fit one recalibration on files; if it can be fitted from sums, the files need not fit into memory.

    Args:
        calibration: paths, globs and manifests of the cases to fit on; or one of them; or what `open_fileset` gave.
        recalibration: a name, with options as `"aux:hidden=4"`.
        recipe: "exact", "paper", "code", or the path of a TOML file.
        law: "normal" or "laplace", for files that do not say it.
        mask_missing: leave out the elements whose target is missing.
        report: for a progress bar.

    Returns:
        The card, like that of `calibrate` for cases in memory.

    Example:
        >>> import tempfile
        >>> from truesigma import Cases, Prediction, write
        >>> folder = tempfile.TemporaryDirectory()
        >>> for k in range(2):
        ...     write(Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0]), f"{folder.name}/{k}.npz")
        >>> calibrate_files(f"{folder.name}/*.npz").recalibration.factor
        2.0
        >>> folder.cleanup()
    """
    files = calibration if isinstance(calibration, FileSet) else open_fileset(calibration, law=law)
    chosen = load_recipe(recipe)
    passes = Passes(chosen, run, mask_missing, report=report)
    fits = fit_files(files, [recalibration], passes)
    fitted, about = next(iter(fits.values())).fitted, describe_files(files)
    about["cases"] -= passes.empty.get("calibration", 0)

    def ask() -> list[dict[str, Any]]:
        return list(map(dict, whole(answers_of(files, files, [], passes), NONE).values()))

    return Card(fitted, files.law, chosen, about, files.unit, now(), versions(), ask=ask)


def describe_files(files: FileSet) -> dict[str, Any]:
    """Describe a set of files that a result was computed from."""
    marks = hashlib.sha256("".join(source.mark for source in files.sources).encode()).hexdigest()
    names = [Path(source.name).name for source in (files.sources[0], files.sources[-1])]
    outputs = None if files.outputs is None else math.prod(files.outputs)  # None: volumes of different shapes
    size = {"cases": files.cases, "outputs": outputs}
    about = {"files": len(files.sources), "first": names[0], "last": names[1], "mark": marks}
    return {**about, **size, **made_by(files.checkpoint, files.sampling)}
