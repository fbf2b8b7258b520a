"""Columns of quantiles and of samples, in the spellings that people have; what could be read in two ways is refused.

| columns | read as |
| --- | --- |
| `q_0.05`, `q0.05`, `quantile_0.05`, `0.05` | the quantile at that probability |
| `q05`, `q95`, `q97.5`, `p10`, `p2.5`, `model-q-10` | the quantile at so many per cent |
| `model-lo-90`, `model-hi-90` | the ends of the central interval of 90 % |
| `sample_0`, `sample_1`, ... | samples |
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..core.arrays import Host
from ..core.laws.quantiles import Quantiles
from ..core.laws.samples import Samples
from ..core.varying import Varying
from .disk import BadFile

ALL = -1  # the output of a column, or an array, that has no number of one
NUMBER = r"(\d+|\d*\.\d+)"
OUTPUT = r"(?:_(0|[1-9]\d*))?"
FORMS = {
    form: re.compile(pattern + OUTPUT, re.IGNORECASE)
    for form, pattern in {
        "probability": r"(0?\.\d+)",
        "q": rf"(?:q|quantile)_?{NUMBER}",
        "p": rf"(?:p|percentile)_?{NUMBER}",
        "percent": rf".+-q-{NUMBER}",
        "lo": rf".+-lo-{NUMBER}",
        "hi": rf".+-hi-{NUMBER}",
    }.items()
}
SAMPLE = re.compile(r"sample_(\d+)" + OUTPUT)


def quantile_of(name: str) -> tuple[float | None, int] | None:
    """The probability and the output of a quantile's column; no probability where it could be read in two ways.

    >>> quantile_of("q05"), quantile_of("m-hi-90"), quantile_of("q_0.5_1"), quantile_of("q025"), quantile_of("age")
    ((0.05, -1), (0.95, -1), (0.5, 1), (None, -1), None)
    """
    for form, pattern in FORMS.items():
        if match := pattern.fullmatch(name):
            number, output = match.groups()
            return _probability(form, number), ALL if output is None else int(output)
    return None


def _probability(form: str, number: str) -> float | None:
    value, decimal = float(number), "." in number
    if form in ("lo", "hi"):
        return round((1 - value / 100) / 2 if form == "lo" else (1 + value / 100) / 2, 10)
    if form == "probability" or (form == "q" and decimal and value < 1):
        return value
    two_ways = (form == "p" and decimal and value < 1) or (form == "q" and not decimal and len(number) != 2)
    return None if two_ways else round(value / 100, 10)


def is_spelled(name: str) -> bool:
    """Whether a column has a quantile or a sample."""
    return quantile_of(name) is not None or SAMPLE.fullmatch(name) is not None


def law_in(names: Sequence[str], column: Callable[[str], Host]) -> Varying | None:
    """Read the quantiles or the samples of a table, as they are, (case, output..., quantile); None if it has none.

    >>> columns = {"q05": np.array([1.0]), "q95": np.array([3.0])}
    >>> law_in(list(columns), columns.__getitem__).values
    array([[1., 3.]])
    """
    quantiles: dict[float, dict[int, str]] = {}
    samples: dict[float, dict[int, str]] = {}
    unclear = []
    for name in names:
        if match := SAMPLE.fullmatch(name):
            _add(samples, int(match[1]), ALL if match[2] is None else int(match[2]), name)
        elif (read := quantile_of(name)) is not None:
            if read[0] is None:
                unclear.append(name)
            else:
                _add(quantiles, read[0], read[1], name)
    if unclear and len(unclear) + len(quantiles) > 1:
        raise BadFile(
            f"column {unclear[0]!r} could be a quantile at several probabilities; call it by the one that is meant, "
            f"such as q_0.025, or say --column q_0.025={unclear[0]}, in Python columns={{'q_0.025': {unclear[0]!r}}}; "
            f"{unclear[0]}=none leaves it out."
        )
    several = [one for one in (quantiles, samples) if len(one) > 1]
    if len(several) > 1:
        raise BadFile(
            "there are columns of quantiles and of samples; expected one of the two. Leave one out."
        )
    if not several:
        return None
    found = several[0]
    values = np.stack([_outputs(found, key, column) for key in sorted(found)], axis=-1)
    return Samples(values) if found is samples else Quantiles(tuple(sorted(found)), values)


def _add(found: dict[float, dict[int, str]], key: float, output: int, name: str) -> None:
    outputs = found.setdefault(key, {})
    if output in outputs:
        raise BadFile(
            f"columns {outputs[output]!r} and {name!r} are both the quantile at {key:g}; expected one. "
            "Remove the other."
        )
    outputs[output] = name


def _outputs(found: Mapping[float, Mapping[int, str]], key: float, column: Callable[[str], Host]) -> Host:
    outputs, first = found[key], next(iter(found.values()))
    if set(outputs) not in ({ALL}, set(range(len(outputs)))) or set(outputs) != set(first):
        raise BadFile(
            f"columns {sorted(first.values())} and {sorted(outputs.values())} are not of the same outputs; expected "
            "each for all of them, as q05_0, q05_1 and q95_0, q95_1."
        )
    parts = [column(outputs[output]) for output in sorted(outputs)]
    return parts[0] if ALL in outputs else np.stack(parts, axis=1)
