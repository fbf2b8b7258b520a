"""One pass over any number of cases, in constant memory: sums that merge, and every sum-like score from them.

Batches, GPU ranks and cluster workers all merge the same way. The metrics are those in the folder `metrics/`: a tally
keeps what each of their files says it sums.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from . import plugins
from .arrays import Host, pack
from .cases import Cases, check_alone, members, unread
from .checks import check_choice, check_group, check_level, nothing_left
from .elements import Error, Outputs
from .errors import Refusal
from .factors import cluster_sums, factor_of, factor_plan, factor_sums
from .law import Undefined
from .scores import (
    OfElements,
    Request,
    Statistic,
    Sum,
    accumulate_each,
    join_sums,
    plan,
    request,
    value_of,
)
from .values import Prediction


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over cases that add up: empty, add, merge, summary.

    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> halves = [Tally.empty().add(Prediction(0 * h, scale=0 * h + 1), h) for h in (y[:500], y[500:])]
    >>> round(halves[0].merge(halves[1]).summary()["rmse"], 3)
    0.978
    """

    levels: tuple[float, ...]
    edges: tuple[float, ...] | None
    outputs: Outputs
    error: Error
    moment: int | None  # of the law of the cases so far; the factor needs it
    sums: Mapping[str, Sum]
    groups: Mapping[str, "Tally"]
    # (S, W) of each patient for each factor, by (factor, patient).
    patients: Mapping[tuple[str, str], Host] = field(default_factory=dict)

    @staticmethod
    def empty(
        *,
        levels: Iterable[float] = (0.5, 0.9, 0.95, 0.99),
        edges: Any = None,
        outputs: Outputs = "separate",
        error: Error = "mean",
    ) -> "Tally":
        """A tally of nothing.

        Args:
            levels: of the intervals whose coverage, width and Winkler score are kept.
            edges: of the variance bins of UCE and ENCE; values outside fall in the first or last bin. None: those that
                each metric has for all cases; exact ones up to 32,768 elements, and then from narrow cells, so that
                UCE and ENCE are within 1 %, or a thousandth of the mean variance.
            outputs: "separate" or "mean", for UCE, ENCE, NLL and the factors.
            error: "mean" or "draws", for UCE and ENCE.
        """
        check_choice("outputs", outputs, "separate", "mean")
        check_choice("error", error, "mean", "draws")
        levels = tuple(float(level) for level in levels)
        known = None if edges is None else tuple(float(e) for e in edges)
        for level in levels:
            check_level(level)
        if known is not None and not (len(known) > 1 and all(a < b for a, b in pairwise(known))):
            raise Refusal(f"edges is {known}; expected two or more numbers that rise.")
        return Tally(levels, known, outputs, error, None, {}, {})

    def add(
        self,
        prediction: Prediction | Cases,
        target: Any = None,
        *,
        weight: Any = None,
        group: Any = None,
        patient: Any = None,
    ) -> "Tally":
        """This tally with more cases, or with their arrays. One `add` holds whole cases.

        `group` names the part each of them belongs to, which gets a tally of its own; `patient` who it is of: standard
        errors of factors then count patients, and without them groups.
        """
        cases = unread(prediction, target, weight=weight, patient=patient)
        if cases is prediction:
            check_alone(cases, group)
            group = cases.first_group
        elif group is not None:
            # Those of a group are passed over by themselves, where an error would count from the first of them.
            cases = Cases(cases.prediction, cases.target, weight=weight, patient=patient)
        group = check_group(group, len(cases))
        patients = {} if cases.patient is None else self._patients(cases)
        if group is None:
            return self.merge(replace(self._of(cases), patients=patients))
        parts = {name: self._of(cases[some]) for name, some in members(group)}
        sums = join_sums(part.sums for part in parts.values())
        moment = cases.prediction.law.moment
        return self.merge(replace(self, sums=sums, groups=parts, moment=moment, patients=patients))

    def merge(self, other: "Tally") -> "Tally":
        """The tally of both; neither order nor grouping matters, up to rounding."""
        if not isinstance(other, Tally):
            raise Refusal(f"cannot merge a tally with a {type(other).__name__}; expected a Tally.")
        if self._settings != other._settings:
            raise Refusal(
                "cannot merge tallies of other settings, (levels, edges, outputs, error) = "
                f"{self._settings} and {other._settings}; make both with the same arguments of Tally.empty."
            )
        if None not in (self.moment, other.moment) and self.moment != other.moment:
            raise Refusal(
                "cannot merge predictions of different likelihoods, Normal and Laplace; tally them apart."
            )
        if self.sums and other.sums and bool(self.patients) != bool(other.patients):
            raise Refusal(
                "some of these cases have a patient and others none, so what belongs together is unknown; expected a "
                "patient in every add, or in none."
            )
        groups = dict(self.groups)
        for name, tally in other.groups.items():
            groups[name] = groups[name].merge(tally) if name in groups else tally
        sums, patients = (
            join_sums(each) for each in ((self.sums, other.sums), (self.patients, other.patients))
        )
        return replace(self, sums=sums, groups=groups, moment=self.moment or other.moment, patients=patients)

    def summary(self) -> dict[str, Any]:
        """Every score by its name: plain floats, None where undefined, and a dict by level for interval scores.

        `n` is the weight of all elements; `factor` and `factor_aleatoric` are those of sigma scaling.
        """
        if not self.sums:
            raise nothing_left()
        scores: dict[str, Any] = {"n": float(self.sums["n"][0])}
        for name, one in _requests(self.levels, self.outputs, self.error):
            value = value_of(one, self.sums[one.sums.key(name, one.options)])
            plain = None if isinstance(value, Undefined) else value
            if "level" in one.options:
                scores.setdefault(name, {})[one.options["level"]] = plain
            else:
                scores[name] = plain
        for part, key in (("total", "factor"), ("aleatoric", "factor_aleatoric")):
            sums = self.sums[f"factor {part}"]
            scores[key] = None if isinstance(sums, Undefined) else factor_of(sums, self.moment)
        return scores

    def __repr__(self) -> str:
        count = float(self.sums["n"][0]) if self.sums else 0.0
        groups = f", {len(self.groups)} groups" if self.groups else ""
        return f"Tally({count:g} elements{groups}, outputs={self.outputs!r}, error={self.error!r})"

    @property
    def _settings(self) -> tuple[Any, ...]:
        return self.levels, self.edges, self.outputs, self.error

    def _of(self, cases: Cases) -> "Tally":
        """A tally of the same settings that holds these cases alone."""
        sums = accumulate_each(cases, [(None, _plan(self._settings))])[0]
        return replace(self, sums=sums, groups={}, patients={}, moment=cases.prediction.law.moment)

    def _patients(self, cases: Cases) -> dict[tuple[str, str], Host]:
        """S and W of each patient for each factor; none where that has no sums."""
        names, code = np.unique(cases.patient, return_inverse=True)
        plan = factor_plan(partial(cluster_sums, code=code, clusters=len(names)), self.outputs)
        sums = accumulate_each(cases, [(None, plan)])[0]
        known = {key: own for key, own in sums.items() if not isinstance(own, Undefined)}
        return {(key, str(name)): own[:, k] for key, own in known.items() for k, name in enumerate(names)}


