"""Evaluation of sets that are larger than memory: passes over files whose sums add up.

One pass over the calibration files fits the recalibrations; one over the test files finds the range of the variances,
for exact bins; one sums what every score is made of. Only a few cases are in memory at a time, however large the sets.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ..core.cells import labelled
from ..core.checks import NothingLeft, nothing_left
from ..core.law import Law, Undefined
from ..core.recalibration import CaseSums
from ..core.scores import Request, edges_from, range_plan, value_of
from ..evaluation.catalogue import address
from ..evaluation.evaluate import About, Evaluation, check_alike
from ..evaluation.fit import Choice, Fit, Named, choose_all, fit
from ..evaluation.items import Item, asked_metrics, items_of, row_of
from ..evaluation.passes import CASES, Passes, Report, Sums
from ..evaluation.recipe import Recipe, load_recipe
from ..files.fileset import FileSet, NotWhole, is_volume, open_fileset, read_whole
from ..files.find import Files
from .local import run as run_here


@dataclass(frozen=True, eq=False)
class Streamed:
    """The evaluation of all cases, and of each group if that was asked for."""

    evaluation: Evaluation
    groups: Mapping[str, Evaluation] = field(default_factory=dict)


class _Placed(NamedTuple):
    """A number to compute for a recalibration, and the key of its sums."""

    number: int
    key: str
    item: Item
    request: Request | None


def fit_files(files: FileSet, recalibrations: Iterable[Choice], passes: Passes) -> dict[str, Fit]:
    """Fit recalibrations on files, in one pass, by their labels; those that need all cases at once read them."""
    chosen = choose_all(recalibrations, passes.recipe)
    summed = [one for one in chosen.values() if hasattr(one.module, "gather")]
    asked = [(address(one.module), one.settings) for one in summed]
    sums = CaseSums(
        passes.over(files, "fit", "calibration", {"fits": asked}) if summed else {}, files.law
    ).apart()
    found: dict[str, Fit] = {}
    whole = None
    for label, one in chosen.items():
        if one in summed:
            own = sums.get(str(summed.index(one)), CaseSums({}, files.law))
            found[label] = Fit(one, one.module.fit(own, **one.settings))
        else:
            whole = whole or read_whole(
                files, passes.recipe.prediction, mask_missing=passes.mask_missing, why=one.name
            )
            passes.empty["calibration"] = len(whole) - whole.counted
            found[label] = Fit(one, fit(one, whole, passes.recipe))
    return found


def evaluate_files(
    calibration: Files | FileSet,
    test: Sequence[Files | FileSet],
    *,
    recalibrations: Iterable[Choice] = ("none", "sigma", "aux"),
    metrics: Iterable[Named] | None = None,
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
        test: a list of such lists, one for each repeated test run; what is in one list is one set.
        recalibrations: as in `evaluate`.
        metrics: as in `evaluate`; those that sort all cases, such as AUSE, only for sets that fit into memory.
        recipe: as in `evaluate`.
        law: "normal" or "laplace", for files that do not say it.
        mask_missing: leave out the elements whose target is missing.
        one_pass: score in a single pass: UCE and ENCE of more than 32,768 elements are then those of a `Tally`.
        by_group: score each group as well as the whole.
        run: of an engine: `engine.local.run`, or `engine.ray.run` with its options bound.
        keep: a folder for the sums of each file and pass; sums that are already there are not computed again.
        report: for a progress bar.

    Returns:
        The evaluation, and that of each group.

    Example:
        >>> import tempfile, numpy as np
        >>> from truesigma import Cases, Prediction, write
        >>> folder, y = tempfile.TemporaryDirectory(), np.random.default_rng(0).normal(size=(4, 500))
        >>> for k in range(4):
        ...     write(Cases(Prediction(0 * y[k], aleatoric=0 * y[k] + 0.25), y[k]), f"{folder.name}/{k}.npz")
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
    check_alike(_about(fitted_on), [_about(files) for files in tested])
    asked = asked_metrics(metrics)
    passes = Passes(chosen, run, mask_missing, keep, report)
    fits = list(fit_files(fitted_on, recalibrations, passes).values())
    placed = [
        _Placed(number, f"{number}/{place}", item, item.request)
        for number, fit in enumerate(fits)
        for place, item in enumerate(items_of(asked, chosen, fit.chosen.part))
    ]
    choice = {"one_pass": one_pass, "by_group": by_group}
    sums = [
        {
            **_score_sums(files, fits, placed, passes, f"test {number}", **choice),
            **_whole_scores(files, fits, placed, passes, by_group),
        }
        for number, files in enumerate(tested, start=1)
    ]

    def table(group: str | None, cases: int) -> Evaluation:
        rows = [
            row_of(fits[one.number].chosen, one.item, [_value(one, some, group) for some in sums])
            for one in placed
        ]
        fitted = {fit.chosen.label: fit.fitted for fit in fits}
        known = fitted_on.cases - passes.empty.get("calibration", 0)
        sizes = {"calibration": known, "test": cases, "repeats": len(tested)}
        ask = partial(answers_of, fitted_on, tested[0], fits, passes) if group is None else None
        return Evaluation(chosen, tuple(rows), fitted, sizes, fitted_on.unit, ask, fitted_on.checkpoint)

    groups = {k.removeprefix(CASES): int(n[0]) for one in sums for k, n in one.items() if k.startswith(CASES)}
    parts = {name: table(name, groups[name]) for name in sorted(groups)}
    return Streamed(table(None, tested[0].cases - passes.empty.get("test 1", 0)), parts)


def answers_of(
    calibration: FileSet, test: FileSet, fits: Sequence[Fit], passes: Passes
) -> list[dict[str, Any]]:
    """All five questions if all cases fit into memory; otherwise those that sums can answer."""
    from ..evaluation.questions import ANSWERED, answers

    count = max(calibration.elements, test.elements)
    if None not in (calibration.outputs, test.outputs) and count <= ANSWERED:
        whole = [
            read_whole(files, passes.recipe.prediction, mask_missing=passes.mask_missing)
            for files in (calibration, test)
        ]
        return answers(whole[0], whole[1], {fit.chosen.label: fit.fitted for fit in fits}, passes.recipe)
    return _summed_answers(calibration, test, fits, passes, f"{count:,} elements are read in pieces")


def _summed_answers(
    calibration: FileSet, test: FileSet, fits: Sequence[Fit], passes: Passes, reason: str
) -> list[dict[str, Any]]:
    """Skill, centre and size, from a pass over each set; what is not a sum has no answer, and says why."""
    from ..evaluation.inference.summed import RESIDUAL, TARGET, WEIGHT, summed_sets
    from ..evaluation.questions import MOST_OUTPUTS, summed_answers, unanswered

    plain = choose_all(["none"], passes.recipe)["none"]
    every = {"none": Fit(plain, plain.module.Identity())}
    every |= {fit.chosen.label: fit for fit in fits if fit.chosen.name != "cqr"}  # whose bounds have no sigma
    outputs = math.prod(calibration.outputs or ()) if calibration.outputs == test.outputs else 0
    apart = 1 < outputs <= MOST_OUTPUTS
    fitted = [[address(fit.chosen.module), fit.fitted.to_dict()] for fit in every.values()]
    settings: dict[str, Any] = {"fitted": fitted, "apart": apart, "constant": [0.0]}
    known = passes.over(calibration, "questions", "questions", settings)
    sums = known["0/sums"][1:] if apart else known["0/sums"]
    settings["constant"] = (sums[:, TARGET] / sums[:, WEIGHT]).tolist()
    found = [passes.over(files, "questions", "questions", settings) for files in (calibration, test)]
    sets: list[dict[str, Any]] = [{}, {}]
    for own, held in zip(sets, found):
        for number, label in enumerate(every):
            start = f"{number}/"
            mine = {key.removeprefix(start): one for key, one in held.items() if key.startswith(start)}
            moves = mine["sums"][0, RESIDUAL] != held["0/sums"][0, RESIDUAL]
            own[label] = summed_sets(mine, test.law, test.unit, reason, moves=bool(moves))
    left = [
        row
        for row in unanswered([fit.chosen.label for fit in fits], reason)
        if row["recalibration"] not in every
    ]
    return [*summed_answers(*sets), *left]


def _score_sums(
    files: FileSet,
    fits: list[Fit],
    placed: list[_Placed],
    passes: Passes,
    words: str,
    *,
    one_pass: bool,
    by_group: bool,
) -> Sums:
    """The sums of every item over a test set, by its key; or the reason why there are none."""
    fitted = [[address(fit.chosen.module), fit.fitted.to_dict()] for fit in fits]
    edges = {} if one_pass else _edges(files, fitted, placed, passes, words)
    reasons: Sums = {key: found for key, found in edges.items() if isinstance(found, Undefined)}
    asked = []
    for one in placed:
        if one.request is not None and one.key not in reasons:
            known = edges[one.key].tolist() if one.key in edges else None
            metric, options = address(one.item.metric), dict(one.item.options)
            asked.append((one.number, one.key, metric, options, known))
    settings = {"fitted": fitted, "requests": asked, "by_group": by_group}
    return {**passes.over(files, "sums", words, settings), **reasons}


def _whole_scores(
    files: FileSet, fits: list[Fit], placed: list[_Placed], passes: Passes, by_group: bool
) -> Sums:
    """The scores of metrics that are not sums, if all cases fit into memory; otherwise why there are none."""
    asked = [one for one in placed if one.request is None]
    if not asked:
        return {}
    if files.outputs is None:  # read as elements, so that a case would not mean what it means elsewhere
        return {one.key: Undefined("it has no value for volumes of different shapes.") for one in asked}
    try:
        why = "this score"  # whose name is in the row
        whole = read_whole(files, passes.recipe.prediction, mask_missing=passes.mask_missing, why=why)
    except NotWhole as reason:
        return {one.key: Undefined(str(reason)) for one in asked}
    parts = labelled(whole.groups) if by_group else ()
    found: Sums = {}
    for end, some in [("", slice(None)), *((f"/{name}", some) for _, name, some in parts)]:
        cases = whole[some]
        for one in asked:
            made = fits[one.number].fitted(cases.prediction, group=cases.first_group)
            try:
                found[one.key + end] = one.item.score(made, cases, fits[one.number].fitted)
            except ValueError as problem:
                found[one.key + end] = _of_group(problem, end.removeprefix("/") or None)
    return found


def _edges(
    files: FileSet, fitted: list[Any], placed: list[_Placed], passes: Passes, words: str
) -> dict[str, Any]:
    """The edges of every item with bins, from a pass that finds the range of the variances."""
    asked: list[dict[str, Request]] = [{} for _ in fitted]
    for one in placed:
        if one.request is not None:
            asked[one.number][one.key] = one.request
    kinds = [(number, key) for number, some in enumerate(asked) for key in sorted(range_plan(some))]
    looked = (
        passes.over(files, "range", f"{words}, range", {"fitted": fitted, "kinds": kinds}) if kinds else {}
    )
    found: dict[str, Any] = {}
    for number, some in enumerate(asked):
        own = {key.partition("/")[2]: seen for key, seen in looked.items() if key.startswith(f"{number}/")}
        found |= edges_from(some, own)
    return found


def _value(one: _Placed, sums: Sums, group: str | None) -> float | Undefined:
    """The item's value from its sums, or why it has none."""
    if isinstance(sums.get(one.key), Undefined):
        return sums[one.key]
    found = sums.get(one.key if group is None else f"{one.key}/{group}")
    if found is None and group is not None:
        return Undefined("the group is not in every one of the test sets.")
    if one.request is None and found is not None:
        return found  # the score itself
    try:
        if found is None or one.request is None:
            raise nothing_left()
        return value_of(one.request, found)
    except ValueError as problem:
        return _of_group(problem, group)


def _of_group(problem: ValueError, group: str | None) -> Undefined:
    """Why a group without any element has no score, which must not cost the others theirs; otherwise its error."""
    if group is None:
        raise problem
    if isinstance(problem, NothingLeft):
        return Undefined("no element of the group is left: the mask or the weights remove all of them.")
    raise ValueError(f"group {group!r}: {problem}") from None


def _about(files: FileSet) -> About:
    first = files.sources[0]
    return About(f" ({first.name})", files.outputs, files.law.name, files.unit, is_volume(first))
