"""Checks of input: each error says what was given, what was expected and what to do about it."""

import math
from collections.abc import Mapping, Set
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from .arrays import Array, as_array, expand, extremes, namespace, to_host, widen
from .errors import Refusal

# What is wrong with a number, a variance or a weight, and what it should be.
NOT_FINITE = ("is not finite", "finite numbers")
NEGATIVE = ("is negative or not finite", "finite numbers of 0 or more")

MOST_DIGITS = 9  # of a share in per cent
HEAVY = 1e100  # weight, whose square still leaves room for sums
SMALL = 1e-12  # weights, all below which are kept in float64: float32 would round their products to 0


def number_of(count: int, noun: str) -> str:
    """Write a count with its noun, in the singular or plural.

    >>> number_of(1, "case"), number_of(12, "test case")
    ('1 case', '12 test cases')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def per_cent(share: float, digits: int = 0, kind: str = "f") -> str:
    """Write a share in per cent; with more digits where it would be rounded to none or all, and is neither.

    >>> per_cent(0.899), per_cent(1999 / 2000), per_cent(1 / 2000), per_cent(1), per_cent(0.123, 1)
    ('90', '99.95', '0.05', '100', '12.3')
    """
    text = f"{100 * share:.{digits}{kind}}"
    if not 0 < share < 1 or 0 < float(text) < 100:
        return text
    power = int(f"{100 * min(share, 1 - share):.0e}".partition("e")[2])
    return f"{100 * share:.{min(-power, MOST_DIGITS)}f}"


class WrongValue(Refusal):
    """An impossible value; `case` is the place of the first one, from 0, so that a file can name its row."""

    def __init__(self, message: str, case: int) -> None:
        super().__init__(message)
        self.case = case


def check_axes(name: str, array: Array, axes: str, least: int) -> None:
    if array.ndim < least or 0 in array.shape:
        raise Refusal(
            f"{name} has shape {tuple(array.shape)}; expected ({axes}) with at least one of each. Reshape it, or look "
            "whether every case was filtered out before."
        )


def check_mask(mask: Any, example: Array, shape: tuple[int, ...]) -> Array:
    if mask is None:
        return None
    if not is_array_api_obj(mask):
        mask = np.asarray(mask)
    xp = namespace(example, mask)
    if not xp.isdtype(mask.dtype, "bool"):
        raise Refusal(
            f"mask has dtype {mask.dtype}; expected booleans, True where a value counts. Give mask > 0."
        )
    return expand("mask", mask, shape)


def same_mask(one: Array, other: Array) -> bool:
    """Whether two masks let the same elements count; None lets all count."""
    if one is other:
        return True
    masks = [np.array(True) if mask is None else to_host(mask) for mask in (one, other)]
    return np.array_equal(masks[0], masks[1])


def check_draws(draws: Any, prediction: Any) -> None:
    """Refuse draws that the prediction was not made from; draws without a mask take the prediction's."""
    shapes = [tuple(shape) for shape in (draws.mean.shape[1:], prediction.location.shape)]
    if shapes[0] != shapes[1]:
        raise Refusal(
            f"draws has cases and outputs {shapes[0]}; expected the prediction's {shapes[1]}, which is made of them."
        )
    if draws.mask is not None and not same_mask(draws.mask, prediction.mask):
        raise Refusal(
            "draws and prediction have different masks; expected the same in both: give it to Draws, and decompose."
        )
    if draws.law.to_dict() != prediction.law.to_dict() or _recalibrated(prediction, draws.mean.shape[0]):
        raise Refusal(
            "the prediction was recalibrated, the draws were not, or have another law, and scores are made of the "
            "draws; leave them out: Cases(prediction, target)."
        )


def _recalibrated(prediction: Any, draws: int) -> bool:
    """Whether the prediction was recalibrated: its epistemic part is no longer the spread of its draws."""
    if prediction.spread is None or prediction.epistemic is None:
        return False
    # One case that counts is enough.
    inside = np.ones(1) if prediction.mask is None else to_host(prediction.mask)
    case = int(inside.reshape(len(inside), -1).any(axis=1).argmax())
    spread, epistemic = (to_host(part[case : case + 1]) for part in (prediction.spread, prediction.epistemic))
    made = [spread * times for times in (1.0, draws / max(draws - 1, 1))]  # ddof 0 and 1
    return not any(np.allclose(epistemic, one, rtol=1e-3, atol=0, equal_nan=True) for one in made)


def check_values(name: str, good: Array, mask: Array, problem: str, expected: str, axis: int = 0) -> None:
    """Raise for the first bad case among those that the mask lets count; `axis` is the cases' axis."""
    xp = namespace(good)
    good = good if mask is None else good | ~mask
    if not bool(xp.all(good)):
        bad = ~to_host(good)
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise WrongValue(
            f"{name} {problem} in {number_of(int(bad.sum()), 'place')}, the first at index {first}; "
            f"expected {expected}. Correct them, or give a mask that is False there.",
            first[axis],
        )