# A tally is added to batch by batch, and asks for the same every time.
@lru_cache(maxsize=64)
def _requests(levels: tuple[float, ...], outputs: Outputs, error: Error) -> list[tuple[str, Request]]:
    """All usual metrics that say what they sum, by their names; those with a level once for each."""
    requests = []
    for name in plugins.usual("metrics"):
        metric = plugins.load("metrics", name)
        if hasattr(metric, "SUMS"):
            known = plugins.options("metrics", metric)
            shared = {k: v for k, v in (("outputs", outputs), ("error", error)) if k in known}
            each: list[dict[str, Any]] = [{"level": level} for level in levels] if "level" in known else [{}]
            requests += [(name, request(metric, {**shared, **own})) for own in each]
    return requests


@lru_cache(maxsize=64)
def _plan(settings: tuple[Any, ...]) -> dict[str, Statistic]:
    """Plan the sums: those that the metrics ask for, the weight, and the factors."""
    levels, edges, outputs, error = settings
    asked = {one.sums.key(name, one.options): one for name, one in _requests(levels, outputs, error)}
    known = {} if edges is None else dict.fromkeys(asked, np.array(edges))
    count = {"n": OfElements(lambda e: pack(e.aleatoric, e.count))}
    return {**count, **plan(asked, known), **factor_plan(factor_sums, outputs)}
