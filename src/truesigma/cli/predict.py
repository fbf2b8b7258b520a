"""predict and ensemble: draws of a split, or a table of new images, from trained runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.checks import number_of
from ._options import DatasetOptions, Device, Json, as_one, flag, pairs, split_levels
from ._progress import ticker
from ._session import Session, check_json, check_target

if TYPE_CHECKING:
    from ..evaluation.card import Card
    from ..imaging.prediction.runs import OpenRun
    from ..imaging.sampling.moments import MonteCarloError

Out = Annotated[Path, flag("--out -o", ".npz, .csv or .parquet to write.", "FILE")]
SplitName = Annotated[
    str | None, flag("--split", "Cases of the data set: train, valid, test. [default: test]")
]
Images = Annotated[
    list[Path] | None,
    flag("--images", "New images instead, without targets; folders with those below.", "FOLDER|FILE..."),
]
Table = Annotated[
    Path | None, flag("--table", "Of the new images: the columns that the network takes beside them.", "CSV")
]
Root = Annotated[str | None, flag("--root", "Where the data is now. [default: where it was]", "DIR")]
CardFile = Annotated[Path | None, flag("--card", "Recalibrate new images with what calibrate wrote.", "FILE")]
Levels = Annotated[
    list[str] | None, flag("--level", "Of the intervals of new images, as 0.5,0.9. [default: 0.9]")
]
DrawsOfEach = Annotated[int | None, flag("--draws", "Of each case. [default: the card's, or the recipe's]")]
Seed = Annotated[int | None, flag("--seed", "Of the dropout masks. [default: the card's, or 0]")]
MasksKind = Annotated[
    str | None,
    flag("--masks", "common to all images, or independent, as published. [default: the card's, or common]"),
]
Batch = Annotated[int, flag("--batch", "Cases at a time; independent masks depend on it.")]
Scaled = Annotated[bool, flag("--scaled", "Leave targets in about [0, 1], not in their unit.")]
Moments = Annotated[
    bool, flag("--moments", "Keep location and variances only: memory does not grow with draws.")
]
Skip = Annotated[bool, flag("--skip-broken", "Leave out new images that cannot be read.")]
Precision = Annotated[str | None, flag("--precision", "fp32 or bf16. [default: the run's]")]
Compiled = Annotated[bool, flag("--compile", "Compile first, for minutes; pays on a GPU with many images.")]


@dataclass(frozen=True)
class Drawing:
    """How a network is drawn from; None means as its card or its recipe says."""

    draws: DrawsOfEach = None
    seed: Seed = None
    masks: MasksKind = None


AS_TOLD = Drawing()
OF_DRAWS = ("draws", "seed", "repeat", "masks", "compile")


def register(app: typer.Typer) -> None:
    app.command("predict")(sampling(joined=False))
    app.command("ensemble")(sampling(joined=True))


def sampling(*, joined: bool) -> Callable[..., None]:
    """Make the command that draws from one network, or the one that joins several, which has no options for draws."""

    def command(
        context: typer.Context,
        runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that train wrote.")],
        out: Out,
        split: SplitName = None,
        images: Images = None,
        table: Table = None,
        card: CardFile = None,
        level: Levels = None,
        drawing: Drawing = AS_TOLD,
        repeat: Annotated[
            int, flag("--repeat", "Runs with seeds one apart, written to FILE-0, FILE-1, ...")
        ] = 1,
        moments: Moments = False,
        scaled: Scaled = False,
        batch: Batch = 16,
        root: Root = None,
        option: DatasetOptions = None,
        skip_broken: Skip = False,
        precision: Precision = None,
        compile: Compiled = False,
        device: Device = "auto",
        json: Json = None,
    ) -> None:
        session: Session = context.obj
        chosen = {**vars(drawing), "batch": batch, "precision": precision}
        if joined:
            del chosen["masks"]
        else:
            chosen["compile"] = compile
        given: dict[str, Any] = {"root": root, "options": pairs(option), "device": device}
        # What follows --images on the line is images, up to the next option; members of an ensemble have a recipe.
        members = (
            [path for path in runs if not images or (path / "recipe.json").is_file()] if joined else runs[:1]
        )
        more = [path for path in runs if path not in members]
        if more and not images:
            raise ValueError(f"{more[0]} was given beside the run; expected --images before the first image.")
        wanted = [*(images or []), *more]
        check_json(json, *wanted)
        if wanted:
            _refuse("--images", {"--split": split, "--scaled": scaled, "--repeat": repeat > 1})
            given["table"] = table
            result = _images(session, members, wanted, out, card, level, skip_broken, given, chosen, joined)
        else:
            _refuse(
                "--split", {"--table": table, "--card": card, "--level": level, "--skip-broken": skip_broken}
            )
            result = _split(
                session, members, split or "test", out, repeat, moments, scaled, given, chosen, joined
            )
        session.deliver(result.pop("text"), result, json)

    made = as_one(command, "drawing", Drawing)
    options = signature(made).parameters
    if joined:
        made.__doc__ = "Join single predictions of networks trained apart."
        kept = [one for name, one in options.items() if name not in OF_DRAWS]
    else:
        made.__doc__ = "Draw predictions of a split, or of new images."
        one_run = Annotated[list[Path], typer.Argument(metavar="RUN", help="The folder that train wrote.")]
        kept = [one.replace(annotation=one_run) if name == "runs" else one for name, one in options.items()]
    made.__dict__["__signature__"] = Signature(kept)
    return made


def _split(
    session: Session,
    folders: list[Path],
    split: str,
    out: Path,
    repeat: int,
    moments: bool,
    scaled: bool,
    given: Mapping[str, Any],
    chosen: Mapping[str, Any],
    joined: bool,
) -> dict[str, Any]:
    from ..files.store import check_suffix
    from ..imaging.data.source import check_data, recorded
    from ..imaging.prediction.predict import predict_split
    from ..imaging.prediction.runs import marks_of, open_runs
    from ..imaging.prediction.write import write_split

    if repeat < 1:
        raise ValueError(f"repeat is {repeat}; expected at least 1.")
    files = [out] if repeat == 1 else [out.with_stem(f"{out.stem}-{k}") for k in range(repeat)]
    for file in files:
        check_target(file)
    if check_suffix(out) != ".npz" and not moments:
        session.say("note: tables hold no draws, so location and variances are kept; .npz keeps the draws.")
        moments = True
    runs = open_runs(folders, device=given["device"])
    source = recorded(runs[0].about, root=given["root"], options=given["options"])
    if not Path(source.root).exists():
        raise ValueError(
            f"the run's data is not in {source.root}; say where it is now, as --root, or predict new images: --images"
        )
    data = source.load()
    check_data(data, runs[0].about)
    settings, units = _settings(runs, chosen, None, joined), runs[0].units
    if split in data.splits:
        session.say(
            f"{data.name}, {split}: {number_of(len(data.splits[split]), 'case')}, {_how(runs, settings, joined)}"
        )
    if units.mixed and not scaled:
        session.say(
            f"note: outputs are in {', '.join(dict.fromkeys(units.unit))}; scores that average over outputs mix them. "
            "--scaled keeps them comparable, as the recipes paper and code expect."
        )
    nets = [run.net for run in runs] if joined else runs[0].net
    for k, file in enumerate(files):
        tick = ticker(session.say, len(data.splits[split]) if split in data.splits else 0)
        numbered = {**settings, "seed": settings["seed"] + k}
        errors: list[MonteCarloError] = []
        value = predict_split(
            nets, data, split, **numbered, moments=moments, scaled=scaled, progress=tick, note=errors.append
        )
        marks = marks_of(runs, None if joined else numbered)
        write_split(value, data.splits[split], units, scaled, file, marks, errors[0])
    about = {"split": split, "unit": "scaled" if scaled else units.text, "moments": moments}
    return _result(runs, len(data.splits[split]), settings, files, about, joined)


def _images(
    session: Session,
    folders: list[Path],
    wanted: list[Path],
    out: Path,
    card: Path | None,
    level: list[str] | None,
    skip: bool,
    given: Mapping[str, Any],
    chosen: Mapping[str, Any],
    joined: bool,
) -> dict[str, Any]:
    from ..core.decompose import decompose
    from ..core.values import Draws
    from ..evaluation.apply import UNTOUCHED
    from ..evaluation.card import check_network, read_card
    from ..files.disk import fingerprint
    from ..files.store import check_suffix
    from ..imaging.data.source import intake, recorded
    from ..imaging.prediction.predict import list_images, predict_images
    from ..imaging.prediction.runs import mark_of, marks_of, open_runs
    from ..imaging.prediction.write import (
        in_cards_unit,
        names_of,
        needs_draws,
        recalibrated,
        referred,
        write_predictions,
    )

    check_suffix(out)
    check_target(out, *wanted, *([] if card is None else [card]))
    levels = split_levels(level or ["0.9"])
    loaded = None if card is None else read_card(card)
    runs = open_runs(folders, device=given["device"])
    if loaded is not None:
        check_network(loaded, mark_of(runs))
    source = recorded(runs[0].about, root=given["root"], options=given["options"])
    files, settings = list_images(wanted, volumes=runs[0].volumes), _settings(runs, chosen, loaded, joined)
    way = intake(source, runs[0].about, files, given["table"])
    named = set(wanted)
    below = sum(named.isdisjoint((path, path.parent)) for path in files)
    where = f" ({below} of them in subfolders)" if below else ""
    session.say(f"{number_of(len(files), 'new image')}{where}, {_how(runs, settings, joined)}")
    nets = [run.net for run in runs] if joined else runs[0].net
    keep = loaded is not None and needs_draws(loaded)
    errors: list[MonteCarloError] = []
    read, found = predict_images(
        nets, files, way, **settings, moments=not keep, skip_broken=skip,
        progress=ticker(session.say, len(files)), note=errors.append,
    )  # fmt: skip
    if len(read) < len(files):
        left = [path.name for path in files if path not in read]
        session.say(
            f"note: left out, since unreadable, {number_of(len(left), 'image')}: {', '.join(left[:10])}"
        )
    units = runs[0].units
    if loaded is None:
        session.say(
            "note: without a --card these intervals are the network's own, which are often too narrow."
        )
        prediction = units.prediction(decompose(found) if isinstance(found, Draws) else found)
    else:
        prediction = recalibrated(loaded, found, units)
        loaded.doubt(in_cards_unit(loaded, found, units))
    applied = UNTOUCHED if loaded is None else loaded.recalibration.to_dict()["name"]
    marks: dict[str, Any] = {**marks_of(runs, None if joined else settings), "recalibration": applied}
    marks |= {} if loaded is None else referred(loaded, found, units)
    write_predictions(names_of(read), prediction, units, levels, out, marks, errors[0])
    about = {"unit": units.text, "levels": levels, "left_out": len(files) - len(read)}
    if card is not None:
        about["card"] = {"file": card.name, "sha256": fingerprint(card)}
    return _result(runs, len(read), settings, [out], about, joined)


def _settings(
    runs: list["OpenRun"], chosen: Mapping[str, Any], card: "Card | None", joined: bool
) -> dict[str, Any]:
    """Collect the arguments of sampling; what was not given is the card's, or the run's own."""
    from ..imaging.prediction.runs import sampled_like

    where = next(runs[0].net.parameters()).device.type
    usual = runs[0].about["precision"] if where == "cuda" else "fp32"  # elsewhere bf16 gains nothing
    asked = {name: chosen.get(name) for name in ("draws", "seed", "masks")}
    drawn = sampled_like(None if joined else card, runs[0].draws, **asked)
    return {**chosen, **drawn, "precision": chosen["precision"] or usual, "law": runs[0].law}


def _how(runs: list["OpenRun"], settings: Mapping[str, Any], joined: bool) -> str:
    where = next(runs[0].net.parameters()).device
    what = number_of(len(runs), "member") if joined else number_of(settings["draws"], "draw")
    return f"{what} each, {settings['precision']} on {where}"


def _result(
    runs: list["OpenRun"],
    cases: int,
    settings: Mapping[str, Any],
    files: list[Path],
    about: Mapping[str, Any],
    joined: bool,
) -> dict[str, Any]:
    from ..files.disk import fingerprint
    from ..files.provenance import versions

    what, count = ("member", len(runs)) if joined else ("draw", settings["draws"])
    words = {"": "", "scaled": ", scaled to about [0, 1]"}
    unit = words.get(about["unit"], f", in {about['unit']}")
    return {
        "text": f"{number_of(cases, 'case')} x {number_of(count, what)}{unit}; written to {', '.join(map(str, files))}",
        "runs": [str(run.folder) for run in runs],
        "cases": cases,
        f"{what}s": count,
        **({} if joined else {"seed": settings["seed"], "masks": settings["masks"]}),
        "law": settings["law"].name,
        **about,
        "output": [{"file": file.name, "sha256": fingerprint(file)} for file in files],
        "versions": versions(),
    }


def _refuse(beside: str, given: Mapping[str, Any]) -> None:
    """Refuse options that would have no effect."""
    for name, value in given.items():
        if value:
            hint = "; `truesigma apply` recalibrates draws" if name == "--card" else ""
            raise ValueError(f"{name} has no meaning for {beside}{hint}; leave it out.")
