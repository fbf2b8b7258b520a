"""predict: draws of a split, or a table of new images, from one trained run or an ensemble of several."""

from collections.abc import Mapping
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
from ._settings import read_settings

if TYPE_CHECKING:
    from ..imaging.data.source import Source
    from ..imaging.prediction.drawing import Drawing
    from ..imaging.prediction.runs import OpenRun
    from ..imaging.sampling.fitted import FittedSigma
    from ..imaging.sampling.moments import MonteCarloError


# The keys of `--set sample.`. masks: common to all images, or independent, as published. compile: takes minutes, and
# pays on a GPU with many images. moments: keep location and variances only.
SAMPLE = {"method": str, "masks": str, "batch": int, "precision": str, "compile": bool, "moments": bool}


def predict(
    runs: Annotated[
        list[Path], Argument(metavar="RUN...", help="Folders that train wrote; several: an ensemble.")
    ],
    out: Annotated[
        Path, Option("--out", "-o", metavar="FILE", help="File to write, .npz, .csv or .parquet.")
    ],
    split: Annotated[str | None, Option(help="Split: train, valid or test. [default: test]")] = None,
    images: Annotated[
        list[str] | None, Option(metavar="FOLDER|FILE...", help="New images instead of a split.")
    ] = None,
    table: Annotated[Path | None, Option(metavar="CSV", help="Table of inputs beside new images.")] = None,
    card: Card = None,
    level: Levels = None,
    draws: Draws = None,
    seed: Seed = None,
    deterministic: Deterministic = False,
    scaled: Annotated[bool, Option("--scaled", help="Write about [0, 1], not the target's unit.")] = False,
    skip_broken: Annotated[bool, Option("--skip-broken", help="Leave out unreadable images.")] = False,
    root: Annotated[str | None, Option(metavar="DIR", help="Folder of the data, if it has moved.")] = None,
    plugin: Plugins = None,
    settings: Settings = None,
    device: Device = "auto",
    json: Json = None,
) -> None:
    """Draw predictions of a split, or of new images.

    --set takes the data set's options as data.size=64, and sample.masks=common|independent, sample.batch,
    sample.precision=fp32|bf16, sample.compile=true and, to keep location and variances only, sample.moments=true.
    sample.method=laplace, or another of `list sigmas`, takes the place of dropout.
    """
    from ..evaluation.card import check_network, read_card
    from ..files.disk import fingerprint
    from ..files.provenance import versions
    from ..files.store import check_suffix
    from ..imaging.data.source import recorded
    from ..imaging.prediction.drawing import predict_new, settled
    from ..imaging.prediction.runs import mark_of, open_runs

    pictures, single = paths_of(images), deterministic or len(runs) > 1
    chosen = read_settings(settings, {"data": None, "sample": SAMPLE})
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
    moments = chosen["sample"].pop("moments", False)
    method = chosen["sample"].pop("method", "" if loaded is None else str(loaded.data.get("method", "")))
    sigma = _sigma(opened, source, method, plugin or ()) if method and not deterministic else None
    drawing = settled(opened, loaded, single=single, sigma=sigma, draws=draws, seed=seed, **chosen["sample"])
    if pictures:
        cases, left = predict_new(
            drawing, source, pictures, out, card=loaded, table=table, levels=levels, skip_broken=skip_broken,
            say=say, tick=ticker,
        )  # fmt: skip
        about: dict[str, Any] = {"unit": opened[0].units.text, "levels": levels, "left_out": left}
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
        **({"method": sigma.choice} if sigma is not None else {}),
        **({} if single or sigma is not None else {name: drawing.how[name] for name in ("seed", "masks")}),
        "law": drawing.how["law"].name,
        **about,
        "output": {"file": out.name, "sha256": fingerprint(out)},
        "versions": versions(),
    }
    deliver(f"{number_of(cases, 'case')} x {number_of(count, what)}{unit}; written to {out}", result, json)


def _split(
    drawing: "Drawing", source: "Source", split: str, moments: bool, scaled: bool, out: Path
) -> tuple[int, dict[str, Any]]:
    from ..imaging.prediction.predict import predict_split
    from ..imaging.prediction.runs import check_data
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
    write_split(value, data.splits[split], run.units, scaled, out, drawing.marks, next(iter(errors), None))
    return cases, {"split": split, "unit": "scaled" if scaled else run.units.text, "moments": moments}


def _sigma(
    runs: "list[OpenRun]", source: "Source", method: str, code: list[Path] | tuple[()]
) -> "FittedSigma":
    """The sigma that is kept beside a run's weights, or fitted now to the data that it was trained on."""
    from ..imaging.prediction.runs import check_data
    from ..imaging.prediction.sigma import fit_run, kept_sigma

    if len(runs) > 1:
        raise ValueError(f"sample.method={method} is of one network, and {len(runs)} runs were given.")
    if (kept := kept_sigma(runs[0], method, code)) is not None:
        return kept
    if not Path(source.root).exists():
        raise ValueError(
            f"{method} has not been fitted to {runs[0].folder}, and the run's data is not in {source.root}; say where "
            "it is now, as --root."
        )
    data = source.load()
    check_data(data, runs[0].about)
    say(f"fitting {method} to {data.name}")
    return fit_run(runs[0], data, method)


def _refuse(beside: str, given: Mapping[str, Any]) -> None:
    """Refuse options that would have no effect."""
    for name, value in given.items():
        if value is not None and value is not False:
            hint = "; `truesigma apply` recalibrates draws" if name == "--card" else ""
            raise ValueError(f"{name} has no meaning for {beside}{hint}; leave it out.")
