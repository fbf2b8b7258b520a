"""Cases: predictions with their targets, and who they belong to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from .arrays import Array, Host, as_array, expand, namespace, to_host
from .checks import (
    check_draws,
    check_group,
    check_groups,
    check_names,
    check_target,
    check_weight,
    nothing_left,
    number_of,
    target_beside,
)
from .errors import Refusal
from .notebook import html_table
from .values import Draws, Prediction, changed, check_prediction, rows_of, take, trusted
from .varying import Varying, join_laws

LABELS = ("patient", "fold", "id")  # of cases, one name each
PARTS = ("location", "aleatoric", "epistemic", "spread", "mask")  # of a prediction
MANY = 20  # groups, from which on they are taken for patients if none are named: fewer do not show how they differ
SHOWN = 8  # cases, and numbers of one, in a notebook


@dataclass(frozen=True, eq=False)
class Cases:
    """Predictions with their targets: what a file holds and what `evaluate` takes.

    `patient` says which cases belong together, `group` what is looked at apart (a site, a scanner): names, or a mapping
    from columns to names. Without `patient`, cases of a `group` are taken to belong together if there are 20 groups or
    more. `fold` is the part whose model had not seen the case, where each was predicted by a model of the others. `id`
    names the cases, `names` the outputs, `unit` is the target's unit, `checkpoint` the network where it is known,
    `sampling` how it was drawn from, as "masks=common seed=0 draws=25". `draws` keeps what the prediction was made of,
    for the recipes that decompose it in another way; the prediction's mask holds for them, too. `shift` says to whom
    `weight` makes the cases alike.

    >>> Cases(Prediction([1.0, 2.0], aleatoric=[0.1, 0.1], epistemic=[0.0, 0.1]), [1.1, 1.7], unit="mm")
    Cases(2 cases, normal, in mm)
    """

    prediction: Prediction
    target: Array
    _: KW_ONLY
    group: Any = None
    patient: Any = None
    fold: Any = None
    weight: Array = None
    unit: str = ""
    names: tuple[str, ...] = ()
    id: Any = None
    draws: Draws | None = None
    checkpoint: str = ""
    sampling: str = ""
    shift: Any = None
    _read: ClassVar[bool] = True  # whether the numbers of the target have been looked at

    def __post_init__(self) -> None:
        prediction, draws = self.prediction, self.draws
        check_prediction(prediction)
        target = check_target(prediction.location, prediction.mask, self.target)
        check_weight(self.weight, prediction.location, prediction.mask)
        weight = None if self.weight is None else as_array("weight", self.weight)
        labels = {name: check_group(getattr(self, name), len(prediction), name) for name in LABELS}
        labels["group"] = check_groups(self.group, len(prediction))
        names = check_names(self.names, prediction.location)
        vars(self).update(target=target, weight=weight, names=names, **labels)
        if draws is not None:
            check_draws(draws, prediction)
            vars(self).update(draws=changed(draws, mask=prediction.mask))

    @property
    def groups(self) -> dict[str, Any]:
        """The groups that are looked at separately, by column; a single array is called "group".

        >>> sorted(Cases(Prediction([1.0], aleatoric=[0.1]), [1.1], group={"site": ["A"], "sex": ["f"]}).groups)
        ['sex', 'site']
        """
        if self.group is None:
            return {}
        return dict(self.group) if isinstance(self.group, Mapping) else {"group": self.group}

    @property
    def first_group(self) -> Any:
        """The names of the first column, which is what a recalibration by group repairs; None without."""
        return first_group(self.group)

    @property
    def cluster(self) -> Any:
        """The names of the cases that belong together: patients, else many groups; None: each by itself."""
        names = self.patient_or_group
        return names if self.patient is not None or len(np.unique(names)) >= MANY else None

    @property
    def patient_or_group(self) -> Any:
        """The names of the patients, else of the first group, however few; None without both."""
        return self.first_group if self.patient is None else self.patient

    @property
    def counted(self) -> int:
        """How many cases have a target that counts: those that the mask does not hide whole."""
        mask = self.prediction.mask
        return len(self) if mask is None else int(to_host(mask).reshape(len(self), -1).any(axis=1).sum())

    @staticmethod
    def concat(*parts: "Cases | Iterable[Cases]") -> "Cases":
        """Several sets as one, one after another, without their draws; unit and marks are those of the first.

        >>> one = Cases(Prediction([1.0], scale=[0.1]), [1.1])
        >>> Cases.concat(one, one)
        Cases(2 cases, normal)
        """
        return pool(cases for part in parts for cases in ([part] if isinstance(part, Cases) else part))

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, index: Any) -> "Cases":
        rows = rows_of(index)
        names = ("prediction", "target", "weight", "group", *LABELS, "draws")
        return changed(self, **{name: take(getattr(self, name), rows) for name in names})

    def __repr__(self) -> str:
        unit = f", in {self.unit}" if self.unit else ""
        return f"Cases({number_of(len(self), 'case')}, {self.prediction.law.name}{unit})"

    def _repr_html_(self) -> str:
        """The first cases, for a notebook."""
        some, unit = self[:SHOWN], f" ({self.unit})" if self.unit else ""
        made = some.prediction
        numbers = {f"target{unit}": some.target, f"location{unit}": made.location, f"scale{unit}": made.scale}
        labels = {name: names for name in LABELS if (names := getattr(some, name)) is not None} | some.groups
        columns = {
            **{name: [str(one) for one in names] for name, names in labels.items()},
            **{name: [_shown(row) for row in to_host(part)] for name, part in numbers.items()},
        }
        rest = [f"and {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []
        return html_table(list(columns), list(zip(*columns.values())), repr(self), rest)


def _shown(row: Host) -> str:
    """The numbers of one case, or how many there are."""
    return ", ".join(f"{one:.4g}" for one in row.ravel()) if row.size <= SHOWN else f"{row.size} numbers"


def unread(prediction: Any, target: Any = None, *, weight: Any = None, patient: Any = None) -> Cases:
    """Cases for one pass, which looks at their numbers itself, block by block in the cache; or the cases given."""
    if isinstance(prediction, Cases):
        check_alone(prediction, target, weight, patient)
        return prediction
    check_prediction(prediction)
    patient = check_group(patient, len(prediction), "patient")
    target = target_beside(prediction.location, target)
    parts = {"prediction": prediction, "target": target, "weight": weight, "patient": patient}
    return trusted(Cases, **parts, _read=False)


def check_alone(value: Any, *others: Any) -> None:
    """Refuse targets, weights or names beside what holds its own."""
    if any(one is not None for one in others):
        kind = type(value).__name__
        raise Refusal(
            f"targets, weights or names are given beside a {kind}, which holds its own; give it alone, or the arrays."
        )


def first_group(group: Any) -> Any:
    """The names themselves, or those of the first column.

    >>> first_group({"site": ["A", "B"], "sex": ["f", "m"]})
    ['A', 'B']
    """
    return next(iter(group.values()), None) if isinstance(group, Mapping) else group


def members(group: Host) -> Iterator[tuple[str, Host]]:
    """List each name in a group with the places of its cases, in one sort however many names there are.

    >>> {name: places.tolist() for name, places in members(np.array(["b", "a", "b"]))}
    {'a': [1], 'b': [0, 2]}
    """
    names = np.unique(group)
    code = np.searchsorted(names, group)
    ends = np.cumsum(np.bincount(code, minlength=len(names)))
    yield from zip(map(str, names), np.split(np.argsort(code, kind="stable"), ends[:-1]))


def labelled(groups: Mapping[str, Host]) -> Iterator[tuple[str, str, Host]]:
    """`members` of each column; if there are several columns, a name begins with its column's.

    >>> [name for _, name, _ in labelled({"site": np.array(["A", "B"]), "sex": np.array(["f", "f"])})]
    ['site A', 'site B', 'sex f']
    """
    for column, group in groups.items():
        for name, places in members(group):
            yield column, f"{column} {name}" if len(groups) > 1 else name, places


def pool(sets: Iterable[Cases]) -> Cases:
    """All cases one after another, without their draws; unit, names and marks are those of the first.

    Only what they are made of is kept of each set, so that the sets need not be in memory together.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*PARTS, "weight", "group", *LABELS, "target")}
    laws: list[Any] = []
    first = None
    for cases in sets:
        first = first or cases
        if cases.unit and first.unit and cases.unit != first.unit:
            raise Refusal(f"some targets are in {first.unit}, others in {cases.unit}; expected one unit.")
        if cases.names and first.names and cases.names != first.names:
            raise Refusal(
                f"the outputs of some cases are {first.names}, of others {cases.names}; expected the same."
            )
        laws.append((cases.prediction.law, len(cases)))
        for name, column in columns.items():
            column.append(getattr(cases.prediction if name in PARTS else cases, name))
    if first is None:
        raise nothing_left()
    if any(one is None for one in columns["id"]):
        columns["id"] = [None]
    shapes = [tuple(target.shape) for target in columns["target"]]
    # One after another, each replacing its pieces, so that twice as much need not fit.
    parts = {
        name: _joined(name, columns.pop(name), shapes)
        for name in (*PARTS, "weight", "group", *LABELS, "target")
    }
    prediction = Prediction(**{name: parts.pop(name) for name in PARTS}, law=join_laws(laws))
    return changed(first, prediction=prediction, target=parts.pop("target"), draws=None, **parts)


