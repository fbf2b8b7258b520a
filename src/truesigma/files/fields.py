"""Fields: the named arrays in files, tables and frames, and the values that are made of them.

A prediction is `location` with one of `scale`; `variance` (the total); or `aleatoric` and `epistemic` (variances); and
perhaps `spread` and `mask`. Draws are `mean` and `variance`. Either may come with `target`, `weight`, `id`, `patient`,
`group` or several as `group:site` and `group:sex`, `law`, `unit`, and marks of its origin: `checkpoint`, the network
that made it; `sampling`, how it was drawn; `recalibration`, what was applied to it since.
"""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases
from ..core.checks import WrongValue
from ..core.decompose import decompose
from ..core.law import Law, Normal, law_from_dict, law_of_moment
from ..core.laws.quantiles import Quantiles, Stated
from ..core.laws.samples import Samples
from ..core.values import Draws, Prediction, changed
from .bounds import about, scale_of
from .spellings import law_columns

PARTS = ("scale", "variance", "aleatoric", "epistemic")
NUMBERS = ("target", "location", *PARTS, "spread", "weight")
LABELS = ("id", "group", "patient", "fold")
GROUP = "group:"  # and a name: one of several groups
MARKS = (
    "checkpoint",
    "sampling",
    "recalibration",
)  # where predictions come from; other uses of these names are left alone
NAMES = "output_names"  # as JSON; in tables they are in the names of the columns: `target_tip_x`
BOUNDED = "bounded"  # the law of a file whose columns state bounds
IN_COLUMNS = (Quantiles.name, Samples.name)  # laws whose numbers are columns
CONSTANTS = ("law", "unit", NAMES, *MARKS)
KNOWN = (*NUMBERS, "mean", "mask", *LABELS, *CONSTANTS)
EXPECTED = "expected target, location and scale, or aleatoric and epistemic (variances)"


def from_fields(
    fields: Mapping[str, Any],
    *,
    law: Law | str | None = None,
    mask_missing: bool = False,
    use_target: bool = True,
) -> Cases | Draws | Prediction:
    """Make a value of named arrays: Cases if there is a target, otherwise Draws or a Prediction.

    Args:
        fields: arrays by name, `law` and `unit` as text; unknown names are ignored.
        law: for a file that does not say it; one that differs from the file's is an error.
        mask_missing: leave out the elements whose target is NaN, instead of refusing them.
        use_target: False ignores a target, which may be unfinished.

    Example:
        >>> from_fields({"location": np.array([1.0]), "scale": np.array([0.1]), "target": np.array([1.1])})
        Cases(1 case, normal)
    """
    chosen = resolve_law(fields.get("law"), law)
    target = fields.get("target") if use_target else None
    mask = fields.get("mask")
    if target is not None:
        mask = _mask_missing(target, mask, mask_missing)
    draws = _draws(fields, mask, chosen) if "mean" in fields else None
    if draws is not None and target is None and "location" not in fields:
        return draws
    if draws is not None and "location" not in fields:
        prediction = decompose(draws)
    else:
        prediction = _prediction(fields, mask, chosen)
    if target is None:
        return prediction
    labels: dict[str, Any] = {name: fields.get(name) for name in ("patient", "fold", "weight", "id")}
    labels["group"] = groups_in(fields)
    texts = {name: str(fields.get(name, "")) for name in ("unit", "checkpoint", "sampling")}
    cases = Cases(prediction, target, draws=draws, names=output_names(fields), **labels, **texts)
    _warn_doubled(cases.id)
    return cases


