"""figure: publication figures from files of predictions, as wide as a journal's column."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..core import plugins
from ..core.typed import check_keys
from ._cases import open_sets, read_unlabelled
from ._options import (
    Column,
    Json,
    Law,
    Missing,
    Recipe,
    names_of,
    reading,
    split_choices,
    split_pair,
)
from ._output import check_output, deliver
from ._settings import typed, words_of_call

if TYPE_CHECKING:
    from ..core.cases import Cases

ENDINGS = (".pdf", ".png", ".svg")
Drawn = tuple[Any, Any]  # axes, and plain values of what they show


@dataclass(frozen=True)
class FigureRequest:
    """A figure as it was asked for. calibration: the cases to fit on; None: nothing is recalibrated."""

    files: list[Path]
    calibration: Path | None
    recalibrate: str | None
    image: Path | None
    title: str
    unit: str | None
    recipe: str
    how: Mapping[str, Any]

    def one(self) -> Path:
        """Return the only file; refuse several."""
        if len(self.files) > 1:
            raise ValueError(f"{', '.join(map(str, self.files))} are several files; this figure shows one.")
        return self.files[0]

    def fitted(self, usual: str = "none,sigma") -> dict[str, Any]:
        """Make functions, by choice, from Prediction, Draws or Cases to the recalibrated Prediction."""
        from ..evaluation.card import calibrate
        from ..evaluation.recipe import load_recipe
        from ..evaluation.sets import as_cases

        recipe = load_recipe(self.recipe)
        if self.calibration is None:
            return {"none": lambda value: recipe.prediction(as_cases(value))}
        (cases,) = open_sets([[str(self.calibration)]], self.how)
        return {
            name: calibrate(cases, name, recipe=recipe) for name in split_choices(self.recalibrate or usual)
        }

    def recalibrated(self) -> dict[str, list["Cases"]]:
        """Recalibrate the cases of every file, which are repeated runs, by choice."""
        from ..core.values import changed

        runs = [one.read() for one in open_sets([[str(path)] for path in self.files], self.how)]
        return {
            name: [changed(run, prediction=apply(run), draws=None) for run in runs]
            for name, apply in self.fitted().items()
        }

    def fitted_one(self, usual: str) -> Any:
        """Make the function, if only one recalibration was chosen."""
        fitted = self.fitted(usual)
        if len(fitted) > 1:
            raise ValueError(f"{self.recalibrate} are several recalibrations; this figure shows one.")
        return next(iter(fitted.values()))

    def shown(self, cases: Any) -> dict[str, str]:
        """The title, and the unit that was given, or the file's."""
        return {"title": self.title, "unit": getattr(cases, "unit", "") if self.unit is None else self.unit}


def figure(
    kind: Annotated[
        str, Argument(metavar="KIND", help="Kind of figure: calibration, coverage, ...; see above.")
    ],
    files: Annotated[
        list[Path], Argument(metavar="FILE...", help="Cases to show; several files: repeated runs.")
    ],
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="File to write, .pdf, .png or .svg.")],
    calibration: Annotated[
        Path | None, Option(metavar="FILE", help="Cases to fit on; without it nothing is recalibrated.")
    ] = None,
    recalibrate: Annotated[
        str | None, Option(autocompletion=names_of("recalibrate"), help="Comma list. [default: none,sigma]")
    ] = None,
    image: Annotated[
        Path | None, Option(metavar="FILE", help="Image of the region's case, in whose pixels outputs are.")
    ] = None,
    title: Annotated[str, Option(help="Title of the panel.")] = "",
    unit: Annotated[str | None, Option(help="Unit of the target. [default: the file's]")] = None,
    recipe: Recipe = "exact",
    column: Column = None,
    missing: Missing = None,
    law: Law = None,
    json: Json = None,
) -> None:
    """Draw a publication figure.

    calibration:bins=15,spacing=width|mass,log=false: observed error over predicted variance, a panel for each
    recalibration.

    coverage: observed over estimated prediction intervals.

    pit: histogram of the probability integral transform, with a band for all bars together.

    crps_parts: what miscalibration costs and what knowing the cases apart gains.

    slabs: what intervals hold in fifths of the prediction and of sigma, and where they hold least.

    rejection:over=share|threshold: error of the cases that are kept when the unsure ones are referred.

    shift: histograms of the variance of the first file's cases and of shifted ones, with the AUROC; by one
    recalibration, usually sigma.

    region:case=0: the joint region of one case with two outputs, such as a landmark, on its image; by --recalibrate
    region, or region:shape=box.

    history:calibrated=false: error and variance over the epochs of a training run, from its history.csv.
    """
    name, _, text = kind.partition(":")
    check_keys([name], FIGURES)
    draw = FIGURES[name]
    words, options = words_of_call(draw), {}
    for pair in filter(None, text.split(",")):
        key, value = split_pair(kind, pair, "bins=10")
        check_keys([key], words, f"{name}:")
        options[key] = typed(f"{name}:{key}", value, words[key])
    check_output(json, *files, calibration, image, out)
    check_output(out, *files, calibration, image, endings=ENDINGS)
    how = reading(column, missing, law)
    asked = FigureRequest(files, calibration, recalibrate, image, title, unit, recipe, how)
    axes, table = draw(asked, **options)
    from ..diagrams._style import write_figure

    write_figure(axes.figure, out)
    deliver(f"written to {out}", {"output": out.name, "table": table}, json)


