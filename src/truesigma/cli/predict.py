"""predict: draws of a split, or a table of new images, from one trained run or an ensemble of several."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..core.checks import number_of
from ._options import (
    Card,
    Deterministic,
    Device,
    Draws,
    Json,
    Levels,
    Plugins,
    Seed,
    Settings,
    paths_of,
    split_levels,
)
from ._output import check_output, deliver, say, ticker
from ._settings import read_settings, words_of

if TYPE_CHECKING:
    from ..evaluation.card import Card as ReadCard
    from ..imaging.data.source import Source
    from ..imaging.prediction.runs import OpenRun
    from ..imaging.sampling.moments import MonteCarloError


@dataclass(frozen=True)
class SampleWords:
    """The keys of `--set sample.`: masks, common to all images or independent as published (None: the card's, or
    common); batch, cases at a time; precision (None: the run's); compile, which takes minutes and pays on a GPU with
    many images; moments: keep location and variances only.
    """

    masks: str | None = None
    batch: int = 16
    precision: str | None = None
    compile: bool = False
    moments: bool = False


@dataclass(frozen=True, eq=False)
class Drawing:
    """Opened runs, and how they predict. single: one pass of each without dropout."""

    runs: list["OpenRun"]
    single: bool
    how: dict[str, Any]

    @property
    def nets(self) -> Any:
        """One network to draw from, or a list of those that predict once each."""
        return [run.net for run in self.runs] if self.single else self.runs[0].net

    @property
    def counted(self) -> tuple[str, int]:
        """What each case gets, members or draws, and how many."""
        return ("member", len(self.runs)) if self.single else ("draw", self.how["draws"])

    @property
    def marks(self) -> dict[str, str]:
        """The origin of the predictions, for their file."""
        from ..imaging.prediction.runs import marks_of

        return marks_of(self.runs, None if self.single else self.how)

    @property
    def words(self) -> str:
        """The way they predict, in words."""
        what, count = self.counted
        where = next(self.runs[0].net.parameters()).device
        return f"{number_of(count, what)} each, {self.how['precision']} on {where}"


def predict(
    runs: Annotated[
        list[Path], Argument(metavar="RUN...", help="Folders that train wrote; several: an ensemble.")
    ],
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help=".npz, .csv or .parquet to write.")],
    split: Annotated[str | None, Option(help="train, valid or test. [default: test]")] = None,
    images: Annotated[
        list[str] | None, Option(metavar="FOLDER|FILE...", help="New images instead, without targets.")
    ] = None,
    table: Annotated[
        Path | None, Option(metavar="CSV", help="Columns that the network takes beside new images.")
    ] = None,
    card: Card = None,
    level: Levels = None,
    draws: Draws = None,
    seed: Seed = None,
    deterministic: Deterministic = False,
    scaled: Annotated[bool, Option("--scaled", help="In about [0, 1], not in the target's unit.")] = False,
    skip_broken: Annotated[bool, Option("--skip-broken", help="Leave out unreadable images.")] = False,
    root: Annotated[str | None, Option(metavar="DIR", help="Where the data is, if it has moved.")] = None,
    plugin: Plugins = None,
    settings: Settings = None,
    device: Device = "auto",
    json: Json = None,
) -> None:
    """Draw predictions of a split, or of new images.

    --set takes the data set's options as data.size=64, and sample.masks=common|independent, sample.batch,
    sample.precision=fp32|bf16, sample.compile=true and, to keep location and variances only, sample.moments=true.
    """
    from ..evaluation.card import check_network, read_card
    from ..files.disk import fingerprint
    from ..files.provenance import versions
    from ..files.store import check_suffix
    from ..imaging.data.source import recorded
    from ..imaging.prediction.runs import mark_of, open_runs

    pictures, single = paths_of(images), deterministic or len(runs) > 1
    chosen = read_settings(settings, {"data": None, "sample": words_of(SampleWords)})
    if single:
        _refuse("a single pass of each run", {"--draws": draws, "--seed": seed})
    if pictures:
        _refuse("--images", {"--split": split, "--scaled": scaled})
    else:
        only = {"--table": table, "--card": card, "--level": level, "--skip-broken": skip_broken}
        _refuse("--split", only)
    check_output(json, *pictures)
    check_suffix(out)
    check_output(out, *pictures, card)
    levels = split_levels(level or "0.9")
    loaded = None if card is None else read_card(card)
    opened = open_runs(runs, device=device, code=plugin or ())
    if loaded is not None:
        check_network(loaded, mark_of(opened))
    source = recorded(opened[0].about, root=root, options=chosen["data"], code=plugin or ())
    words = vars(SampleWords(**chosen["sample"]))
    moments = words.pop("moments")
    how = {"draws": draws, "seed": seed, **words}
    drawing = Drawing(opened, single, _settled(opened, how, None if single else loaded))
    if pictures:
        cases, about = _images(drawing, source, pictures, table, loaded, levels, skip_broken, out)
    else:
        cases, about = _split(drawing, source, split or "test", moments, scaled, out)
    if card is not None:
        about["card"] = {"file": card.name, "sha256": fingerprint(card)}
    what, count = drawing.counted
    unit = {"": "", "scaled": ", scaled to about [0, 1]"}.get(about["unit"], f", in {about['unit']}")
    result = {
        "runs": [str(run) for run in runs],
        "cases": cases,
        f"{what}s": count,
        **({} if single else {name: drawing.how[name] for name in ("seed", "masks")}),
        "law": drawing.how["law"].name,
        **about,
        "output": {"file": out.name, "sha256": fingerprint(out)},
        "versions": versions(),
    }
    deliver(f"{number_of(cases, 'case')} x {number_of(count, what)}{unit}; written to {out}", result, json)


def _split(
    drawing: Drawing, source: "Source", split: str, moments: bool, scaled: bool, out: Path
) -> tuple[int, dict[str, Any]]:
    from ..imaging.data.source import check_data
    from ..imaging.prediction.predict import predict_split
    from ..imaging.prediction.write import write_split

    if out.suffix.lower() != ".npz" and not moments:
        say("note: tables hold no draws, so location and variances are kept; .npz keeps the draws.")
        moments = True
    if not Path(source.root).exists():
        raise ValueError(
            f"the run's data is not in {source.root}; say where it is now, as --root, or predict new images: --images"
        )
    run, data = drawing.runs[0], source.load()
    check_data(data, run.about)
    cases = len(data.splits[split]) if split in data.splits else 0
    say(f"{data.name}, {split}: {number_of(cases, 'case')}, {drawing.words}")
    if run.units.mixed and not scaled:
        say(
            f"note: outputs are in {', '.join(dict.fromkeys(run.units.unit))}; scores that average over outputs mix "
            "them. --scaled keeps them comparable, as the recipes paper and code expect."
        )
    errors: list[MonteCarloError] = []
    value = predict_split(
        drawing.nets, data, split, **drawing.how, moments=moments, scaled=scaled, progress=ticker(cases),
        note=errors.append,
    )  # fmt: skip
    write_split(value, data.splits[split], run.units, scaled, out, drawing.marks, errors[0])
    return cases, {"split": split, "unit": "scaled" if scaled else run.units.text, "moments": moments}


def _images(
    drawing: Drawing,
    source: "Source",
    wanted: list[Path],
    table: Path | None,
    card: "ReadCard | None",
    levels: list[float],
    skip: bool,
    out: Path,
) -> tuple[int, dict[str, Any]]:
    from ..core.decompose import decompose
    from ..core.values import Draws as DrawsOfAll
    from ..evaluation.apply import UNTOUCHED
    from ..imaging.data.source import intake
    from ..imaging.prediction import write
    from ..imaging.prediction.predict import list_images, predict_images

    run = drawing.runs[0]
    units, files = run.units, list_images(wanted, volumes=run.volumes)
    way = intake(source, run.about, files, table)
    below = sum({path, path.parent}.isdisjoint(wanted) for path in files)
    where = f" ({below} of them in subfolders)" if below else ""
    say(f"{number_of(len(files), 'new image')}{where}, {drawing.words}")
    keep = card is not None and write.needs_draws(card)
    errors: list[MonteCarloError] = []
    read, value = predict_images(
        drawing.nets, files, way, **drawing.how, moments=not keep, skip_broken=skip, progress=ticker(len(files)),
        note=errors.append,
    )  # fmt: skip
    if len(read) < len(files):
        left = [path.name for path in files if path not in read]
        say(f"note: left out, since unreadable, {number_of(len(left), 'image')}: {', '.join(left[:10])}")
    if card is None:
        say("note: without a --card these intervals are the network's own, which are often too narrow.")
        prediction = units.prediction(decompose(value) if isinstance(value, DrawsOfAll) else value)
        applied: dict[str, Any] = {"recalibration": UNTOUCHED}
    else:
        prediction = write.recalibrated(card, value, units)
        card.doubt(write.in_cards_unit(card, value, units))
        name = card.recalibration.to_dict()["name"]
        applied = {"recalibration": name, **write.referred(card, value, units)}
    marks = {**drawing.marks, **applied}
    write.write_predictions(write.names_of(read), prediction, units, levels, out, marks, errors[0])
    return len(read), {"unit": units.text, "levels": levels, "left_out": len(files) - len(read)}


def _settled(runs: list["OpenRun"], how: Mapping[str, Any], card: "ReadCard | None") -> dict[str, Any]:
    """Fill in what was not given: as the card says, or as the run was trained."""
    from ..imaging.prediction.runs import sampled_like

    where = next(runs[0].net.parameters()).device.type
    usual = runs[0].about["precision"] if where == "cuda" else "fp32"  # elsewhere bf16 gains nothing
    drawn = sampled_like(card, runs[0].draws, **{name: how[name] for name in ("draws", "seed", "masks")})
    return {**how, **drawn, "precision": how["precision"] or usual, "law": runs[0].law}


def _refuse(beside: str, given: Mapping[str, Any]) -> None:
    """Refuse options that would have no effect."""
    for name, value in given.items():
        if value is not None and value is not False:
            hint = "; `truesigma apply` recalibrates draws" if name == "--card" else ""
            raise ValueError(f"{name} has no meaning for {beside}{hint}; leave it out.")
