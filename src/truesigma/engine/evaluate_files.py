"""Evaluation of sets that are larger than memory: passes over files whose sums add up.

One pass over the calibration files fits the recalibrations; one over the test files finds the range of the variances,
for exact bins; one sums what every score is made of. Memory holds a few cases at a time, whatever the sets' size.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import plugins
from ..core.bins import LogCells
from ..core.cells import members
from ..core.checks import NothingLeft, nothing_left
from ..core.law import Law, Undefined
from ..core.recalibration import Recalibration
from ..core.scores import defaults, value_of
from ..evaluation.evaluate import Choice, Evaluation, Request, by_label, each, label_of, requests_of, row_of
from ..evaluation.passes import CASES, Passes, Report, Sums
from ..evaluation.recipe import Recipe, load_recipe
from ..files.fileset import FileSet, NotWhole, is_volume, open_fileset, read_whole
from ..files.find import Files
from .local import run as run_here


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted recalibration, and the choice it comes from."""

    name: str
    plugin: str  # its name, or the path of its file
    options: Mapping[str, Any]  # as they were given
    settings: Mapping[str, Any]  # with those of the recipe
    fitted: Recalibration

    @property
    def part(self) -> Any:
        return self.settings.get("part", "total")


@dataclass(frozen=True, eq=False)
class Streamed:
    """The evaluation of all cases, and that of each group where it was asked for."""

    evaluation: Evaluation
    groups: Mapping[str, Evaluation] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Item:
    """A number to compute for a recalibration: the key of its sums, and all options of its metric."""

    number: int
    key: str
    request: Request
    given: Mapping[str, Any]

    @property
    def over(self) -> str:
        return str(getattr(self.request.metric, "OVER", ""))


def fit_files(files: FileSet, recalibrations: Iterable[Choice], passes: Passes) -> dict[str, Fit]:
    """Fit recalibrations on a set of files, in one pass, by their labels; what needs all cases at once reads them."""
    chosen = []
    for name, module, options in by_label(recalibrations).values():
        settings = {**plugins.accepted(module.fit, passes.recipe.fit_options(name)), **options}
        chosen.append((name, plugins.address(module), module, options, settings))
    summed = [(plugin, settings) for _, plugin, module, _, settings in chosen if hasattr(module, "gather")]
    sums = passes.over(files, "fit", "calibration", {"fits": summed}) if summed else {}
    found: dict[str, Fit] = {}
    number, whole = 0, None
    for name, plugin, module, options, settings in chosen:
        if hasattr(module, "gather"):
            own = {k.partition("/")[2]: v for k, v in sums.items() if k.startswith(f"{number}/")}
            number += 1
            fitted = module.fit_gathered(own, files.law, **plugins.accepted(module.fit_gathered, settings))
        else:
            whole = whole or read_whole(files, passes.recipe, mask_missing=passes.mask_missing, why=name)
            data = {"weight": whole.weight, "group": whole.group}
            fitted = module.fit(whole.prediction, whole.target, **data, **settings)
        found[label_of(name, options)] = Fit(name, plugin, options, settings, fitted)
    return found


