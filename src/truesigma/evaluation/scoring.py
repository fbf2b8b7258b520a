"""The scores of a set of cases: numbers that are made of sums, from passes, and those that sort all cases at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.cells import labelled
from ..core.checks import NothingLeft, nothing_left
from ..core.errors import Refusal
from ..core.law import Undefined
from ..core.recalibration import applied
from ..core.scores import edges_from, range_plan, value_of
from ..core.values import changed
from ..files.fileset import NotWhole
from .fit import Fit
from .items import Item
from .passes import Ranging, Scoring, Sums, Wanted, pass_over
from .sets import CaseSet


@dataclass(frozen=True, eq=False)
class Placed:
    """A number to compute for a recalibration, by its place among them, and the key of its sums."""

    number: int
    key: str
    item: Item

    @property
    def sums(self) -> bool:
        """Whether it is made of sums; otherwise it needs all cases at once."""
        return hasattr(self.item.metric, "SUMS")

    def wanted(self, edges: Any = None) -> Wanted:
        return Wanted(self.number, self.key, self.item.metric, self.item.options, edges)

    def value(self, sums: Sums, group: str | None) -> float | Undefined:
        """The number, of all cases or of a group, or why it has none."""
        if isinstance(sums.get(self.key), Undefined):
            return sums[self.key]
        found: Any = sums.get(self.key if group is None else f"{self.key}/{group}")
        if found is None and group is not None:
            return Undefined("the group is not in every one of the test sets.")
        if not self.sums:
            return found  # the number itself
        try:
            if found is None:
                raise nothing_left()
            return value_of(self.wanted().request, found)
        except Refusal as problem:
            return of_group(problem, group)


def score_set(
    cases: CaseSet,
    fits: Sequence[Fit],
    placed: Sequence[Placed],
    words: str,
    *,
    by_group: bool,
    one_pass: bool,
) -> Sums:
    """The sums of every number over a set of cases by its key, or the number itself; or why there is none."""
    fitted = [(fit.chosen.module, fit.fitted) for fit in fits]
    summed = [one for one in placed if one.sums]
    edges: dict[str, Any] = {}
    if not one_pass:
        edges = _edges(
            cases, Ranging(fitted, [one.wanted() for one in summed], cases.whole is not None), words
        )
    reasons = {key: one for key, one in edges.items() if isinstance(one, Undefined)}
    asked = [one.wanted(edges.get(one.key)) for one in summed if one.key not in reasons]
    found = pass_over(cases, Scoring(fitted, asked, by_group), words)
    return {
        **found,
        **reasons,
        **_of_all_cases(cases, fits, [one for one in placed if not one.sums], by_group),
    }


def _edges(cases: CaseSet, ranging: Ranging, words: str) -> dict[str, Any]:
    """The edges of every number with bins, by its key, from a pass that finds the range of the variances."""
    requests = ranging.requests
    if not any(map(range_plan, requests)):
        return {}
    found: dict[str, Any] = {}
    looked = pass_over(cases, ranging, f"{words}, range")
    for number, some in enumerate(requests):
        own = {key.partition("/")[2]: seen for key, seen in looked.items() if key.startswith(f"{number}/")}
        found |= edges_from(some, own)
    return found


def _of_all_cases(cases: CaseSet, fits: Sequence[Fit], asked: Sequence[Placed], by_group: bool) -> Sums:
    """The numbers that are not sums, if all cases fit into memory; otherwise why there are none."""
    if not asked:
        return {}
    if cases.outputs is None:  # read as elements, so that a case would not mean what it means elsewhere
        return {one.key: Undefined("it has no value for volumes of different shapes.") for one in asked}
    try:
        whole = cases.read("this score")  # whose name is in the row
    except NotWhole as reason:
        return {one.key: Undefined(str(reason)) for one in asked}
    whole = changed(whole, prediction=cases.recipe.prediction(whole) if cases.whole is None else cases.made)
    parts = [
        ("", whole),
        *((f"/{name}", whole[some]) for _, name, some in labelled(whole.groups) if by_group),
    ]
    found: Sums = {}
    for end, some in parts:
        for number in dict.fromkeys(one.number for one in asked):
            own = fits[number].fitted
            made = applied(own, some.prediction, group=some.first_group, draws=some.draws)
            for one in asked:
                if one.number != number:
                    continue
                try:
                    found[one.key + end] = one.item.score(made, some, own)
                except Refusal as problem:
                    found[one.key + end] = of_group(problem, end.removeprefix("/") or None)
    return found


def of_group(problem: Refusal, group: str | None) -> Undefined:
    """Why a group without any element has no score, which must not cost the others theirs; otherwise its error."""
    if group is None:
        raise problem
    if isinstance(problem, NothingLeft):
        return Undefined("no element of the group is left: the mask or the weights remove all of them.")
    raise Refusal(f"group {group!r}: {problem}") from None