def check_finite(
    name: str, array: Array, mask: Array, *, least: float = -np.inf, axis: int = 0
) -> tuple[float, float]:
    """Raise unless all values that count are finite, and at least 0 where that is asked; the smallest and the largest.

    Those two say it all without a second array of that size, unless something is outside the mask.
    """
    low, high = extremes(array)
    if not (max(least, -np.finfo(np.float64).max) <= low and high < np.inf):
        good = namespace(array).isfinite(array) & (array >= least)
        problem, expected = NOT_FINITE if least < 0 else NEGATIVE
        hint = "" if least < 0 or name in ("weight", "scale") else " (a variance, not its logarithm)"
        check_values(name, good, mask, problem, expected + hint, axis)
    return low, high


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse a count that is not a whole number; True and False are none."""
    if isinstance(value, bool) or not (isinstance(value, int | np.integer) and value >= least):
        raise Refusal(f"{name} is {value!r}; expected a whole number, {least} or more.")


def check_kind(name: str, value: Any, kind: type, expected: str) -> None:
    """Refuse a value of another class."""
    if not isinstance(value, kind):
        raise Refusal(f"{name} is a {type(value).__name__}; expected {expected}.")


def check_choice(name: str, value: Any, *known: Any) -> None:
    """Refuse a word that is not among the choices."""
    if value not in known:
        raise Refusal(f"{name} is {value!r}; expected {' or '.join(map(repr, known))}.")


def check_level(level: float, name: str = "level") -> None:
    """Refuse a level or probability that is not a share such as 0.9; percentages and alpha are not meant."""
    if not (isinstance(level, (float, Real)) and 0 < level < 1):
        raise Refusal(f"{name} is {level!r}; expected a number between 0 and 1, such as 0.9 for 90 %.")


class NothingLeft(Refusal):
    """Data of which the mask or the weights leave nothing."""


def nothing_left() -> NothingLeft:
    """Make the error for data of which mask or weights leave nothing."""
    return NothingLeft(
        "no element is left to score: the mask or the weights remove everything. Give at least one case."
    )


def check_enough(cases: float) -> None:
    """Refuse to fit on no case, or on a single one."""
    if cases == 0:
        raise nothing_left()
    if cases < 2:
        raise Refusal(
            "one calibration case cannot show how wrong others are; expected at least two, better 100."
        )


def check_law(law: Any) -> None:
    """Refuse what is not a law, such as its name."""
    if isinstance(law, type) or not callable(getattr(law, "quantile", None)):
        raise Refusal(f"law is {law!r}; expected a law such as Normal() or Laplace().")


def check_target(location: Array, mask: Array, target: Any) -> Array:
    """The target as an array beside the prediction, checked where the mask lets it count."""
    target = target_beside(location, target)
    check_finite("target", target, mask)
    return target


def target_beside(location: Array, target: Any) -> Array:
    """The target as an array beside the prediction; its shape is checked here, its numbers are not."""
    if target is None:
        raise Refusal("a prediction is given without its target; expected both, or cases.")
    target = as_array("target", target)
    namespace(location, target)  # of one library, on one device
    if tuple(target.shape) != tuple(location.shape):
        raise Refusal(
            f"target has shape {tuple(target.shape)}; expected the location's {tuple(location.shape)}. "
            "Reshape it; nothing is broadcast here, because a wrong pairing would give a silent wrong number."
        )
    if len(target) == 0:
        raise nothing_left()
    return target


def check_names(names: Any, location: Array) -> tuple[str, ...]:
    """The names of the outputs: as many as there are, each once; () for none."""
    named = tuple(map(str, names))
    if named and (len(named) != math.prod(location.shape[1:]) or len(set(named)) < len(named)):
        raise Refusal(
            f"names are {', '.join(named)}, beside {math.prod(location.shape[1:])} output(s); expected one for each, "
            "and no two the same."
        )
    return named


def check_weight(weight: Any, location: Array, mask: Array) -> Array:
    """Weights >= 0 with the shape (case,) or that of the location, expanded to the latter; None stays None."""
    if weight is None:
        return None
    weight = expand("weight", as_array("weight", weight), tuple(location.shape))
    namespace(weight, location)
    _, high = check_finite("weight", weight, mask, least=0)
    check_heaviest(high)
    return widen(weight) if high < SMALL else weight


def check_heaviest(weight: float) -> None:
    """Refuse weights so large that their squares overflow."""
    if weight > 0 and not 1 / HEAVY <= weight <= HEAVY:
        raise Refusal(
            f"the largest weight is {float(weight):.3g}, whose square is beyond what numbers hold; expected one "
            f"between {1 / HEAVY:g} and {HEAVY:g}. Only ratios of weights count: divide them by the largest."
        )


def check_group(group: Any, cases: int, name: str = "group") -> Any:
    """Check one name for each case and return a numpy array; None stays None."""
    if group is None:
        return None
    if isinstance(group, str | Mapping | Set) or not hasattr(group, "__len__"):
        raise Refusal(f"{name} is {group!r}; expected one name for each of the {cases} cases.")
    given = to_host(group) if is_array_api_obj(group) else list(group)
    names = np.asarray(given)
    if names.shape != (cases,):
        raise Refusal(f"{name} has shape {names.shape}; expected one name for each of the {cases} cases.")
    # A list of texts has no empty cells, and no name of it is looked at one by one.
    plain = given.dtype != object if isinstance(given, np.ndarray) else set(map(type, given)) == {str}
    empty = int((names != names).sum()) if plain else sum(map(_is_empty, given))
    if empty:
        raise Refusal(f"{name} is empty in {empty} of {cases} cases; expected a name for each. Fill them in.")
    return np.array([str(one) for one in given]) if names.dtype == object else names


def check_groups(group: Any, cases: int) -> Any:
    """Check one name for each case, or such an array by column; an empty mapping becomes None."""
    if not isinstance(group, Mapping):
        return check_group(group, cases)
    checked = {str(column): check_group(names, cases, f"group {column!r}") for column, names in group.items()}
    missing = [column for column, names in checked.items() if names is None]
    if missing:
        raise Refusal(f"group {missing[0]!r} is None; expected one name for each of the {cases} cases.")
    return checked or None


def _is_empty(one: Any) -> bool:
    """Whether a name is missing: None, or an empty cell of a table, which is NaN or pandas' NA."""
    try:
        return one is None or bool(one != one)
    except TypeError:  # NA is neither equal to itself nor different
        return True
