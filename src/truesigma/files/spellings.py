"""Columns of quantiles, samples and bounds, in the spellings of people; what could be read in two ways is refused.

| columns | read as |
| --- | --- |
| `q_0.05`, `q0.05`, `quantile_0.05`, `0.05` | the quantile at that probability |
| `q05`, `q95`, `q97.5`, `p10`, `p2.5`, `model-q-10` | the quantile at so many per cent |
| `model-lo-90`, `model-hi-90` | the quantiles that are the ends of the central interval of 90 % |
| `lower_90`, `upper_90` | the ends of an interval of 90 %, of which nothing else is known |
| `sample_0`, `sample_1`, ... | samples |
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..core.arrays import Host
from ..core.law import Law
from ..core.laws.quantiles import Quantiles, Stated
from ..core.laws.samples import Samples
from .disk import BadFile

ALL = -1  # the output of a column, or an array, that has no number of one
NUMBER = r"(\d+|\d*\.\d+)"
FORMS = {
    "probability": r"(0?\.\d+)",
    "q": rf"(?:q|quantile)_?{NUMBER}",
    "p": rf"(?:p|percentile)_?{NUMBER}",
    "percent": rf".+-q-{NUMBER}",
    "lo": rf".+-lo-{NUMBER}",
    "hi": rf".+-hi-{NUMBER}",
    "lower": rf"lower_{NUMBER}",
    "upper": rf"upper_{NUMBER}",
    "sample": r"sample_(\d+)",
}
OUTPUT = r"(?:_(0|[1-9]\d*))?"
PATTERNS = {form: re.compile(pattern + OUTPUT, re.IGNORECASE) for form, pattern in FORMS.items()}
EXAMPLE = {
    "bounds": "lower_90 and upper_90",
    "quantiles": "q_0.05, q_0.95",
    "samples": "sample_0, sample_1, ...",
}
KINDS = {"lower": "bounds", "upper": "bounds", "sample": "samples"}  # all others are quantiles


def column_of(name: str) -> tuple[str, float | None, int] | None:
    """The kind of a column, its probability (of samples the number), and its output; None for other columns.

    There is no probability where it could be read in two ways.

    >>> column_of("m-hi-90"), column_of("q_0.5_1"), column_of("q025"), column_of("age")
    (('quantiles', 0.95, -1), ('quantiles', 0.5, 1), ('quantiles', None, -1), None)
    """
    for form, pattern in PATTERNS.items():
        if match := pattern.fullmatch(name):
            number, output = match.groups()
            return KINDS.get(form, "quantiles"), _key(form, number), ALL if output is None else int(output)
    return None


def _key(form: str, number: str) -> float | None:
    value, decimal = float(number), "." in number
    if form in ("lo", "lower"):
        return round((1 - value / 100) / 2, 10)
    if form in ("hi", "upper"):
        return round((1 + value / 100) / 2, 10)
    if form in ("probability", "sample") or (form == "q" and decimal and value < 1):
        return value
    two_ways = (form == "p" and decimal and value < 1) or (form == "q" and not decimal and len(number) != 2)
    return None if two_ways else round(value / 100, 10)


def law_columns(law: Law) -> dict[str, Host]:
    """What of a law has columns: quantiles, samples or bounds of z by their names, (case, output...).

    >>> sorted(law_columns(Quantiles((0.05, 0.5), np.array([[-1.6, 0.0]]))))
    ['q_0.05', 'q_0.5']
    """
    if isinstance(law, Quantiles):
        return {f"q_{f'{p:.10f}'.rstrip('0')}": law.values[..., k] for k, p in enumerate(law.probability)}
    if isinstance(law, Samples):
        return {f"sample_{k}": law.values[..., k] for k in range(law.values.shape[-1])}
    if isinstance(law, Stated):
        return {
            f"{name}_{100 * level:.10g}": end[..., k]
            for k, level in enumerate(law.levels)
            for name, end in (("lower", law.low), ("upper", law.high))
        }
    return {}


def law_in(
    names: Sequence[str], column: Callable[[str], Host], said: str = ""
) -> Quantiles | Samples | Stated | None:
    """Read the quantiles, samples or bounds of a table, as they are, (case, output..., quantile); None if it has none.

    `said` is the law that the table names: where it is one of these, columns of the others are not read.

    >>> columns = {"q05": np.array([1.0]), "q95": np.array([3.0])}
    >>> law_in(list(columns), columns.__getitem__).values
    array([[1., 3.]])
    """
    found: dict[str, dict[float, dict[int, str]]] = {"bounds": {}, "quantiles": {}, "samples": {}}
    unclear = []
    for name in names:
        kind, key, output = column_of(name) or ("", None, ALL)
        if kind and key is None:
            unclear.append(name)
        elif kind and key is not None:
            outputs = found[kind].setdefault(key, {})
            if output in outputs:
                raise BadFile(
                    f"columns {outputs[output]!r} and {name!r} are both the quantile at {key:g}; expected one. "
                    "Remove the other."
                )
            outputs[output] = name
    several = [kind for kind, columns in found.items() if len(columns) > (kind != "bounds")]
    if said in found:
        if said not in several:
            raise BadFile(
                f"the law is {said!r}, and there are no columns of {said}; expected {EXAMPLE[said]}."
            )
        several = [said]
    elif unclear and len(unclear) + len(found["quantiles"]) > 1 and several != ["bounds"]:
        raise BadFile(
            f"column {unclear[0]!r} could be a quantile at several probabilities; call it by the one that is meant, "
            f"such as q_0.025, or say --column q_0.025={unclear[0]}, in Python columns={{'q_0.025': {unclear[0]!r}}}; "
            f"{unclear[0]}=none leaves it out."
        )
    if len(several) > 1:
        raise BadFile(
            f"there are columns of {' and of '.join(several)}; expected one of them. Leave the others out, or call "
            "bounds by their probabilities, q_0.05 and q_0.95."
        )
    if not several:
        return None
    columns = found[several[0]]
    keys = tuple(sorted(columns))
    if several == ["bounds"]:
        _check_partners(columns)
    values = np.stack([_outputs(columns, key, column) for key in keys], axis=-1)
    if several == ["samples"]:
        return Samples(values)
    return Quantiles(keys, values) if several == ["quantiles"] else _stated(keys, values)


def _check_partners(columns: Mapping[float, Mapping[int, str]]) -> None:
    for key, outputs in columns.items():
        if not 0 < key < 1 or round(1 - key, 10) not in columns:
            raise BadFile(
                f"column {next(iter(outputs.values()))!r} has no partner, or no level; expected lower_90 and upper_90 "
                "for bounds of 90 %, and with several outputs lower_90_0, upper_90_0 and so on."
            )


def _outputs(columns: Mapping[float, Mapping[int, str]], key: float, column: Callable[[str], Host]) -> Host:
    outputs, first = columns[key], next(iter(columns.values()))
    if set(outputs) not in ({ALL}, set(range(len(outputs)))) or set(outputs) != set(first):
        raise BadFile(
            f"columns {sorted(first.values())} and {sorted(outputs.values())} are not of the same outputs; expected "
            "each for all of them, as q05_0, q05_1 and q95_0, q95_1."
        )
    parts = [column(outputs[output]) for output in sorted(outputs)]
    return parts[0] if ALL in outputs else np.stack(parts, axis=1)


def _stated(keys: tuple[float, ...], values: Host) -> Stated:
    """The intervals between the lower half of the ends and the upper one, the narrowest first."""
    empty = np.isnan(values).any(axis=-1)
    if empty.any():
        raise BadFile(
            f"a bound is empty in row {np.nonzero(empty)[0].min() + 1}; expected numbers in every row."
        )
    half = len(keys) // 2
    levels = tuple(round(1 - 2 * key, 10) for key in keys[:half][::-1])
    return Stated(levels, values[..., :half][..., ::-1], values[..., half:])
