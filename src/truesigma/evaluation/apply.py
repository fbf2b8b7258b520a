"""Apply a card to a file of predictions: its uncertainty recalibrated, interval bounds added, the rest as it was."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import to_host
from ..core.law import Law, too_few_for
from ..core.laws.quantiles import Quantiles, Stated
from ..core.laws.samples import Samples
from ..core.recalibration import JointRegion, Recalibration
from ..core.values import Draws, Prediction, changed, raw_spread
from ..core.varying import Around, beside, laws_of
from ..files.columns import ORDER, case_table, columns_of, field_columns
from ..files.disk import BadFile, check_folder
from ..files.fields import (
    LABELS,
    MARKS,
    NAMES,
    from_fields,
    groups_in,
    is_group,
    law_arrays,
    law_text,
    output_names,
    stem_of,
    to_fields,
)
from ..files.npz import list_members, open_members, read_members
from ..files.parquet import with_texts, write_parquet
from ..files.roles import Columns, chosen_of, named, renamed, with_names
from ..files.spellings import ALL, column_of
from ..files.store import check_suffix, law_cell, names_in, read_fields, refusal, write_fields
from ..files.tables import FORMULAS, read_csv, write_csv
from .card import Card, check_network
from .sets import as_cases

if TYPE_CHECKING:
    import pyarrow as pa

USUAL = (0.9,)  # levels that are written by default
UNTOUCHED = "none"  # in the column `recalibration`: what `predict` writes if no card was applied


def apply_file(
    card: Card,
    source: str | Path,
    out: str | Path,
    *,
    levels: Sequence[float] | None = None,
    law: Law | str | None = None,
    columns: Columns | None = None,
    checkpoint: str = "",
) -> Prediction:
    """Recalibrate the predictions of a file and write them to another.

    Existing columns `scale`, `variance`, `aleatoric` and `epistemic`, quantiles and samples get the recalibrated
    values, and every other column stays as it is; from .csv to .csv so do separator and decimal commas. `lower_90` and
    `upper_90` (and so on for each level; `lower_90_0` for output 0 of several) are added; of quantiles those of the
    level, unless they are there. A card with a referral adds `refer`, true for cases to hand to a person. Bounds that
    `predict` wrote without a card are replaced. No target is needed. A file of draws becomes a file of predictions. If
    `epistemic` changes, its raw value is kept as `spread`.

    Args:
        card: from `calibrate` or `read_card`.
        source: .npz, .csv or .parquet.
        out: .npz, .csv or .parquet, not necessarily the same kind.
        levels: of the intervals; None: 0.9, or those that bounds are stated at.
        law: of predictions that do not say it; the card's unless given.
        columns: roles of columns with other names, as in `read`, in place of those that the card was fitted with; in a
            table they keep their names.
        checkpoint: the mark of the network that made the predictions, if they no longer say it.

    Returns:
        The recalibrated prediction.
    """
    source, target = Path(source), check_folder(out)
    suffixes = {check_suffix(source), check_suffix(target)}
    columns = {**_columns_of(card, source), **(columns or {})}
    fields = read_fields(source, columns)
    _refuse_twice(str(fields.get("recalibration", UNTOUCHED)), source)
    try:
        stated = law if law is not None or fields.get("law") else card.law
        value = from_fields(fields, law=stated, use_target=False)
        assert isinstance(value, Draws | Prediction)
        _check_unit(card, source, str(fields.get("unit", "")))
        check_network(card, str(fields.get("checkpoint", "")) or checkpoint)
        made = card(value, group=groups_in(fields))
        card.doubt(replace(as_cases(value), patient=fields.get("patient"), group=groups_in(fields)))
        made = _as_written(made, levels)
        bounds = {**interval_fields(made, levels, card.recalibration), **refer_fields(card, value)}
    except ValueError as problem:
        raise refusal(str(source), fields, problem) from problem
    # Columns of quantiles or samples that are no longer what is predicted.
    whole = isinstance(fields.get("bounds"), Quantiles | Samples) and not _in_columns(fields, made)
    if ".npz" not in suffixes and not whole:
        to_csv = check_suffix(target) == ".csv"
        law_said = law_cell(target, law_text(made.law)) if to_csv else law_text(made.law)
        table = _edited(source, fields, made, bounds, card, law_said, columns, to_csv=to_csv)
        if to_csv:
            write_csv(table, target, like=source if check_suffix(source) == ".csv" else None)
        else:
            write_parquet(table, target)
        return made
    kept = {
        k: v
        for k, v in fields.items()
        if k in ("target", "weight", *LABELS, "unit", NAMES, *MARKS) or is_group(k)
    }
    kept |= _recalibrated(fields, made, card)
    others = _other_columns(source, fields, columns)
    others = {k: v for k, v in others.items() if not _is_own_bound(k, fields)}
    _refuse_doubled(bounds, others, source)
    written = to_fields(made)
    if "scale" in fields:  # the source's own word for it, as in a table
        written.pop("variance", None)
        written["scale"] = to_host(made.scale)
    write_fields({**kept, **written, **bounds, **others}, target)
    return made


def _columns_of(card: Card, source: Path) -> Columns:
    """The columns that the card was fitted with, as far as a file has them and none of their role's own name."""
    said = {role: chosen_of(chosen) for role, chosen in dict(card.data.get("columns", {})).items()}
    names = names_in(source) if said else []
    roles = {stem_of(name) for name in names}
    own = {role for role in roles if said.get(role)}
    return {role: chosen for role, chosen in said.items() if role not in own and set(chosen) <= set(names)}


