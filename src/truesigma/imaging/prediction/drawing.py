"""Predict with trained runs as a command does: choices that were not made follow from the card and the runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.checks import number_of
from ...core.decompose import decompose
from ...core.values import Draws
from ...evaluation.apply import UNTOUCHED
from ...evaluation.card import Card
from ..data.source import Source, intake
from ..sampling.fitted import FittedSigma
from ..sampling.moments import MonteCarloError
from .predict import Told, list_images, predict_images
from .runs import OpenRun, marks_of, sampled_like
from .write import in_cards_unit, names_of, needs_draws, recalibrated, referred, write_predictions


@dataclass(frozen=True, eq=False)
class Drawing:
    """Opened runs, and how they predict. single: one pass of each without dropout. sigma: of one run, if it has one."""

    runs: list[OpenRun]
    single: bool
    how: Mapping[str, Any]
    sigma: FittedSigma | None = None

    @property
    def nets(self) -> Any:
        """One network to draw from or with a sigma, or a list of those that predict once each."""
        if self.sigma is not None:
            return self.sigma
        return [run.net for run in self.runs] if self.single else self.runs[0].net

    @property
    def counted(self) -> tuple[str, int]:
        """The kind of predictions for each case, members or draws, and their number."""
        if self.sigma is not None:
            return "prediction", 1
        return ("member", len(self.runs)) if self.single else ("draw", self.how["draws"])

    @property
    def marks(self) -> dict[str, str]:
        """The origin of the predictions, for their file."""
        if self.sigma is not None:
            return {**marks_of(self.runs, None), "sampling": f"method={Path(self.sigma.choice).name}"}
        return marks_of(self.runs, None if self.single else self.how)

    @property
    def words(self) -> str:
        """The way they predict, in words."""
        what, count = self.counted
        where = next(self.runs[0].net.parameters()).device
        if self.sigma is not None:
            return f"{self.sigma.choice} on {where}"
        return f"{number_of(count, what)} each, {self.how['precision']} on {where}"


def settled(
    runs: list[OpenRun],
    card: Card | None = None,
    *,
    single: bool = False,
    sigma: FittedSigma | None = None,
    draws: int | None = None,
    seed: int | None = None,
    masks: str | None = None,
    precision: str | None = None,
    **how: Any,
) -> Drawing:
    """Fill in what was not chosen: as the card says, or as the runs were trained; other options stay as they are."""
    where = next(runs[0].net.parameters()).device.type
    single = single or runs[0].fitted
    usual = runs[0].about["precision"] if where == "cuda" else "fp32"  # elsewhere bf16 gains nothing
    fitted = None if single or sigma is not None else card
    drawn = sampled_like(fitted, runs[0].draws, draws=draws, seed=seed, masks=masks)
    return Drawing(runs, single, {**how, **drawn, "precision": precision or usual, "law": runs[0].law}, sigma)


def predict_new(
    drawing: Drawing,
    source: Source,
    places: Sequence[Path],
    out: Path,
    *,
    card: Card | None = None,
    table: Path | None = None,
    levels: Sequence[float] = (0.9,),
    skip_broken: bool = False,
    say: Callable[[str], None] = lambda text: None,
    tick: Callable[[int], Told | None] = lambda total: None,
) -> tuple[int, int]:
    """Predict new images, recalibrate them, and write a table with their intervals in the target's unit.

    Args:
        drawing: the runs, and how they predict.
        source: of the runs, which knows how images are read.
        places: images, or folders of them.
        out: the table to write.
        card: None leaves the intervals as the network says.
        table: a csv with a row for each image, if the network takes more than the image.
        levels: of the intervals.
        skip_broken: leave out unreadable images.
        say: is called with notices.
        tick: from a number of images to what is called with how many more were predicted.

    Returns:
        How many images were predicted, and how many left out.
    """
    run = drawing.runs[0]
    units, files = run.units, list_images(places, volumes=run.volumes)
    way = intake(source, run.about, files, table)
    below = sum({path, path.parent}.isdisjoint(places) for path in files)
    where = f" ({below} of them in subfolders)" if below else ""
    say(f"{number_of(len(files), 'new image')}{where}, {drawing.words}")
    keep = card is not None and needs_draws(card)
    errors: list[MonteCarloError] = []
    read, value = predict_images(
        drawing.nets, files, way, **drawing.how, moments=not keep, skip_broken=skip_broken,
        progress=tick(len(files)), note=errors.append,
    )  # fmt: skip
    if len(read) < len(files):
        left = [path.name for path in files if path not in read]
        say(f"note: left out, since unreadable, {number_of(len(left), 'image')}: {', '.join(left[:10])}")
    if card is None:
        say("note: without a --card these intervals are the network's own, which are often too narrow.")
        prediction = units.prediction(decompose(value) if isinstance(value, Draws) else value)
        applied: dict[str, Any] = {"recalibration": UNTOUCHED}
    else:
        prediction = recalibrated(card, value, units)
        card.doubt(in_cards_unit(card, value, units))
        applied = {"recalibration": card.recalibration.to_dict()["name"], **referred(card, value, units)}
    marks = {**drawing.marks, **applied}
    write_predictions(names_of(read), prediction, units, levels, out, marks, next(iter(errors), None))
    return len(read), len(files) - len(read)