def to_fields(value: Cases | Draws | Prediction) -> dict[str, Any]:
    """Turn a value into named arrays on the host, from which `from_fields` makes it again, bit for bit.

    >>> sorted(to_fields(Prediction([1.0], aleatoric=[0.25])))
    ['law', 'location', 'scale']
    """
    found: dict[str, Any] = {}
    if isinstance(value, Draws):
        return {**_draws_fields(value), "law": law_text(value.law)}
    prediction = value.prediction if isinstance(value, Cases) else value
    draws = value.draws if isinstance(value, Cases) else None
    if isinstance(value, Cases):
        found["target"] = to_host(value.target)
        found.update({name: getattr(value, name) for name in ("weight", "patient", "fold", "id")})
        several = isinstance(value.group, Mapping)
        found.update({f"{GROUP}{name}" if several else name: names for name, names in value.groups.items()})
        found.update({name: getattr(value, name) or None for name in ("unit", "checkpoint", "sampling")})
        found |= names_field(value.names)
    if draws is not None:
        found.update(_draws_fields(draws))
    if draws is None or not _is_decomposition(prediction, draws):
        if draws is not None and prediction.epistemic is None:
            raise ValueError(
                "these cases keep draws beside a prediction without the aleatoric/epistemic split, and a file cannot "
                "tell the two apart. Use decompose(draws) for the prediction, or leave the draws out."
            )
        found.update(_prediction_fields(prediction))
    found["mask"] = prediction.mask
    found["law"] = law_text(prediction.law)
    return {
        name: array if isinstance(array, str) else to_host(array)
        for name, array in found.items()
        if array is not None
    }


def is_field(name: str) -> bool:
    """Whether an array, or a column without its number, is read under that name.

    >>> is_field("target"), is_field("group:site"), is_field("age")
    (True, True, False)
    """
    return name in KNOWN or is_group(name)


def stem_of(name: str) -> str:
    """The field a column belongs to.

    >>> stem_of("target_12")
    'target'
    """
    return re.sub(r"_(0|[1-9][0-9]*)$", "", name)


def is_group(name: str) -> bool:
    """Whether an array or a column of that name is a group."""
    return name == "group" or name.startswith(GROUP)


def groups_in(fields: Mapping[str, Any]) -> Any:
    """The group of each case, or several groups by their names; None if there are none.

    >>> groups_in({"group:site": ["A"], "group:sex": ["f"]})
    {'site': ['A'], 'sex': ['f']}
    """
    found = {name.removeprefix(GROUP): fields[name] for name in fields if is_group(name)}
    return fields["group"] if list(found) == ["group"] and "group" in fields else found or None


def names_field(names: Sequence[str]) -> dict[str, str]:
    """The field of the outputs' names; nothing if they have none."""
    return {NAMES: json.dumps(list(names))} if names else {}