def _as_written(made: Prediction, levels: Sequence[float] | None) -> Prediction:
    """Quantiles and bounds that differ by case, at the levels at which a file stores them."""
    if isinstance(made.law, Quantiles):
        return changed(made, law=made.law.also_at(levels or ()))
    if not isinstance(made.law, Around):
        return made
    rising, shape = tuple(sorted(set(levels or USUAL))), made.location.shape
    ends = zip(*(made.law.central(level) for level in rising))
    low, high = (
        np.stack([np.broadcast_to(beside(one, made.location), shape) for one in end], axis=-1) for end in ends
    )
    return changed(made, law=Stated(rising, low, high, None, made.law.unit, made.law.moment))


def _check_unit(card: Card, source: Path, unit: str) -> None:
    """Refuse a unit other than the card's: aux scaling has learned the size of variances in that unit."""
    if bool(card.unit) != bool(unit):
        fitted = f"the card, fitted on {card.data.get('file', 'other cases')},"
        first, second = (f"{source}", fitted) if unit else (fitted, f"{source}")
        warnings.warn(
            f"{first} is in {unit or card.unit}, and {second} does not say its unit; it is taken to be the same.",
            stacklevel=3,
        )
    if card.unit and unit and unit != card.unit:
        raise ValueError(
            f"the predictions are in {unit}, the card was fitted in {card.unit}; expected the same. Give them in "
            f"{card.unit}, or fit a card in {unit}."
        )


def interval_fields(
    prediction: Prediction, levels: Sequence[float] | None, recalibration: Recalibration | None = None
) -> dict[str, Any]:
    """Bounds of the central intervals by column name; for a joint region its volume, too; of quantiles nothing.

    >>> sorted(interval_fields(Prediction([0.0], aleatoric=[1.0]), [0.9, 0.995]))
    ['lower_90', 'lower_99.5', 'upper_90', 'upper_99.5']
    """
    fields: dict[str, Any] = {}
    if isinstance(prediction.law, Quantiles):  # which are columns themselves
        return fields
    region = recalibration if isinstance(recalibration, JointRegion) else None
    stated = prediction.law if isinstance(prediction.law, Stated) else None
    usual = USUAL if stated is None else stated.levels
    for level in usual if levels is None else levels:
        lower, upper = bound_names(level)
        if region is None:
            known = {too_few_for(law, level) for law, _ in laws_of(prediction.law, len(prediction))}
            interval = prediction.interval(level)
        else:
            known, interval = {region.too_few_for(level)}, region.extent(prediction, level=level)
            fields[lower.replace("lower", "volume")] = region.volume(prediction, level=level)
        for words in known - {None}:
            warnings.warn(str(words), stacklevel=2)
        fields[lower], fields[upper] = to_host(interval.lower), to_host(interval.upper)
        if stated is not None and (crossed := stated.crossed(level)):
            warnings.warn(
                f"{crossed} of {fields[lower].size} intervals of {level:g} are empty, their ends have crossed: they "
                "promise nothing less, and are written as empty cells.",
                stacklevel=2,
            )
            empty = fields[lower] > fields[upper]
            fields[lower], fields[upper] = (np.where(empty, np.nan, fields[name]) for name in (lower, upper))
    return fields


