"""Gross outliers: the few cases whose errors carry the mean of z^2, found by a size of sigma that they do not move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays import Host
from ...core.cases import Cases
from ...core.elements import Elements, every_element
from ...core.values import Prediction
from ...core.varying import known_at_levels
from ...recalibrate._factor import robust_size
from .clustered import MANY, usual_kurtosis

FAR = 10.0  # robust sizes of z, beyond which an error is gross
MOST = 0.05  # of the cases: more than this are a part of the data
LEAST = 20  # cases, of which some may be called gross


@dataclass(frozen=True, eq=False)
class Outliers:
    """Elements that are left out, and what is said about each of them, the furthest first."""

    gone: Host  # (case, output)
    named: Sequence[Mapping[str, Any]]

    @property
    def words(self) -> str:
        """The cases, how far they are off, and their share of the sum of z^2."""
        shown = [f"{one['name']}, {one['far']:.0f} times" for one in self.named[:3]]
        more = f" and {len(self.named) - 3} more" if len(self.named) > 3 else ""
        share = sum(one["share"] for one in self.named)
        much = "almost all" if share > 0.995 else f"{100 * share:.0f} %"
        return f"{much} of the sum of (error / sigma)^2 ({'; '.join(shown)} the usual size{more})"


def outliers_in(cases: Cases, prediction: Prediction) -> Outliers | None:
    """The elements whose |z| is beyond ten robust sizes; None if there are none, or they are the tail of a law.

    Where what is left has heavier tails than the law in any of 500 sets, they are not outliers but a part of it.
    """
    found = every_element(prediction, cases.target, weight=cases.weight)
    z = np.where(found.weight > 0, found.residual / found.scale, 0.0)
    law = prediction.law
    some = np.count_nonzero(found.weight.any(axis=1))
    if some < LEAST or known_at_levels(law):
        return None
    size = _sizes(z, found, law.moment)
    far = np.abs(z) / size
    gone = far > FAR
    rest = (z / size)[(found.weight > 0) & ~gone]
    if not gone.any() or np.count_nonzero(gone.any(axis=1)) > max(MOST * some, 1):
        return None
    if (rest**4).mean() > usual_kurtosis(law, rest.size, 1.0) * (rest**2).mean() ** 2:
        return None
    square = found.weight * z**2
    named = []
    for case in sorted(np.flatnonzero(gone.any(axis=1)), key=lambda k: -far[k].max()):
        output = int(far[case].argmax())
        own = None if cases.id is None else str(cases.id[case])
        number = {"case": int(case), "id": own, "output": output if z.shape[1] > 1 else None}
        share = float(square[case, gone[case]].sum() / square.sum())
        target = f"target {found.target[case, output]:.4g}"
        name = f"{own or f'case {case}'}, {target}"
        named.append({**number, "name": name, "far": float(far[case, output]), "share": share})
    return Outliers(gone, named)


def _sizes(z: Host, found: Elements, moment: int) -> Host:
    """The robust size of each output; of all outputs of a map together."""
    if z.shape[1] > MANY:
        return np.array([robust_size(z.ravel(), found.weight.ravel(), moment)])
    return np.array([robust_size(one, weight, moment) for one, weight in zip(z.T, found.weight.T)])