def evaluate_files(
    calibration: Files | FileSet,
    test: Sequence[Files | FileSet],
    *,
    recalibrations: Iterable[Choice] = ("none", "sigma", "aux"),
    metrics: Iterable[Choice] | None = None,
    recipe: str | Recipe = "exact",
    law: Law | str | None = None,
    mask_missing: bool = False,
    one_pass: bool = False,
    by_group: bool = False,
    run: Callable[..., Sums] = run_here,
    keep: Any = None,
    report: Report | None = None,
) -> Streamed:
    """Fit recalibrations on some files and score them on others, without holding them in memory.

    Args:
        calibration: paths, globs and manifests of the cases to fit on; or one of them; or what `open_fileset` gave.
        test: a list of such lists, one for each repeated test run; what stands in one list is one set.
        recalibrations: as in `evaluate`.
        metrics: as in `evaluate`; those that sort all cases, such as AUSE, only for sets that fit into memory.
        recipe: as in `evaluate`.
        law: "normal" or "laplace", for files that do not say it.
        mask_missing: leave out the elements whose target is missing.
        one_pass: score in a single pass, with bins gathered from cells of log2(variance) that are 1.1 % wide.
        by_group: score each group beside the whole.
        run: of an engine: `engine.local.run`, or `engine.ray.run` with its options bound.
        keep: a folder for the sums of each file and pass; what is there is not computed again.
        report: for a progress bar.

    Returns:
        The evaluation, and that of each group.

    Example:
        >>> import tempfile, numpy as np
        >>> from truesigma import Cases, Prediction, write
        >>> folder, y = tempfile.TemporaryDirectory(), np.random.default_rng(0).normal(size=(4, 500))
        >>> for k in range(4):
        ...     write(Cases(Prediction(0 * y[k], 0 * y[k] + 0.25), y[k]), f"{folder.name}/{k}.npz")
        >>> found = evaluate_files([f"{folder.name}/0.npz"], [[f"{folder.name}/[123].npz"]], metrics=["coverage"])
        >>> [round(found.evaluation.value(name, "coverage", level=0.9), 2) for name in ("none", "sigma")]
        [0.6, 0.9]
        >>> folder.cleanup()
    """
    chosen = load_recipe(recipe)
    if not isinstance(test, list | tuple):
        raise ValueError(
            f"test is {str(test)!r}, one set; expected a list of sets, such as [[{str(test)!r}]]."
        )
    fitted_on, *tested = (
        one if isinstance(one, FileSet) else open_fileset(one, law=law) for one in (calibration, *test)
    )
    _check_alike(fitted_on, tested)
    asked = [
        plugins.parse("metrics", m) for m in each(plugins.names("metrics") if metrics is None else metrics)
    ]
    passes = Passes(chosen, mask_missing, run, keep, report)
    fits = fit_files(fitted_on, recalibrations, passes)
    items = [
        _Item(number, f"{number}/{place}", request, {**defaults(request.metric), **request.options})
        for number, fit in enumerate(fits.values())
        for place, request in enumerate(requests_of(asked, chosen, fit.part))
    ]
    choice = {"one_pass": one_pass, "by_group": by_group}
    sums = [
        {
            **_score_sums(files, list(fits.values()), items, passes, f"test {number}", **choice),
            **_whole_scores(files, list(fits.values()), items, passes, by_group),
        }
        for number, files in enumerate(tested, start=1)
    ]

    def table(group: str | None, cases: int) -> Evaluation:
        rows = []
        for item in items:
            fit, values = list(fits.values())[item.number], tuple(_value(item, one, group) for one in sums)
            rows.append(row_of(fit.name, fit.part, fit.options, item.request, values))
        fitted = {label: fit.fitted for label, fit in fits.items()}
        sizes = {"calibration": fitted_on.cases, "test": cases, "repeats": len(tested)}
        return Evaluation(chosen, tuple(rows), fitted, sizes, fitted_on.unit)

    groups = {k.removeprefix(CASES): int(n[0]) for one in sums for k, n in one.items() if k.startswith(CASES)}
    parts = {name: table(name, groups[name]) for name in sorted(groups)}
    return Streamed(table(None, tested[0].cases), parts)


def _score_sums(
    files: FileSet,
    fits: list[Fit],
    items: list[_Item],
    passes: Passes,
    words: str,
    *,
    one_pass: bool,
    by_group: bool,
) -> Sums:
    """The sums of every item over a test set, by its key; the reason where there can be none."""
    fitted = [[fit.plugin, fit.fitted.to_dict()] for fit in fits]
    edges = {} if one_pass else _edges(files, fitted, items, passes, words)
    reasons: Sums = {key: found for key, found in edges.items() if isinstance(found, Undefined)}
    asked = []
    for item in items:
        if item.over and item.key not in reasons:
            metric, options = plugins.address(item.request.metric), dict(item.request.options)
            asked.append((item.number, item.key, metric, options, edges.get(item.key)))
    settings = {"fitted": fitted, "requests": asked, "by_group": by_group}
    return {**passes.over(files, "sums", words, settings), **reasons}


