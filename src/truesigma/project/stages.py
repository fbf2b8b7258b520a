"""The stages of a project, each a function that writes files and reports the result in words."""

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.cases import Cases
from ..core.checks import number_of, per_cent
from ..core.values import Draws, changed
from ..core.varying import Varying
from ..evaluation.evaluate import evaluate
from ..evaluation.text import evaluation_table, factor_text, plain_text
from ..files.disk import write_json, write_rows, write_text
from ..files.store import write
from .dropout_check import one_pass
from .figures import draw
from .landmarks import distances
from .ledger import RUNS
from .project import FOLDS
from .race import tried
from .readme import readme
from .work import Work

if TYPE_CHECKING:
    from ..imaging.sampling.fitted import FittedSigma
    from ..imaging.sampling.moments import MonteCarloError
    from ..imaging.training.loop import Trained

SHOWN = 3  # targets in the title of the page
Made = tuple[list[str], str]  # files, and what came of it in words
Say = Callable[[str], None]
Ticker = Callable[[int], Callable[[int], None]]  # from a number of cases to what counts them


def trained(work: Work, member: int, *, time_limit: float | None = None, say: Say | None = None) -> "Trained":
    """Train a network of the project in its folder, or resume it."""
    from ..imaging.training.start import train_run

    project = work.project
    network, weights = project.network, project.network.weights
    source, data = work.member(member)
    return train_run(
        source,
        work.folder / RUNS / str(member),
        project.training,
        backbone=project.backbone(member),
        seed=project.train.seed + member,
        likelihood=network.likelihood,
        variances=network.variances,
        link=network.link,
        pretrained=network.pretrained,
        weights=project.home / weights if weights else None,
        device=work.device,
        precision=project.train.precision,
        time_limit=time_limit,
        workers=project.train.workers,
        say=say,
        data=data,
        linear_start=True,
    )


def train_together(work: Work, members: Sequence[int], *, time_limit: float | None, say: Say | None) -> None:
    """Train networks side by side, showing the first one's progress; those that draw random numbers must wait."""
    from ..imaging.training.devices import side_by_side

    recipe = work.project.training
    if recipe.stage_dropout or any(recipe.head_dropout.values()):
        return
    shown = {member: say if member == members[0] else None for member in members}
    side_by_side(
        [partial(trained, work, member, time_limit=time_limit, say=shown[member]) for member in members],
        work.device,
    )


def train_member(work: Work, member: int, *, time_limit: float | None, say: Say | None) -> Made | None:
    """Train a network, or resume it; return None if the time limit came first."""
    from ..imaging.training.folder import BEST, HISTORY, RECIPE
    from ..imaging.training.history import error_text
    from ..imaging.training.schedule import smoothed

    made = trained(work, member, time_limit=time_limit, say=say)
    if not made.finished:
        return None
    best = made.history[made.best_epoch - 1]
    epochs = f"{number_of(len(made.history), 'epoch')}, kept epoch {made.best_epoch}"
    words = f"{epochs}, validation {error_text(best, 'valid', work.units.unit, work.units.names)}"
    errors = smoothed([abs(row["valid_mse"]) for row in made.history], made.recipe.smoothing)
    if made.recipe.keep == "last" and len(errors) > 1 and min(errors) == errors[-1]:
        words += "; the last epoch was the best: more minutes, or epochs, may help"
    return [f"{RUNS}/{member}/{name}" for name in (BEST, HISTORY, RECIPE)], words


