"""Find what looks like a mistake in calibration and test cases; it is said before any number."""

from collections.abc import Sequence

import numpy as np

from ..core.arrays import Host
from ..core.cases import MANY, Cases
from ..core.elements import Elements, every_element
from ..core.law import central_bounds
from ..core.varying import known_at_levels, of_each
from .leaks import twins

CODES = tuple(float(sign * (10**k - 1)) for k in (2, 3, 4, 5, 6) for sign in (1, -1))  # 99, -99, 999, ...
APART = 3.0  # times that the median sigma of two sets may differ
TOGETHER = 0.15  # correlation of neighbouring hits above which rows seem to belong together
FEW = 30  # cases of equal weight, below which all that is weighted is a rough guess
ROUGH = 10  # patients, below which the factor's interval is a rough guess
SEVERAL = 4  # with this many groups, they may be patients
SOME = 10  # cases, of fewer nothing is said about units
UNIT = 5.0  # times the targets are predictions of another unit
ALIKE = 0.5  # correlation with the targets from which predictions are no mere noise
TWICE = 2.0  # within this a scale, or its square root, is of the right size
CLEAR = 5.0  # by which the log-likelihood is larger if errors grow as the root of the scale
CONTENT = 0.9
MAP = 64  # outputs, beyond which they are of one kind


def doubts(calibration: Cases, test: Cases | None = None) -> list[str]:
    """Look for codes as values, heavy weights, gross errors, variances given as scale, and cases that belong together.

    >>> from truesigma import Prediction
    >>> y = np.append(np.linspace(20, 200, 50), -999.0)
    >>> cases = Cases(Prediction(0 * y + 100, aleatoric=0 * y + 2500), y)
    >>> print(doubts(cases[:50], cases)[0].split(";")[0])
    1 of 51 test targets is -999, far outside the rest (20 to 200)
    """
    sets = {
        name: (cases, every_element(cases.prediction, cases.target, weight=cases.weight))
        for name, cases in (("calibration", calibration), ("test", test))
        if cases is not None
    }
    found = [text for name, (_, columns) in sets.items() for text in _codes(name, columns)]
    found += [text for name, (_, columns) in sets.items() for text in unit_doubts(name, columns)]
    found += [text for name, (_, columns) in sets.items() for text in _heavy(name, columns)]
    found += [text for name, (cases, _) in sets.items() for text in _gross(name, cases)]
    found += [text for name, (cases, _) in sets.items() for text in _copies(name, cases)]
    found += _alike([cases for cases, _ in sets.values()])
    first, *others = [float(np.median(c.scale[c.weight > 0])) for _, c in sets.values()]
    if any(not 1 / APART <= other / first <= APART for other in others):
        found.append(
            f"the median scale of the calibration cases is {first:.3g}, of the test cases {others[0]:.3g}; are both "
            "standard deviations, in one unit, or is one a variance?"
        )
    lags = {name: _lag(cases, columns) for name, (cases, columns) in sets.items()}
    together = {name: f"{lag:.2f}" for name, lag in lags.items() if lag is not None}
    if together:
        found.append(
            f"neighbouring {' and '.join(together)} cases hit or miss together (lag-1 correlation "
            f"{' and '.join(together.values())}), so that intervals are too narrow: if they are frames, slices or "
            "images of one patient, name it in a column `patient`."
        )
    return found + ([] if test is None else _unnamed_patients(calibration, test))


def _alike(sets: Sequence[Cases]) -> list[str]:
    """Say which names of groups or patients differ by spaces or capitals alone: they count as two."""
    found = []
    for what in ("first_group", "patient"):
        given = [getattr(cases, what) for cases in sets]
        names = {str(name) for labels in given if labels is not None for name in np.unique(labels)}
        plain: dict[str, str] = {}
        for name in sorted(names):
            other = plain.setdefault(" ".join(name.split()).casefold(), name)
            if other != name:
                found.append(f"{other!r} and {name!r} differ by spaces or capitals alone; are they one?")
                break
    return found


def few_patients(cases: Cases) -> str:
    """Warn of a standard error that counts few patients; "" if there are enough, or none are named."""
    if cases.patient is None:
        return ""
    counts = every_element(cases.prediction, cases.target, weight=cases.weight).weight.any(axis=1)
    patients = len(np.unique(np.asarray(cases.patient)[counts]))
    if patients >= ROUGH:
        return ""
    if patients < 2:
        return (
            "All calibration cases are of one patient, so nothing shows how much the factor would differ for another: "
            "it has no interval."
        )
    return (
        f"The factor's error counts the {patients} patients of the calibration cases: so few show only roughly how "
        "patients differ."
    )


def _heavy(name: str, columns: Elements) -> list[str]:
    """Say if a few cases carry nearly all the weight, so that every number is about them alone."""
    weight = columns.weight.sum(axis=1)
    count, square = np.count_nonzero(weight), float((weight**2).sum())
    effective = float(weight.sum()) ** 2 / square if square else 0.0
    if not square or effective >= min(FEW, count / 2):
        return []
    return [
        f"the weights of the {count} {name} cases make them worth {effective:.0f} of equal weight: intervals and "
        "verdicts, which count the cases, are surer than so few can be."
    ]