def refer_fields(card: Card, value: Prediction | Draws) -> dict[str, Any]:
    """The column that says which cases to refer, from predictions as the model gave them; empty without a referral."""
    if card.refer is not None and card.refer.threshold is None:
        warnings.warn(card.refer.words, stacklevel=2)
    referred = card.referred(value)
    return {} if referred is None else {"refer": referred}


def bound_names(level: float) -> tuple[str, str]:
    """Name the bounds of an interval, as in tables and exported models.

    >>> bound_names(0.9)
    ('lower_90', 'upper_90')
    """
    return f"lower_{100 * level:.10g}", f"upper_{100 * level:.10g}"


def _edited(
    source: Path,
    fields: Mapping[str, Any],
    made: Prediction,
    bounds: Mapping[str, Any],
    card: Card,
    law: str,
    columns: Columns | None,
    *,
    to_csv: bool,
) -> "pa.Table":
    """Replace the columns of uncertainty in the source; from .csv to .csv the other cells stay as written."""
    table = _read_again(source, text=to_csv)
    own = dict(zip(renamed(table.column_names, columns), table.column_names))
    table = with_names(table, list(own))
    if _in_columns(fields, made):
        table = _with_law(table, made)
    else:
        table = table.drop_columns([name for name in table.column_names if _is_own_bound(name, fields)])
    _refuse_doubled(bounds, table.column_names, source)
    values = {"location": made.location, "scale": made.scale, "variance": made.total}
    values.update(aleatoric=made.aleatoric, epistemic=made.epistemic)
    if made.epistemic is None and "epistemic" in fields:  # a recalibration of the total alone
        for name in (
            *columns_of("aleatoric", table.column_names),
            *columns_of("epistemic", table.column_names),
        ):
            table = table.drop_columns([name])
        table = _append(table, field_columns("variance", to_host(made.total)))
    for stem, new in values.items():
        names = columns_of(stem, table.column_names)
        if names and not (stem == "location" and np.array_equal(new, fields[stem], equal_nan=True)):
            table = _replaced(table, stem, names, to_host(new))
    raw = raw_spread(made)
    if "epistemic" in fields and "spread" not in fields and not np.array_equal(raw, made.epistemic):
        table = _append(table, field_columns("spread", to_host(raw)))
    for stem, bound in bounds.items():
        table = _append(table, field_columns(stem, bound))
    table = _with_constants(table, {**fields, **_recalibrated(fields, made, card)}, law, to_csv)
    kept = [own.get(name, name) for name in table.column_names]
    return with_names(table, named(kept, output_names(fields)))


def _in_columns(fields: Mapping[str, Any], made: Prediction) -> bool:
    """Whether what is predicted are the quantiles or samples of columns, with other numbers."""
    return isinstance(made.law, Quantiles | Samples) and type(made.law) is type(fields.get("bounds"))


def _with_law(table: "pa.Table", made: Prediction) -> "pa.Table":
    """The table with quantiles or samples in their columns, whatever these are called, and new ones behind."""
    new = {
        parsed[1]: (name, array) for name, array in law_arrays(made).items() if (parsed := column_of(name))
    }
    seen = set()
    for k, name in enumerate(table.column_names):
        kind, key, output = column_of(name) or ("", None, ALL)
        if kind == made.law.name and key in new:
            column = new[key][1] if output == ALL else new[key][1][:, output]
            table = table.set_column(k, name, field_columns(name, column)[name])
            seen.add(key)
    for key in new.keys() - seen:
        table = _append(table, field_columns(*new[key]))
    return table