def _calibration(asked: FigureRequest, *, bins: int = 15, spacing: str = "width", log: bool = False) -> Drawn:
    from ..diagrams import calibration as diagram
    from ..evaluation.recipe import load_recipe

    scored = load_recipe(asked.recipe).score_options("uce", "total")
    options = {"bins": bins, "spacing": spacing, "error": scored["error"], "outputs": scored["outputs"]}
    made = asked.recalibrated()
    tables = {name: diagram.table(runs, **options) for name, runs in made.items()}
    unit = asked.shown(next(iter(made.values()))[0])["unit"]
    return diagram.draw_row(tables, unit=unit, log=log)[0], _columns(tables)


def _of_cases(kind: str, repeats: bool, asked: FigureRequest, **options: Any) -> Drawn:
    """A diagram of the cases of one file, or of repeated runs, by recalibration."""
    diagram = plugins.load("diagrams", kind)
    if not repeats:
        asked.one()
    made = asked.recalibrated()
    tables = {name: diagram.table(runs if repeats else runs[0]) for name, runs in made.items()}
    shown = asked.shown(next(iter(made.values()))[0])
    return diagram.draw(tables, **plugins.accepted(diagram.draw, shown), **options), _columns(tables)


def _rejection(asked: FigureRequest, *, over: str = "share") -> Drawn:
    return _of_cases("rejection", False, asked, over=over)


def _shift(asked: FigureRequest) -> Drawn:
    from ..diagrams import shift as diagram

    values = {path.stem: read_unlabelled(path, asked.how) for path in asked.files}
    if len(values) < max(len(asked.files), 2):
        raise ValueError(
            "expected the test cases and one shifted set or more, of different names: the legend's."
        )
    apply = asked.fitted_one("sigma")
    (first, tested), *others = values.items()
    shifted = {name: apply(value) for name, value in others}
    table = diagram.table(apply(tested), shifted, name=first)
    return diagram.draw(table, **asked.shown(tested)), {
        "histogram": table.columns,
        "auroc": dict(table.auroc),
    }


def _region(asked: FigureRequest, *, case: int = 0) -> Drawn:
    import numpy as np

    from ..diagrams import region as diagram
    from ..files.images import read_image
    from ..files.store import read
    from ..recalibrate.region import Region

    card = asked.fitted_one("region")
    if not isinstance(getattr(card, "recalibration", None), Region):
        raise ValueError(
            "this figure shows a joint region; give --calibration, and --recalibrate region or region:shape=box."
        )
    # All cases of the file, which `case` counts.
    how = {name: value for name, value in asked.how.items() if name != "missing"}
    cases = read(asked.one(), **how)
    table = diagram.table(card.recalibration, card(cases), cases.target, case=case)
    pixels = None
    if asked.image is not None:
        pixels = np.squeeze(np.moveaxis(read_image(asked.image, dimensions=2), 0, -1))
    return diagram.draw(table, image=pixels, **asked.shown(cases)), table.columns


def _history(asked: FigureRequest, *, calibrated: bool = False) -> Drawn:
    from ..diagrams import history as diagram

    table = diagram.table(asked.one())
    return diagram.draw(table, calibrated=calibrated, **asked.shown(None)), table.columns


FIGURES: dict[str, Callable[..., Drawn]] = {
    "calibration": _calibration,
    "coverage": partial(_of_cases, "coverage", True),
    "pit": partial(_of_cases, "pit", False),
    "crps_parts": partial(_of_cases, "crps_parts", False),
    "slabs": partial(_of_cases, "slabs", False),
    "rejection": _rejection,
    "shift": _shift,
    "region": _region,
    "history": _history,
}


def _columns(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table.columns for name, table in tables.items()}