def _whole_scores(
    files: FileSet, fits: list[Fit], items: list[_Item], passes: Passes, by_group: bool
) -> Sums:
    """The scores themselves of metrics that are no sums, where all cases fit into memory; else why there are none."""
    asked = [item for item in items if not item.over]
    if not asked:
        return {}
    if files.outputs is None:  # read as elements, so that a case would be something else than it is elsewhere
        return {item.key: Undefined("it has no value for volumes of different shapes.") for item in asked}
    name = asked[0].request.name
    try:
        whole = read_whole(files, passes.recipe, mask_missing=passes.mask_missing, why=name)
    except NotWhole as reason:
        return {item.key: Undefined(str(reason)) for item in asked}
    parts = members(whole.group) if by_group and whole.group is not None else ()
    found: Sums = {}
    for end, some in [("", slice(None)), *((f"/{name}", some) for name, some in parts)]:
        cases = whole[some]
        for item in asked:
            made = fits[item.number].fitted(cases.prediction, group=cases.group)
            try:
                options = {"weight": cases.weight, **item.request.options}
                value = item.request.metric.score(made, cases.target, **options)
            except Undefined as reason:
                value = reason
            except ValueError as problem:
                value = _of_group(problem, end.removeprefix("/") or None)
            found[item.key + end] = value
    return found


def _edges(
    files: FileSet, fitted: list[Any], items: list[_Item], passes: Passes, words: str
) -> dict[str, Any]:
    """The edges of every item with bins, from a pass that finds the range of the variances."""
    binned = [item for item in items if item.over == "variance"]
    kinds = sorted({(item.number, item.given["outputs"]) for item in binned})
    asked = {"fitted": fitted, "kinds": kinds}
    cells = passes.over(files, "range", f"{words}, range", asked) if kinds else {}
    found: dict[str, Any] = {}
    for item in binned:
        seen = cells.get(f"{item.number}/{item.given['outputs']}")
        if isinstance(seen, Undefined):
            found[item.key] = seen
            continue
        if seen is None or not seen.cells.sums.shape[1]:
            raise nothing_left()
        found[item.key] = seen.edges(bins=item.given["bins"], spacing=item.given["spacing"]).tolist()
    return found


def _value(item: _Item, sums: Sums, group: str | None) -> float | Undefined:
    """The item's value from its sums, or why it has none."""
    if isinstance(sums.get(item.key), Undefined):
        return sums[item.key]
    found = sums.get(item.key if group is None else f"{item.key}/{group}")
    if found is None and group is not None:
        return Undefined("the group is not in every one of the test sets.")
    if not item.over and found is not None:
        return found  # the score itself
    try:
        if found is None:
            raise nothing_left()
        if isinstance(found, LogCells):
            if not item.given.get("closed", True):
                return Undefined("bins open to the left need their edges first: not in a single pass.")
            if not found.sums.shape[1]:
                raise nothing_left()
            found = found.bins(bins=item.given["bins"], spacing=item.given["spacing"])
        return value_of(item.request.metric, found, item.given)
    except Undefined as reason:
        return reason
    except ValueError as problem:
        return _of_group(problem, group)


def _of_group(problem: ValueError, group: str | None) -> Undefined:
    """Why a group without a single element has no score, which must not cost the others theirs; else its error."""
    if group is None:
        raise problem
    if isinstance(problem, NothingLeft):
        return Undefined("no element of the group is left: the mask or the weights remove all of them.")
    raise ValueError(f"group {group!r}: {problem}") from None


def _check_alike(calibration: FileSet, tested: list[FileSet]) -> None:
    if not tested:
        raise ValueError("test is empty; expected at least one set of files.")
    for number, files in enumerate(tested, start=1):
        # Volumes differ in shape from patient to patient, within a set and between two.
        volumes = all(is_volume(one.sources[0]) for one in (files, calibration))
        pairs = {
            "outputs": (None, None) if volumes else (files.outputs, calibration.outputs),
            "law": (files.law.name, calibration.law.name),
            "unit": (files.unit or calibration.unit, calibration.unit or files.unit),
        }
        for words, (found, expected) in pairs.items():
            if found != expected:
                raise ValueError(
                    f"test set {number} ({files.sources[0].name}) has {words} {found}, the calibration set "
                    f"({calibration.sources[0].name}) {expected}; expected the same."
                )
