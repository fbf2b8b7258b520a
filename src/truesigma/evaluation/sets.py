"""A set of cases, as every command takes it: in memory or in files, and possibly weighted like another.

What is given is `Cases`, a path, a folder of maps, a glob, a manifest, or a list of these, which is pooled to one set.
Files that fit into memory are read at once; larger ones, and those for an engine, in pieces, pass by pass.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import like, to_host
from ..core.cases import Cases, pool
from ..core.decompose import decompose
from ..core.errors import Refusal
from ..core.law import Law
from ..core.values import Draws, Prediction, changed
from ..core.varying import likelihood_of
from ..engine import Engine
from ..files.chunks import Chunk, chunks_of
from ..files.described import describe_file, describe_files, only_counted, without_code
from ..files.fileset import MOST, FileSet, flat, is_volume, open_fileset, read_whole
from ..files.find import is_small
from ..files.roles import Columns
from ..files.store import read
from ..recalibrate._shift import features_of
from ..recalibrate._shift import fit as fit_shift
from .recipe import Recipe, load_recipe

LOOKED_AT = 5_000_000  # elements that are looked at together
SAMPLE = 500_000  # elements that are drawn of more
MAP = 64  # outputs, beyond which they are of one kind
Given = Any  # Cases, a path, a glob, a manifest, a list of these, or a set that is open
Tick = Callable[[int], None]  # is called with how many more cases are done
Report = Callable[[str, int], Tick]  # from what is being done, and the number of cases, to a tick


@dataclass(frozen=True, eq=False)
class CaseSet:
    """A set of cases and what is known of it; `whole` holds cases in memory, `files` the others."""

    recipe: Recipe
    name: str  # as a warning calls it
    whole: Cases | None
    files: FileSet | None
    paths: tuple[Path, ...]  # of all files, also of those that are in memory now
    reading: Mapping[str, Any]  # how the files are read
    engine: Engine | None
    keep: str | Path | None
    report: Report | None
    left_out: int  # cases of files whose targets are all missing
    rows_named: bool  # whether the cases have their rows as ids, which are in no column
    law: Law
    outputs: tuple[int, ...] | None  # the shape of a case's; None where it differs from volume to volume
    of_volumes: bool  # whose shapes may differ
    elements: int
    cases: int  # with those of larger files whose targets are all missing
    unit: str
    names: tuple[str, ...]
    checkpoint: str
    sampling: str

    @property
    def predicted(self) -> list[Path]:
        """The files with predictions; many may share targets and masks."""
        if self.files is None:
            return list(self.paths)
        each = [one.files for one in self.files.sources]
        return [Path(one[""] if "" in one else one["location"]) for one in each]

    @property
    def fits(self) -> bool:
        """Whether all cases fit into memory together, with the outputs of each as they are."""
        return self.whole is not None or (self.outputs is not None and self.elements <= MOST)

    @cached_property
    def made(self) -> Prediction:
        """The prediction that the recipe makes of the cases in memory."""
        assert self.whole is not None
        return self.recipe.prediction(self.whole)

    def read(self, why: str = "this") -> Cases:
        """Read all cases into memory; if they do not fit, the error says `why` that is needed."""
        if self.whole is not None:
            return self.whole
        assert self.files is not None
        mask_missing, missing = self.reading["mask_missing"], self.reading["missing"]
        cases = read_whole(self.files, self.recipe.prediction, mask_missing=mask_missing, why=why)
        return without_code(cases, missing)

    def sample(self) -> Cases:
        """Draw at random what can be looked at together, if not all can be: cases, or elements of maps.

        A map stays a cluster: its elements become cases of one patient.
        """
        if self.fits and self.elements <= LOOKED_AT:
            return self.read()
        rng, share = np.random.default_rng(0), SAMPLE / self.elements if self.elements > LOOKED_AT else 1.0

        def parts() -> Iterator[Cases]:
            for number, chunk in enumerate(self._chunks()):
                cases = self.recipe.applied(without_code(chunk.cases, self.reading["missing"]))
                if chunk.of or math.prod(cases.target.shape[1:]) > MAP:
                    names = [chunk.of or f"{number} {k}" for k in range(len(cases))]
                    cases = flat(
                        cases if cases.patient is not None else changed(cases, patient=np.array(names))
                    )
                some = rng.random(len(cases)) < share
                if some.any():
                    yield cases[some]

        return changed(pool(parts()), unit=self.unit, names=self.names if self.outputs else ())

    def _chunks(self) -> Iterator[Chunk]:
        """All cases, a few at a time."""
        if self.whole is not None:
            yield Chunk(self.whole, len(self.whole))
            return
        assert self.files is not None
        how = {"law": likelihood_of(self.law), "mask_missing": self.reading["mask_missing"]}
        for source in self.files.sources:
            yield from chunks_of(source, **how)

    @property
    def given(self) -> Cases | None:
        """The cases in memory, without ids that only say their rows."""
        return replace(self.whole, id=None) if self.whole is not None and self.rows_named else self.whole

    def described(self) -> dict[str, Any]:
        """The files that the cases came from, as results describe them; nothing where they were given."""
        if self.files is not None:
            return describe_files(self.files)
        if self.given is None or not self.paths:
            return {}
        return describe_file(self.paths[0], self.given, **self.reading)


def open_set(
    given: Given,
    name: str = "cases",
    *,
    recipe: str | Recipe = "exact",
    law: Law | str | None = None,
    mask_missing: bool = False,
    missing: float | None = None,
    columns: Columns | None = None,
    engine: Engine | None = None,
    keep: str | Path | None = None,
    report: Report | None = None,
    name_rows: bool = False,
) -> CaseSet:
    """Open cases as one set; a set that is open already is returned as it is.

    Args:
        given: Cases, a path, a glob, a manifest, or a list of these, which is pooled.
        name: what an error calls the set.
        recipe: under which predictions are made of draws.
        law: "normal" or "laplace", for files that do not say it.
        mask_missing: leave out the elements whose target is missing.
        missing: the number that means a missing target, such as -999.
        columns: roles of columns with other names, as in `read`.
        engine: "local", "ray", the address of a Ray cluster, or options of `engine.ray.run`: files are then read in
            pieces there. None: what fits into memory is read at once, and the rest in pieces on this machine.
        keep: a folder for the sums of each file and pass; sums that are already there are not computed again.
        report: as for `evaluate`.
        name_rows: name the cases of a file that gives no id by their rows there, from 1; of a .npz, from 0.

    Example:
        >>> cases = Cases(Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0])
        >>> len(open_set([cases, cases]).read())
        4
    """
    if isinstance(given, CaseSet):
        return given
    chosen = load_recipe(recipe)
    reading = {"law": law, "mask_missing": mask_missing, "missing": missing, "columns": columns}
    held, named = _apart(given, name)
    files, paths, left_out, rows_named = None, [Path(one) for one in named], 0, False
    in_pieces = engine is not None or keep is not None
    if len(paths) == 1 and not in_pieces and is_small(paths[0]):
        single = read(paths[0], law=law, mask_missing=mask_missing, columns=columns)
        rows_named = name_rows and single.id is None
        single = _numbered(single, paths[0]) if rows_named else single
        held.append(only_counted(single, missing))
        left_out = len(single) - len(held[-1])
    elif paths:
        files = open_fileset(named, law=law, columns=columns)
        paths = list(files.paths)
        if held or (not in_pieces and files.elements <= MOST and files.outputs is not None):
            every = read_whole(files, chosen.prediction, mask_missing=mask_missing, why=name)
            held.append(only_counted(every, missing))
            left_out = len(every) - len(held[-1])
    more = f" and {len(paths) - 1} other files" if paths[1:] else ""
    whole = _together(held, name, chosen) if held else None
    about: Any = files if whole is None else whole
    texts = {name: getattr(about, name) for name in ("unit", "names", "checkpoint", "sampling")}
    if whole is None:
        size = {name: getattr(about, name) for name in ("law", "outputs", "elements", "cases")}
    else:
        law, shape = whole.prediction.law, tuple(whole.prediction.location.shape)
        size = {"law": law, "outputs": shape[1:], "elements": math.prod(shape), "cases": len(whole)}
    return CaseSet(
        recipe=chosen,
        name=f"{paths[0]}{more}" if paths else name,
        whole=whole,
        files=files,
        paths=tuple(paths),
        reading=reading,
        engine=engine,
        keep=keep,
        report=report,
        left_out=left_out,
        rows_named=rows_named,
        of_volumes=files is not None and is_volume(files.sources[0]),
        **size,
        **texts,
    )


def _numbered(cases: Cases, path: Path) -> Cases:
    """Name cases by where they are in their file: by case from 0 in a .npz, else by row from 1."""
    word, first = ("case", 0) if path.suffix.lower() == ".npz" else ("row", 1)
    return replace(cases, id=np.array([f"{word} {first + k}" for k in range(len(cases))]))


def _apart(given: Given, name: str) -> tuple[list[Cases], list[str | Path]]:
    """Separate cases in memory from files."""
    held: list[Cases] = []
    files: list[str | Path] = []
    for part in given if isinstance(given, list | tuple) else [given]:
        if isinstance(part, Cases):
            held.append(part)
        elif isinstance(part, str | Path):
            files.append(part)
        else:
            raise Refusal(
                f"{name} holds a {type(part).__name__}; expected Cases, predictions with their targets, or the path of "
                "a file of them. From draws: Cases(decompose(draws), target, draws=draws)."
            )
    if not held and not files:
        raise Refusal(f"{name} is empty; expected Cases, or the path of a file of cases.")
    return held, files


def _together(held: Sequence[Cases], name: str, recipe: Recipe) -> Cases:
    """Join sets of cases in memory, without their draws if there are several sets."""
    if len(held) == 1:
        return held[0]
    first = held[0]
    for other in held[1:]:
        pairs: dict[str, list[Any]] = {
            "outputs of shape": [tuple(one.target.shape[1:]) for one in (first, other)],
            "the law": [likelihood_of(one.prediction.law).to_dict() for one in (first, other)],
            "the unit": [one.unit or "(none)" for one in (first, other)],
        }
        for words, (expected, there) in pairs.items():
            if expected != there:
                raise Refusal(
                    f"{name}: some of the cases have {words} {expected}, others {there}; expected the same, as they "
                    "are pooled to one set."
                )
    return pool(map(recipe.applied, held))


def as_cases(value: Prediction | Draws | Cases) -> Cases:
    """Prepare cases for a recipe; a missing target is never looked at, and the location takes its place."""
    if isinstance(value, Cases):
        return value
    if isinstance(value, Prediction):
        return Cases(value, value.location)
    if not isinstance(value, Draws):
        raise ValueError(
            f"the card was given a {type(value).__name__}; expected Prediction(location, scale=sigma), "
            "Draws or Cases."
        )
    prediction = decompose(value)
    return Cases(prediction, prediction.location, draws=value)


def weighted_like(
    cases: Cases,
    new: Prediction | Draws | Cases,
    *,
    recipe: str | Recipe = "exact",
    features: tuple[Any, Any] | None = None,
) -> Cases:
    """Weight cases so that they look like new ones, by what is predicted for both; new targets are not used.

    Whatever is fitted on the result, or scored with it, is valid for the new site if cases that look alike err alike
    here and there. Without labels that cannot be checked.

    Args:
        cases: with targets; weights that they have are multiplied.
        new: predictions of the new site.
        recipe: "exact", "paper", "code", or the path of a TOML file.
        features: (case, feature) of both, to measure the shift by instead of prediction and log scale. Recalibrations
            that need the weight of a future case, such as conformal, cannot be fitted then.

    Returns:
        The cases with their weights; `.shift` says how many of them count, and how far apart the two sets are.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.concatenate([rng.normal(size=500), rng.normal(size=500) + 1])
        >>> p = Prediction(y, aleatoric=0 * y + 1)
        >>> found = weighted_like(Cases(p[:500], y[:500]), p[500:])
        >>> round(float(np.average(found.target, weights=found.weight)), 1), round(found.shift.effective, -1)
        (1.0, 200.0)

    Reference: Shimodaira, 2000; Tibshirani et al., "Conformal Prediction under Covariate Shift", 2019.
    """
    chosen = load_recipe(recipe)
    old, there = features or (features_of(chosen.prediction(one)) for one in (cases, as_cases(new)))
    shift, weight = fit_shift(old, there, patient=cases.cluster)
    given = cases.weight
    beside = np.ones(1) if given is None else to_host(given)
    product = weight.reshape(len(cases), *[1] * (beside.ndim - 1)) * beside
    return changed(cases, weight=like(product, cases.prediction.location), shift=None if features else shift)


def same_cases(cases: Cases, new: Prediction | Draws | Cases) -> bool:
    """Whether the cases are already those of the new site: their predictions are the new ones."""
    one, other = (to_host(as_cases(p).prediction.location) for p in (cases, new))
    return one.shape == other.shape and bool(np.array_equal(one, other))