def _joined(name: str, arrays: list[Any], shapes: list[tuple[int, ...]]) -> Any:
    """One array of all, None if no set has it; without a mask everything counts, and without a weight it counts 1."""
    if name in ("mask", "weight") and any(a is not None for a in arrays):
        kind: Any = bool if name == "mask" else np.float64
        if name == "weight" and all(a is None or a.ndim == 1 for a in arrays):
            shapes = [shape[:1] for shape in shapes]
        arrays = [
            np.ones(shape, dtype=kind) if a is None else expand(name, a, shape)
            for a, shape in zip(arrays, shapes)
        ]
    missing = sum(a is None for a in arrays)
    if missing == len(arrays):
        return None
    if missing:
        raise Refusal(
            f"some of these sets have {name} and others do not; expected it in all of them, or in none."
        )
    columns = {tuple(sorted(a)) if isinstance(a, Mapping) else () for a in arrays}
    if len(columns) > 1:
        raise Refusal("these sets have groups of different names; expected the same in all of them.")
    if columns != {()}:
        return {one: np.concatenate([a[one] for a in arrays]) for one in arrays[0]}
    return (
        namespace(*arrays).concat(arrays) if name in ("weight", *PARTS, "target") else np.concatenate(arrays)
    )


T = TypeVar("T", Array, Prediction, Cases)