def sample_split(work: Work, split: str, tick: Ticker, say: Say) -> Made:
    """Draw every case of a split; scaled if outputs differ in their unit, so that scores can average over them.

    On the split that the recalibration is fitted on, dropout draws are compared with one pass without dropout.
    """
    from ..imaging.data.folds import HELD
    from ..imaging.prediction.drawing import settled
    from ..imaging.prediction.predict import predict_split
    from ..imaging.prediction.sigma import FILE, predict_held
    from ..imaging.prediction.write import write_split

    sample, dropout = work.project.sample, work.project.sample.method == "dropout"
    own = split == work.project.calibrate.split
    sigma = _sigma(work, anew=own) if work.project.sigma else None
    way = settled(
        work.runs, single=sample.method == "ensemble", sigma=sigma, draws=sample.draws, seed=sample.seed,
        batch=sample.batch,
    )  # fmt: skip
    errors: list[MonteCarloError | None] = []
    chosen, scaled = work.data.splits[split], work.units.mixed
    how: dict[str, Any] = {**way.how, "scaled": scaled, "progress": tick(len(chosen)), "note": errors.append}
    what, count = way.counted
    by = number_of(count, what) if sigma is None else sample.method
    if split == FOLDS:
        parts = [predict_split([run.net], work.member(k)[1], HELD, **how) for k, run in enumerate(work.runs)]
        cases: Any = across_folds([part for part in parts if isinstance(part, Cases)])
        errors = [None]  # one network, one pass: there is nothing random in it
        by = "the network that has not seen them"
    elif sigma is not None and own:
        cases = predict_held(sigma, work.data, split, **how)
    else:
        cases = predict_split(way.nets, work.data, split, **how)
    error = next(iter(errors), None)  # of draws
    write_split(cases, chosen, work.units, scaled, work.folder / f"{split}.npz", way.marks, error)
    words = f"{number_of(len(chosen), 'case')} x {by}"
    if dropout and own and isinstance(cases, Cases):
        compared, problem = one_pass(work, split, cases)
        words += f"; {compared}"
        if problem:
            say(problem)
    return [f"{split}.npz", *([f"{RUNS}/0/{FILE}"] if sigma is not None and own else [])], words


def _sigma(work: Work, *, anew: bool) -> "FittedSigma":
    """The sigma of the trained network; it is fitted anew with every drawing of the cases that it learns from."""
    from ..imaging.prediction.sigma import fit_run, kept_sigma

    run, method = work.runs[0], work.project.sigma
    kept = None if anew else kept_sigma(run, method, work.project.code)
    return kept or fit_run(run, work.data, method, work.project.calibrate.split)


def across_folds(parts: Sequence[Cases]) -> Cases:
    """Join what the network of each fold predicted for the cases it has not seen; `fold` says which one did."""

    each = [part.draws for part in parts if part.draws is not None]
    mean, variance = (
        np.concatenate([getattr(one, name) for one in each], axis=1) for name in ("mean", "variance")
    )
    joined = Cases.concat(parts)
    return changed(
        joined,
        draws=Draws(mean, variance, law=each[0].law),
        # The intervals are for a new patient; if only groups are named, the cases of a group belong together.
        patient=joined.cluster,
        fold=np.concatenate([np.full(len(part), k) for k, part in enumerate(parts)]),
    )


def fit_card(work: Work) -> Made:
    """Fit the recalibrations, and write the card of the chosen one."""
    write(work.card, work.folder / "card.json")
    chosen, why = work.asked
    words = f"{chosen} on {number_of(len(work.fitted_on), 'case')}"
    shown = factor_text(work.card.recalibration, work.fitted_on.names)
    words += f": {shown}" if shown else ""
    if work.project.calibrate.split == "valid":
        words += "; these cases chose the epoch, too, so the factor may be too small: a split 'calibration' would not"
    return ["card.json"], words + (f"; {why}" if why else "")


def score(work: Work) -> Made:
    """Score the test cases under every recalibration, and predict them in the target's unit."""
    scored = evaluate(work.fitted_on, work.test, recalibrations=work.fits.values(), recipe=work.recipe)
    data = {"calibration": work.described(work.calibration), "test": [work.described("test.npz")]}
    write_json({**scored.to_dict(), "data": data}, work.folder / "scores.json", strict=True, seal=True)
    columns = [name for name in scored.rows[0] if name != "options"]
    write_rows(
        work.folder / "scores.csv", [columns, *([row[name] for name in columns] for row in scored.rows)]
    )
    table = plain_text(evaluation_table(scored))
    files, words = ["scores.json", "scores.csv", "scores.txt", "predictions.csv"], []
    if off := point_errors(work):
        every = np.concatenate([*off.values()])
        unit = f" {work.test.unit}".rstrip()
        words = [
            f"points are off by {every.mean():.3g}{unit} on average, half of them by {np.median(every):.3g} or less"
        ]
        each = ", ".join(f"{name} {values.mean():.3g}" for name, values in off.items())
        table += f"\n\nDistances: {words[0]}; {each}."
        write_rows(work.folder / "distances.csv", [["id", *off], *zip(work.test.id, *off.values())])
        files.append("distances.csv")
    write_text(work.folder / "scores.txt", table + "\n")
    predict_test(work)
    return files, "; ".join([number_of(len(work.fits), "recalibration"), *words])


