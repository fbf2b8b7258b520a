"""Write predictions: cases of a split with their draws, and tables of new images with their intervals."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.cases import Cases
from ...core.recalibration import Across
from ...core.values import Draws, Prediction
from ...evaluation.apply import interval_fields, refer_fields
from ...evaluation.card import Card
from ...files.fields import law_text, names_field, to_fields
from ...files.spellings import law_columns
from ...files.store import check_suffix, write_fields
from ..data.dataset import Split
from ..data.units import SCALED, Units
from ..sampling.moments import MonteCarloError


def recalibrated(card: Card, scaled: Draws | Prediction, units: Units) -> Prediction:
    """Apply a card to what a network gave, and return it in the target's unit.

    A card fitted on scaled predictions is applied to scaled ones: not every recalibration is the same in other units.

    Args:
        card: fitted on this network's predictions.
        scaled: what the network gave.
        units: of its targets.
    """
    if card.unit == SCALED:
        return units.prediction(card(scaled))
    return card(in_cards_unit(card, scaled, units))


def referred(card: Card, scaled: Draws | Prediction, units: Units) -> dict[str, Any]:
    """Make the column `refer` for a network's predictions, if the card has a referral."""
    return refer_fields(card, in_cards_unit(card, scaled, units))


def in_cards_unit(card: Card, scaled: Draws | Prediction, units: Units) -> Draws | Prediction:
    """Convert a network's output to the unit that the card was fitted in."""
    if card.unit == SCALED:
        return scaled
    if card.unit not in ("", units.text):
        raise ValueError(
            f"the card was fitted on predictions in {card.unit}, this network predicts in {units.text or 'no unit'}; "
            "fit it on this network's predictions"
        )
    if card.unit != units.text:
        warnings.warn(f"the card does not say its unit; it is taken to be {units.text}.", stacklevel=2)
    return units.convert(scaled)


def needs_draws(card: Card) -> bool:
    """Whether the card decomposes the draws in another way than `dropout_moments`: by its recipe, or by fold."""
    if isinstance(card.recalibration, Across):
        return True
    choice = card.recipe.tables["decompose"]
    plain = {"aleatoric": "arithmetic", "ddof": 0, "clamp": False}
    return any(choice.get(name, value) != value for name, value in plain.items())


def write_split(
    value: Cases | Draws | Prediction,
    split: Split,
    units: Units,
    scaled: bool,
    out: Path,
    marks: Mapping[str, str] | None = None,
    error: MonteCarloError | None = None,
) -> None:
    """Write what `predict_split` returned; names and groups even if there are no targets.

    marks: where it comes from: `checkpoint` and `sampling`. error: of the draws, as the network sees its targets.
    """
    more = {**error_fields(error, None if scaled else units), **(marks or {})}
    if isinstance(value, Cases):
        return write_fields({**to_fields(value), **more}, out)
    labels: dict[str, Any] = {"id": np.asarray(split.name), **more}
    for label in ("group", "patient"):
        if getattr(split, label) is not None:
            labels[label] = np.asarray(getattr(split, label))
    labels["unit"] = SCALED if scaled else units.text
    return write_fields({**to_fields(value), **labels, **names_field(units.names)}, out)


def error_fields(error: MonteCarloError | None, units: Units | None) -> dict[str, Any]:
    """The Monte-Carlo error by the names of its columns; none for a single draw. units: None leaves it scaled."""
    if error is None or np.isnan(error.location).any():
        return {}
    location = (
        error.location if units is None else (units.factor * error.location).astype(error.location.dtype)
    )
    return {"location_mc_error": location, "scale_mc_error_relative": error.relative_scale}


def names_of(files: Sequence[Path]) -> dict[str, Any]:
    """Label images by their file names or, if two are the same, by their paths from the common folder.

    >>> names_of([Path("scans/a/1.png"), Path("scans/b/1.png")])["id"].tolist()
    ['a/1.png', 'b/1.png']
    """
    names = [path.name for path in files]
    if len(set(names)) < len(names):
        top = os.path.commonpath([path.absolute().parent for path in files])
        names = [path.absolute().relative_to(top).as_posix() for path in files]
    return {"id": np.asarray(names)}


def write_predictions(
    labels: Mapping[str, Any],
    prediction: Prediction,
    units: Units,
    levels: Sequence[float],
    out: Path,
    marks: Mapping[str, Any] | None = None,
    error: MonteCarloError | None = None,
) -> None:
    """Write labels (id, group, patient, target), location, variances, scale and bounds, all in the target's unit.

    A single output has plain columns (`location`), several have their names (`location_age`), or numbers. marks, error:
    as for `write_split`; `recalibration` says which card was applied, or none, and `refer` which cases to refer.
    """
    shape = law_columns(prediction.law)  # such as quantiles
    found: dict[str, Any] = {
        **labels,
        "location": prediction.location,
        **{name: prediction.location + prediction.scale * z for name, z in shape.items()},
        "aleatoric": None if prediction.epistemic is None else prediction.aleatoric,
        "epistemic": prediction.epistemic,  # None where the parts of the variance are not known
        "scale": prediction.scale,
        "law": law_text(prediction.law),
        "unit": units.text,
        **names_field(units.names),
        **(marks or {}),
        **interval_fields(prediction, levels),
        **error_fields(error, units),
    }
    one = len(units.unit) == 1
    for name, values in found.items():
        if isinstance(values, np.ndarray) and one and values.ndim == 2:
            found[name] = values[:, 0]
    fields = {name: values for name, values in found.items() if values is not None}
    if check_suffix(out) == ".csv":
        fields = {name: _short(values) for name, values in fields.items()}
    write_fields(fields, out)


def _short(values: Any) -> Any:
    """Convert single precision to the double that prints as briefly: 0.1 instead of 0.10000000149011612."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        return values
    return values.astype(str).astype(np.float64)