def output_of(values: T, output: int) -> T:
    """Select one output and drop the output axes; several axes are counted along the last. None stays None.

    >>> output_of(np.array([[1.0, 2.0], [3.0, 4.0]]), 1)
    array([2., 4.])
    >>> output_of(Prediction([[1.0, 2.0]], aleatoric=[[1.0, 9.0]]), 1).scale
    array([3.])
    """
    if values is None:
        return None
    if isinstance(values, Cases):
        weight: Any = values.weight
        if weight is not None and weight.ndim > 1:  # one number may stand for all outputs
            weight = output_of(expand("weight", weight, tuple(values.target.shape)), output)
        one, target = output_of(values.prediction, output), output_of(values.target, output)
        names = values.names[output : output + 1]
        return changed(values, prediction=one, target=target, weight=weight, draws=None, names=names)
    if isinstance(values, Prediction):
        law = values.law.flat()[:, output] if isinstance(values.law, Varying) else values.law
        return values.with_arrays(lambda part: output_of(part, output), law=law)
    return namespace(values).reshape(values, (values.shape[0], -1))[:, output]


def name_of(names: Sequence[str], output: int) -> str:
    """The name of an output, or its number.

    >>> name_of(("tip_x", "tip_y"), 1), name_of((), 1)
    ('tip_y', 'output 1')
    """
    return names[output] if names else f"output {output}"


def case_means(values: Array, mask: Array = None) -> Array:
    """Means over the outputs of each case that count, (case, 1, ...); 1 for a case with none.

    >>> case_means(np.array([[1.0, 2.0], [4.0, 6.0]]))
    array([[1.5],
           [5. ]])
    """
    xp, axes = namespace(values), tuple(range(1, values.ndim))
    if mask is None:
        return xp.mean(values, axis=axes, keepdims=True)
    count = xp.sum(xp.astype(mask, values.dtype), axis=axes, keepdims=True)
    sums = xp.sum(xp.where(mask, values, xp.zeros_like(values)), axis=axes, keepdims=True)
    return xp.where(count > 0, sums / xp.clip(count, 1, None), xp.ones_like(sums))