def point_errors(work: Work) -> dict[str, Any]:
    """Return how far each point is off in each test case, in the target's unit; nothing if targets are no points."""
    from ..imaging.data.rows import comma_words

    coordinates = comma_words(str(work.project.options.get("coordinates", "")))
    if not coordinates or work.units.mixed:
        return {}
    error = np.asarray(work.test.target - work.test.prediction.location, np.float64)
    axes = len(next(iter(work.data.splits.values())).shape) - 1
    return distances(error, work.test.names, coordinates, axes)


def predict_test(work: Work) -> None:
    """Write the recalibrated test cases with their intervals, in the target's unit."""
    from ..imaging.prediction.write import error_fields, write_predictions
    from ..imaging.sampling.moments import error_of

    units, test = work.units, work.test
    made, target = work.card(test), test.target
    if units.mixed:
        made, target = units.prediction(made), units.location(target)
    labels = {"id": test.id, "group": test.first_group, "patient": test.patient, "target": target}
    marks = {
        "checkpoint": test.checkpoint,
        "sampling": test.sampling,
        "recalibration": work.card.recalibration.to_dict()["name"],
    }
    said: dict[str, Any] = {name: text for name, text in marks.items() if text}
    if test.draws is not None:  # what so few of them leave open
        said |= error_fields(error_of(test.draws), units if units.mixed else None)
    write_predictions(labels, made, units, [work.project.report.level], work.folder / "predictions.csv", said)


def show(work: Work, say: Say) -> Made:
    """Write the page with thumbnails, and the figures."""
    from ..page import report

    project, folder = work.project, work.folder
    by: Any = project.report.by
    # Where none was chosen, the page is about sigma as it is.
    fits = [fit for label, fit in work.shown.items() if "none" not in (label, work.chosen)]
    page = report(
        work.fitted_on,
        work.test,
        recalibrations=fits or [work.shown["none"]],
        recipe=work.recipe,
        images=project.folder if project.dataset == "table" else None,
        level=project.report.level,
        by=by,
        files={"calibration": work.described(work.calibration), "test": work.described("test.npz")},
        notes=tried(work.project, work.folder),
        title=_title(work),
    )
    page.write(folder / "report.html")
    files = ["report.html"]
    if project.report.figures and importlib.util.find_spec("matplotlib") is None:
        say("note: no figures, which need matplotlib: pip install 'truesigma[plot]'")
    elif project.report.figures:
        files += draw(work)
    headline = page.headline + ("" if work.chosen in work.shown else f" {_across(work)}")
    write_text(folder / "README.md", readme(work, headline))
    return [*files, "README.md"], headline


def _title(work: Work) -> str:
    """Name what is predicted, its unit, and the network."""
    names = work.test.names or (work.project.dataset,)
    target = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if names[SHOWN:] else "")
    unit = f" in {work.test.unit}" if work.test.unit else ""
    return f"{target}{unit} \N{MIDDLE DOT} {work.project.network.backbone.partition(':')[0]}"


def _across(work: Work) -> str:
    """Say how many cases the card's intervals hold, if they are made across folds."""
    level = work.project.report.level
    made = work.card(work.test)
    lower, upper = made.interval(level)
    held = float(np.mean((lower <= work.test.target) & (work.test.target <= upper)))
    endless = made.law.too_few_for(level) if isinstance(made.law, Varying) else None
    said = f": {endless}" if endless else "."
    return f"Those across folds ({work.chosen}), which the card makes, hold {per_cent(held)} %{said}"
