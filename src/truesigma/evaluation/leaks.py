"""Warn if the same cases are fitted on and scored, or if two sets of cases do not go together."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases, name_of
from ..core.checks import number_of
from ..core.values import Prediction
from .sets import CaseSet

ALARMS = 0.05  # share of sets of new cases that raise a warning although they are like those fitted on
# Values are many if at least ROWS differ, and at most the share SHARED of these has one like another's.
ROWS, SHARED = 20, 0.01
LOOKED_AT = 1000  # targets that tell whether a closer look is worth it
ODD = np.uint64(0x9E3779B97F4A7C15)  # mixes the bits of a hash
FROM_ONE = "From one file alone, `truesigma compare` scores each case by a fit on the others."
CLUSTERS = {
    "patients": "patient",
    "groups": "first_group",
}  # by what a card counts: the cases' own names of it


EXTENT_LIKE = {  # what `extent` adds to a card's data
    **dict.fromkeys(("cases?", "patients?", "groups?"), int),
    "outputs?": int | None,  # None: maps of several sizes
    "range?": {"location": [[float]], "scale": [[float]]},
}


def extent(cases: Cases) -> dict[str, Any]:
    """Find the smallest and largest location and scale of each output, and count the patients; nothing for maps.

    Without patients, groups are counted if there are enough of them to take their place.

    >>> extent(Cases(Prediction([3.0, 1.0, 2.0], aleatoric=[4.0, 1.0, 9.0]), [3.0, 1.0, 2.0], patient=["a", "a", "b"]))
    {'range': {'location': [[1.0, 3.0]], 'scale': [[1.0, 3.0]]}, 'patients': 2}
    """
    if cases.prediction.location.ndim > 2 or not len(cases):
        return {}
    looked_at = _looked_at(cases.prediction)
    if any(np.isnan(values).all(0).any() for values in looked_at.values()):
        return {}
    ends = {name: np.stack([np.nanmin(v, 0), np.nanmax(v, 0)], 1).tolist() for name, v in looked_at.items()}
    if not np.isfinite(list(ends.values())).all():
        return {}
    if cases.cluster is None:
        return {"range": ends}
    return {"range": ends, "groups" if cases.patient is None else "patients": len(np.unique(cases.cluster))}


def _looked_at(prediction: Prediction) -> dict[str, Host]:
    """Location and scale as (case, output); NaN for what a mask leaves out."""
    columns = {}
    for name in ("location", "scale"):
        values = np.broadcast_to(to_host(getattr(prediction, name)), prediction.location.shape)
        values = values.reshape(len(values), -1).astype(np.float64)
        if prediction.mask is not None:
            values = np.where(to_host(prediction.mask).reshape(values.shape), values, np.nan)
        columns[name] = values
    return columns


def warn_beyond(data: Mapping[str, Any], cases: Cases, unit: str = "") -> None:
    """Warn if more new cases lie beyond those fitted on than cases of the same kind would.

    If cases of one kind come in random order, the number of the last ones outside the range of the first ones has a
    known law, whatever the law of the values. Cases of one patient are not in random order, but patients are: if the
    cases fitted on name them, patients with any case beyond are counted. The level is divided among location, scale
    and outputs.

    data: of a card, with `extent` of the cases fitted on. cases: the new ones, before recalibration.

    >>> card = {"cases": 100, "range": {"location": [[0.0, 1.0]], "scale": [[1.0, 2.0]]}}
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warn_beyond(card, Cases(Prediction([5.0], aleatoric=[1.0]), [5.0]), "mm")
    >>> str(said[0].message)[:77]
    '1 of 1 new cases has a location beyond the 0 to 1 mm of the 100 cases that it'
    """
    known = next((name for name in CLUSTERS if name in data), "cases")
    seen, count = data["range"], data[known]
    if cases.prediction.location.ndim > 2 or not len(cases) or count < 2:
        return
    named = getattr(cases, CLUSTERS[known]) if known in CLUSTERS else None

    def counted(which: Host) -> int:
        return int(which.sum()) if named is None else len(np.unique(np.asarray(named)[which]))

    chances, outputs = [], len(seen["location"])
    for name, values in _looked_at(cases.prediction).items():
        if values.shape[1] != outputs:
            return  # the card itself says more about that
        for j, (low, high) in enumerate(np.asarray(seen[name], np.float64)):
            beyond, new = (
                counted((values[:, j] < low) | (values[:, j] > high)),
                counted(~np.isnan(values[:, j])),
            )
            chances.append((chance_beyond(beyond, new, count), name, j, beyond, new))
    chance, name, j, beyond, new = min(chances)
    if chance * len(chances) > ALARMS:
        return
    low, high = seen[name][j]
    what = name if outputs == 1 else f"{name} of {name_of(data.get('names', ()), j)}"
    assumed = f", if each is of another {known[:-1]}" if known in CLUSTERS and named is None else ""
    warnings.warn(
        f"{beyond} of {new} new {'cases' if named is None else known} {'has' if beyond == 1 else 'have'} a {what} "
        f"beyond the {low:.3g} to {high:.3g}{unit and ' '}{unit} of the {count} {known} that it was recalibrated on: "
        f"they seem to be of another kind{assumed}, for which neither predictions nor intervals were ever checked. "
        "Look at them, and label some: 20 are a start.",
        stacklevel=3,
    )


def chance_beyond(beyond: int, new: int, known: int) -> float:
    """Find the chance that at least that many new cases lie outside the range of the known ones, all of one kind.

    P(K = k) = (k + 1) C(new + known - k - 2, known - 2) / C(new + known, known).

    >>> round(chance_beyond(1, 1, 99), 6)  # the new one is the smallest or the largest of 100
    0.02
    """
    if beyond == 0:
        return 1.0
    k, every = np.arange(1.0, beyond), float(new + known)
    first = known * (known - 1) / (every * (every - 1))
    steps = (k + 1) / k * (new - k + 1) / (every - k - 1)
    return max(0.0, 1 - float(first * (1 + np.cumprod(steps).sum())))


def warn_leaks(calibration: CaseSet, tested: Sequence[CaseSet]) -> None:
    """Warn if what was fitted on is scored, if two sets do not go together, or if two repeats share files."""
    seen: set[Path] = set()
    fitted_on = {path.resolve() for path in calibration.predicted}
    for number, test in enumerate(tested, start=1):
        paths = {path.resolve() for path in test.predicted}
        said = _unlike(calibration, test)
        if both := sorted(paths & fitted_on):
            some = (
                f"{both[0].name} is" if len(both) == 1 else f"{len(both)} files, such as {both[0].name}, are"
            )
            said.append(f"{some} fitted on and scored: these scores are too good. {FROM_ONE}")
        elif calibration.given is not None and test.given is not None:
            said.append(_shared(calibration.name, calibration.given, test.name, test.given))
        if both := sorted(paths & seen):
            said.append(
                f"{len(both)} file(s) of test set {number} are in an earlier one, too, such as {both[0]}: the "
                "deviation between the sets is too small."
            )
        seen |= paths
        for words in filter(None, said):
            warnings.warn(words, stacklevel=3)


def _unlike(calibration: CaseSet, test: CaseSet) -> list[str]:
    """Say if one of two sets has a unit and the other none, or if two networks made them."""
    said = []
    if bool(calibration.unit) != bool(test.unit):
        named, bare = (calibration, test) if calibration.unit else (test, calibration)
        said.append(
            f"{named.name} is in {named.unit}, and {bare.name} does not say its unit; it is taken to be the same. If "
            "it is, say so in the file."
        )
    marks = calibration.checkpoint, test.checkpoint
    if all(marks) and marks[0] != marks[1]:
        said.append(
            f"{calibration.name} and {test.name} are predictions of two networks (checkpoints {marks[0]} and "
            f"{marks[1]}): what is fitted on one says little about the other."
        )
    return said


def _shared(first: str, fitted_on: Cases, second: str, cases: Cases) -> str:
    """Say if cases that were fitted on are scored, or other cases of their patients; "" if neither."""
    if all(
        np.array_equal(to_host(a), to_host(b), equal_nan=True)
        for a, b in zip(_columns(fitted_on), _columns(cases))
    ):
        return (
            f"{second} holds the cases of {first} again: these scores are of what was fitted on. {FROM_ONE}"
        )
    if both := _names(fitted_on.id) & _names(cases.id):
        return (
            f"{number_of(len(both), 'id')} {'is' if len(both) == 1 else 'are'} in both {first} and {second}, such as "
            f"{min(both)}: cases that were fitted on are scored."
        )
    if 10 * (same := _same_rows(fitted_on, cases)) > len(cases):  # a few alike are chance
        return (
            f"{same} of {len(cases)} cases in {second} have the prediction and the target of one in {first}: are these "
            "the cases that were fitted on?"
        )
    if both := _names(fitted_on.cluster) & _names(cases.cluster):  # a few groups, such as sites, may well be
        named = fitted_on.patient is not None and cases.patient is not None
        what, the = ("patients", "The") if named else ("groups", "If they are patients, the")
        return (
            f"{len(both)} {what} are in both {first} and {second}, such as {min(both)}. {the} recalibration has seen "
            "them, and these scores may be too good."
        )
    return ""


def _names(names: Any) -> set[str]:
    return set() if names is None else set(map(str, names))


def _columns(cases: Cases) -> list[Any]:
    """List the columns by which cases are compared."""
    return [cases.prediction.location, cases.prediction.aleatoric, cases.target]


def _same_rows(one: Cases, other: Cases) -> int:
    """Count the cases of `other` that equal one of the first in location, variances and target.

    Rows that occur twice in one of the sets say nothing if values may be so few that cases are alike by chance.
    """
    first, second = (to_host(cases.target).reshape(len(cases), -1)[:, 0] for cases in (one, other))
    # Most sets share no target: a few of the second, sorted, tell so quickly.
    some = np.sort(second[:: 1 + len(second) // LOOKED_AT])
    near = first[some[np.minimum(np.searchsorted(some, first), some.size - 1)] == first]
    if one.target.shape[1:] != other.target.shape[1:] or 20 * np.isin(some, near).sum() <= some.size:
        return 0
    keys = [_keys(*_columns(cases)) for cases in (one, other)]
    once = [_once(key) for key in keys]
    twice = sum(map(len, once)) < sum(map(len, keys))
    first, second = keys if twice and _are_many(np.concatenate(keys), (one, other)) else once
    return int(np.isin(second, first).sum())


def _are_many(rows: Host, sets: Sequence[Cases]) -> bool:
    """Whether values are many: different rows then have different locations, and different errors as well."""
    different = np.unique(rows, return_index=True)[1]
    location, target = (
        np.concatenate([to_host(one).reshape(len(one), -1) for one in some])[different]
        for some in ([c.prediction.location for c in sets], [c.target for c in sets])
    )
    with np.errstate(all="ignore"):  # anything may stand outside a mask
        counts = [len(np.unique(_keys(values))) for values in (location, target - location)]
    return len(different) >= ROWS and min(counts) >= (1 - SHARED) * len(different)


def _keys(*parts: Any) -> Host:
    """Hash each row: its bits are mixed, and summed with odd factors that differ by column."""
    rng = np.random.default_rng(0)
    key = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        bits = to_host(part).reshape(len(part), -1).astype(np.float64).view(np.uint64)
        bits ^= bits >> np.uint64(32)
        bits *= ODD
        bits ^= bits >> np.uint64(29)
        factors = rng.integers(1 << 63, size=bits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        key += bits @ factors
    return key


def twins(cases: Cases) -> Host | None:
    """Number the cases so that exact copies have one number; None if there are none, or values are too few to tell."""
    keys = _keys(*_columns(cases))
    if len(_once(keys)) == len(keys) or not _are_many(keys, (cases,)):
        return None
    return np.unique(keys, return_inverse=True)[1]


def _once(keys: Host) -> Host:
    """Keep the keys that occur once."""
    different, count = np.unique(keys, return_counts=True)
    return different[count == 1]