def output_names(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the outputs, () if they have none."""
    text = fields.get(NAMES) or "[]"
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list):
        raise ValueError(f"{NAMES} is {text!r:.80}; expected a list of names as JSON.")
    return tuple(map(str, names))


def resolve_law(stored: Any, given: Law | str | None) -> Law:
    """The law that a file names or a caller gives; Normal if neither does, an error if they differ.

    >>> resolve_law(None, "laplace")
    Laplace()
    """
    asked = law_from_dict(given) if isinstance(given, str) else given
    if stored is None or str(stored) == "":
        return Normal() if asked is None else asked
    text = str(stored)
    if text in IN_COLUMNS:
        return Normal()
    if BOUNDED in text:
        return law_of_moment(json.loads(text).get("moment") if text.startswith("{") else None)
    try:
        kept = law_from_dict(json.loads(text) if text.startswith("{") else text)
    except (TypeError, json.JSONDecodeError) as problem:
        raise ValueError(
            f"the law {text[:40]!r} cannot be read: {problem}; expected normal, laplace, or a law's to_dict() as JSON."
        ) from problem
    if asked is not None and asked.to_dict() != kept.to_dict():
        raise ValueError(
            f"law {asked.name!r} was asked for, but the data says {kept.name!r}; leave the law out, or change the data."
        )
    return kept


def law_text(law: Law) -> str:
    """The law's name if that is enough, otherwise its description as JSON.

    >>> law_text(Normal())
    'normal'
    """
    if isinstance(law, Stated):  # whose bounds are columns
        usual = {"unit": 1.0, "moment": 2}
        other = {name: getattr(law, name) for name in usual if getattr(law, name) != usual[name]}
        return json.dumps({"name": BOUNDED, **other}) if other else BOUNDED
    described = law.to_dict()
    return (
        law.name
        if set(described) == {"name"} or law.name in IN_COLUMNS
        else json.dumps(described, allow_nan=False)
    )


def _mask_missing(target: Host, mask: Any, allowed: bool) -> Any:
    """The mask without the missing targets; a mask that does not fit is left for the constructors to refuse."""
    if target.dtype.kind != "f":
        return mask
    missing = np.isnan(target)
    counts = _widened(mask, target.shape)
    counted = missing if counts is None else missing & counts
    if not counted.any():
        return mask
    if not allowed:
        first = tuple(int(i) for i in np.argwhere(counted)[0])
        raise WrongValue(
            f"target is missing in {int(counted.sum())} of {target.size} places, the first at index {first} (from 0). "
            "Leave them out with mask_missing=True (--missing empty on the command line).",
            first[0],
        )
    if missing.all():
        raise ValueError("target is missing everywhere; expected at least one value.")
    return mask if mask is not None and counts is None else ~missing if counts is None else counts & ~missing


def _widened(mask: Any, shape: tuple[int, ...]) -> Any:
    """Widen the mask to a shape; None if there is no mask, or it does not fit."""
    if mask is None or np.asarray(mask).dtype != bool:
        return None
    mask = np.asarray(mask)
    if mask.ndim > len(shape):  # one number for all outputs counts if any of them does
        mask = mask.any(axis=tuple(range(len(shape), mask.ndim)))
    mask = mask.reshape(mask.shape + (1,) * (len(shape) - mask.ndim))
    fits = all(a in (1, b) for a, b in zip(mask.shape, shape))
    return np.broadcast_to(mask, shape) if fits else None


def _draws(fields: Mapping[str, Any], mask: Any, law: Law) -> Draws:
    if "variance" not in fields:
        raise ValueError(
            "mean is given without variance; draws need both, with the axes (draw, case, output...)."
        )
    return Draws(fields["mean"], fields["variance"], mask=mask, law=law)


def _prediction(fields: Mapping[str, Any], mask: Any, law: Law) -> Prediction:
    """Make a prediction of the form that is given; if there are several forms, they must agree."""
    bounds = fields.get("bounds")
    if isinstance(bounds, Quantiles | Samples):
        return _of_law(bounds, fields.get("location"), mask)
    if "location" not in fields:
        raise ValueError(f"location is missing; {EXPECTED}.")
    forms: list[dict[str, Any]] = []
    halves = {name: fields[name] for name in ("aleatoric", "epistemic") if name in fields}
    if len(halves) == 1:
        (one,) = halves
        raise ValueError(
            f"{one} is given without {'epistemic' if one == 'aleatoric' else 'aleatoric'}; give both (variances, 0 is "
            "allowed), or scale alone if the split is unknown."
        )
    if halves:
        forms.append(halves)
    if "variance" in fields and "mean" not in fields:
        forms.append({"aleatoric": fields["variance"]})
    if "scale" in fields:
        forms.append({"scale": fields["scale"]})
    if bounds is not None and not forms:
        forms.append({"scale": scale_of(bounds, law)})
    if not forms:
        raise ValueError(f"location is given without an uncertainty; {EXPECTED}.")
    rest = {"law": law, "spread": fields.get("spread"), "mask": mask}
    made = [Prediction(fields["location"], **form, **rest) for form in forms]
    for other_form in made[1:]:
        close = np.isclose(other_form.total, made[0].total, rtol=1e-5, atol=0)
        if not (close if made[0].mask is None else close | ~made[0].mask).all():
            raise ValueError(
                "scale (or variance) and aleatoric + epistemic are both given and do not agree; expected "
                f"scale^2 * {law.unit:g} = aleatoric + epistemic (variances) for the {law.name} law. Leave one out."
            )
    if bounds is None:
        return made[0]
    return changed(made[0], law=about(bounds, made[0].location, made[0].scale, law))


def _of_law(law: Quantiles | Samples, location: Any, mask: Any) -> Prediction:
    """Make a prediction of quantiles or samples in columns; beside quantiles the location may be given."""
    if isinstance(law, Samples):
        if location is not None:
            raise ValueError(
                "location is given beside samples, whose mean it is; leave it out (columns={'location': None}, or "
                "--column location=none)."
            )
        return Prediction.from_samples(law.values, axis=-1, mask=mask)
    made = Prediction.from_quantiles(dict(zip(law.probability, np.moveaxis(law.values, -1, 0))), mask=mask)
    if location is None:
        return made
    shift = np.nan_to_num((made.location - location) / made.scale)
    about_it = made.law.each(lambda values: values + shift[..., None])  # type: ignore[attr-defined]
    return Prediction(location, aleatoric=made.total, law=about_it, mask=mask)


def _prediction_fields(prediction: Prediction) -> dict[str, Any]:
    columns = law_arrays(prediction)
    if isinstance(prediction.law, Samples):  # whose mean and sd are theirs
        return columns
    found = {"location": to_host(prediction.location), **columns}
    if isinstance(prediction.law, Quantiles):
        return found
    if prediction.epistemic is not None:
        found["aleatoric"], found["epistemic"] = to_host(prediction.aleatoric), to_host(prediction.epistemic)
    else:
        # The scale is what people read; but only a variance that is a square comes back from it bit for bit.
        total, scale = to_host(prediction.total), to_host(prediction.scale)
        exact = np.array_equal(scale * scale * prediction.law.unit, total, equal_nan=True)
        found["scale" if exact else "variance"] = scale if exact else total
    if prediction.spread is not None:
        spread = to_host(prediction.spread)
        if "epistemic" not in found or not np.array_equal(spread, found["epistemic"], equal_nan=True):
            found["spread"] = spread
    return found


def law_arrays(prediction: Prediction) -> dict[str, Any]:
    """Quantiles, samples or bounds by the names of their columns; nothing for other laws."""
    location, scale = to_host(prediction.location), to_host(prediction.scale)
    return {name: location + scale * z for name, z in law_columns(prediction.law).items()}


def _draws_fields(draws: Draws) -> dict[str, Any]:
    found = {"mean": to_host(draws.mean), "variance": to_host(draws.variance)}
    return found if draws.mask is None else {**found, "mask": to_host(draws.mask)}


def _is_decomposition(prediction: Prediction, draws: Draws) -> bool:
    """Whether reading the draws alone gives this prediction back."""
    arrays = {name: None if a is None else to_host(a) for name, a in vars(draws).items() if name != "law"}
    again = decompose(Draws(**arrays, law=draws.law))
    if prediction.epistemic is None or prediction.law.to_dict() != again.law.to_dict():
        return False
    pairs = [
        (getattr(prediction, n), getattr(again, n)) for n in ("location", "aleatoric", "epistemic", "spread")
    ]
    return all(b is None or np.array_equal(to_host(a), b, equal_nan=True) for a, b in pairs if a is not None)


def _warn_doubled(names: Any) -> None:
    if names is None or len(set(np.asarray(names).tolist())) == len(names):
        return
    found, count = np.unique(np.asarray(names), return_counts=True)
    warnings.warn(
        f"{int((count > 1).sum())} id(s) appear more than once, the first is {found[count > 1][0]!s}; each row is "
        "taken as a case of its own. Name the patient in a column `patient` if cases belong together.",
        stacklevel=4,
    )