def unit_doubts(name: str, columns: Elements) -> list[str]:
    """Say if predictions are the targets times a factor, or if a sigma of the wrong size would be right as a variance.

    What a network predicts for a case is the mean of such targets, so that no true predictions are so far from them.
    """
    found = []
    for k in range(columns.target.shape[1] if columns.target.shape[1] <= MAP else 0):
        some = columns.weight[:, k] > 0
        target, location, scale = (
            part[some, k] for part in (columns.target, columns.location, columns.scale)
        )
        if some.sum() < SOME or not (np.ptp(target) and np.ptp(location) and scale.min() > 0):
            continue
        times = float((target * location).sum() / (location**2).sum())
        if times > 0 and not 1 / UNIT < times < UNIT and float(np.corrcoef(target, location)[0, 1]) > ALIKE:
            words = f"{1 / times:.3g} times" if times < 1 else f"{times:.3g} times smaller than"
            found.append(f"the {name} predictions are about {words} the targets: are both in one unit?")
        square, log = (target - location) ** 2, np.log(scale)
        sizes = [float(np.sqrt((square / scale ** (2 * power)).mean())) for power in (0.0, 0.5, 1.0)]
        # Minus the log-likelihood of Normal errors that grow as a power of sigma: not, as the root, and as it is.
        fits = [np.log(size) + power * log.mean() for size, power in zip(sizes, (0.0, 0.5, 1.0)) if size > 0]
        clear = len(fits) == 3 and some.sum() * (min(fits[0], fits[2]) - fits[1]) > CLEAR
        if clear and 1 / TWICE < sizes[1] < TWICE and not 1 / TWICE < sizes[2] < TWICE:
            found.append(f"the {name} errors are as large as the square root of the scale: is it a variance?")
    return found


def _gross(name: str, cases: Cases) -> list[str]:
    """Say if the errors of a few cases decide every factor, so that all others hardly count."""
    from .inference.outliers import outliers_in  # scipy is slow to import

    found = outliers_in(cases, cases.prediction)
    if found is None:
        return []
    count = len(found.named)
    then = (
        "Verdicts leave them out, scores do not."
        if name == "test"
        else (
            "A factor that is fitted with them is not that of the others: correct them, or take `sigma:robust=true`."
        )
    )
    return [
        f"{count} of {len(cases)} {name} cases {'makes' if count == 1 else 'make'} {found.words}: is a target "
        f"mistyped or in another unit, or a sigma almost 0? {then}"
    ]


def _copies(name: str, cases: Cases) -> list[str]:
    """Say if cases are exact copies of others, wherever they stand."""
    code = twins(cases)
    if code is None:
        return []
    again = len(cases) - len(np.unique(code))
    counted = "" if cases.cluster is not None else ", which verdicts count once"
    return [
        f"{again} of {len(cases)} {name} cases are exact copies of others{counted}: is a file joined twice?"
    ]


def _unnamed_patients(calibration: Cases, test: Cases) -> list[str]:
    """Say if two sets share none of their few groups, as patients would, and sites would not."""
    sets = (calibration, test)
    if any(cases.patient is not None or cases.first_group is None for cases in sets):
        return []
    names = [set(map(str, cases.first_group)) for cases in sets]
    count = len(names[1])
    if names[0] & names[1] or min(map(len, names)) < SEVERAL or not count < min(MANY, len(test)):
        return []
    return [
        f"the {count} groups of the test cases are none of the calibration cases': if they are patients, name them in "
        "a column `patient` (or `--column patient=NAME`). With so few groups every case counts by itself, and cases of "
        "one patient err together: intervals are then too narrow, and what is called off may be chance."
    ]


def _codes(name: str, columns: Elements) -> list[str]:
    """Find values such as -999 that lie further from the rest than the rest is wide."""
    found = []
    targets, weights = columns.target, columns.weight
    if targets.shape[1] > MAP:
        targets, weights = targets.reshape(-1, 1), weights.reshape(-1, 1)
    for target, weight in zip(targets.T, weights.T):
        counted = target[weight > 0]
        for code in CODES:
            mine = counted == code
            rest = counted[~mine & ~np.isin(counted, CODES)]
            if not mine.any() or not rest.size:
                continue
            low, high = float(rest.min()), float(rest.max())
            if max(low - code, code - high) > max(high - low, 1e-12):
                count = int(mine.sum())
                found.append(
                    f"{count} of {counted.size} {name} targets {'is' if count == 1 else 'are'} {code:g}, far outside "
                    f"the rest ({low:.4g} to {high:.4g}); if that means missing, leave them out: --missing {code:g}."
                )
    return found


def _lag(cases: Cases, columns: Elements) -> float | None:
    """The lag-1 correlation of the hits, if it is beyond chance and no group says which cases belong together."""
    size = len(cases)
    law = cases.prediction.law
    if cases.patient_or_group is not None or size < 50 or known_at_levels(law):
        return None
    low = of_each(law, lambda one: central_bounds(one, CONTENT)[0], columns.scale)
    high = of_each(law, lambda one: central_bounds(one, CONTENT)[1], columns.scale)
    z = columns.residual / columns.scale
    hits = _mean((z >= low) & (z <= high), columns.weight)
    hits = hits[np.isfinite(hits)] - np.nanmean(hits)
    square = float((hits**2).sum())
    if square == 0:
        return None
    lag = float((hits[1:] * hits[:-1]).sum()) / square
    return lag if lag > max(TOGETHER, 4 / np.sqrt(hits.size)) else None


def _mean(values: Host, weight: Host) -> Host:
    """The mean over the outputs of each case; NaN where none counts."""
    whole = weight.sum(axis=1)
    return np.where(whole > 0, (weight * values).sum(axis=1) / np.where(whole > 0, whole, 1), np.nan)