def _replaced(table: "pa.Table", stem: str, names: list[str], new: Any) -> "pa.Table":
    """Keep one column for all outputs if the outputs still agree."""
    if names == [stem] and new.ndim > 1 and np.array_equal(new, new[:, :1] + 0 * new, equal_nan=True):
        new = new[:, 0]
    columns = field_columns(stem, new)
    place = table.column_names.index(names[0])
    if list(columns) == names:
        for name, column in columns.items():
            table = table.set_column(table.column_names.index(name), name, column)
        return table
    table = table.drop_columns(names)
    for offset, (name, column) in enumerate(columns.items()):
        table = table.add_column(place + offset, name, column)
    return table


def _with_constants(table: "pa.Table", fields: Mapping[str, Any], law: str, to_csv: bool) -> "pa.Table":
    """The table with its unit, and its law unless that is the default; a .csv has them as columns."""
    import pyarrow as pa

    if law != fields.get("law", "normal") and "law" in table.column_names:
        table = table.drop_columns(["law"])
    said = {"law": law, "unit": fields.get("unit", "")}
    said |= {name: fields[name] for name in MARKS if name in fields}
    if "recalibration" in fields and "recalibration" in table.column_names:
        table = table.drop_columns(["recalibration"])
    if to_csv:
        for name, text in said.items():
            if text not in ("", "normal") and name not in table.column_names:
                # What is added is never a formula; what was there stays as it was.
                text = f"'{text}" if text.startswith(FORMULAS) else text
                table = table.append_column(name, pa.array([text] * table.num_rows))
        return table
    return with_texts(table, said)


def _read_again(source: Path, *, text: bool = False) -> "pa.Table":
    """Read the table of a file, without the warnings that were given when its fields were read."""
    with warnings.catch_warnings(action="ignore"):
        return read_csv(source) if text and check_suffix(source) == ".csv" else case_table(source)


def _append(table: "pa.Table", columns: Mapping[str, Any]) -> "pa.Table":
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _other_columns(source: Path, fields: Mapping[str, Any], columns: Columns | None) -> dict[str, Any]:
    """Read the other columns of a file as arrays; cells that numpy has no type for become text."""
    if check_suffix(source) == ".npz":
        names = list(list_members(source))
        beside = [name for name, role in zip(names, renamed(names, columns)) if role not in fields]
        return read_members(source, list(open_members(source, beside).values()))
    table = _read_again(source)
    own = dict(zip(renamed(table.column_names, columns), table.column_names))
    table = with_names(table, list(own))
    taken = {name for stem in fields if stem in ORDER for name in columns_of(stem, table.column_names)}
    taken |= {name for name in fields if is_group(name)}
    others = {}
    for name in table.column_names:
        if name not in taken:
            cells = table.column(name).to_pylist()
            array = np.asarray(cells)
            plain = not array.dtype.hasobject
            others[own[name]] = array if plain else np.asarray(["" if c is None else str(c) for c in cells])
    return others


def _refuse_twice(recalibration: str, source: Path) -> None:
    if recalibration != UNTOUCHED:
        raise BadFile(
            f"{source} was recalibrated before, by {recalibration}; twice would scale it twice. Give the predictions "
            "as they came from the model."
        )


def _recalibrated(fields: Mapping[str, Any], made: Prediction, card: Card) -> dict[str, str]:
    """The new value of the column that says whether a file was recalibrated; bounds beside a scale say so, too."""
    said = "recalibration" in fields or isinstance(made.law, Quantiles)
    return {"recalibration": card.recalibration.to_dict()["name"]} if said else {}


def _is_own_bound(name: str, fields: Mapping[str, Any]) -> bool:
    """Whether a column has the network's own bounds, which the recalibrated ones replace."""
    own = fields.get("recalibration") == UNTOUCHED or "bounds" in fields
    return own and column_of(name) is not None


def _refuse_doubled(
    bounds: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any], source: Path
) -> None:
    for stem in bounds:
        if stem in names or f"{stem}_0" in names:
            raise BadFile(
                f"{source} already has {stem!r}: was a card applied to it before? Twice would scale it twice. Give the "
                "predictions as they came from the model, or remove those columns."
            )
