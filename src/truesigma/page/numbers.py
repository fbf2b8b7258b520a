"""Numbers as a reader wants them: no more digits than the interval supports."""

import math

from ..core.checks import per_cent
from ..evaluation.bootstrap import Estimate

DASH = "\N{EN DASH}"  # where a number is not defined
MINUS = "\N{MINUS SIGN}"
SQUARED = "\N{SUPERSCRIPT TWO}"


def decimals(step: float) -> int:
    """Count the decimals that show a step of this size with one figure.

    >>> decimals(0.35), decimals(12.0), decimals(0.004)
    (1, 0, 3)
    """
    return 0 if step <= 0 or not math.isfinite(step) else max(0, -math.floor(math.log10(step)))


def number(value: float | None, step: float | None = None) -> str:
    """Write a number rounded to the size of `step`, or to three figures.

    >>> number(13.3367, 0.35), number(-0.00012345), number(1234.5), number(None)
    ('13.3', '−0.000123', '1230', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e6):
        head, power = f"{value:.2e}".split("e")
        return f"{head}e{int(power)}".replace("-", MINUS, 1 if value < 0 else 0)
    if step is None:
        step = 10 ** (math.floor(math.log10(size)) - 2) if size else 1.0
        if step > 1:
            value = round(value / step) * step
    step = max(step, 1e-5 * size)  # an interval without width does not ask for all digits there are
    text = f"{value:.{decimals(step)}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text.replace("-", MINUS)


def percent(share: float | None, digits: int = 0) -> str:
    """Write a share in per cent.

    >>> percent(0.51231), percent(0.899, 1), percent(0.9995)
    ('51\\xa0%', '89.9\\xa0%', '99.95\\xa0%')
    """
    return DASH if share is None else f"{per_cent(share, digits)}\N{NO-BREAK SPACE}%".replace("-", MINUS)


def with_unit(text: str, unit: str, power: int = 1) -> str:
    """Append the unit to a text, if there is one.

    >>> with_unit("178", "mm", 2)
    '178\\xa0mm²'
    """
    return f"{text}\N{NO-BREAK SPACE}{unit}{SQUARED if power == 2 else ''}" if unit and power else text


def estimate_parts(found: Estimate, *, share: bool = False, digits: int | None = None) -> tuple[str, str]:
    """Write value and interval as texts; the interval is empty if there is none.

    >>> estimate_parts(Estimate(13.337, 12.981, 13.691))
    ('13.3', '[13.0, 13.7]')
    >>> estimate_parts(Estimate(0.50925, 0.4925, 0.5246), share=True)
    ('50.9\\xa0%', '[49.2, 52.5]')
    """
    if found.value is None:
        return DASH, ""
    times = 100 if share else 1
    numbers = [times * x for x in (found.value, found.low, found.high) if x is not None]
    step = (numbers[2] - numbers[1]) / 4 if len(numbers) == 3 else None
    if digits is not None:
        step = 10.0**-digits
    elif share:  # an interval without width does not ask for all digits there are
        step = max(step or 0.0, 0.01 if step else 0.1)
    if share and 0 < found.value < 1:  # its interval has as many decimals
        step = 10.0 ** -len(per_cent(found.value, decimals(step or 0.0)).partition(".")[2])
    texts = [number(x, step or None) for x in numbers]
    behind = "\N{NO-BREAK SPACE}%" if share else ""
    return texts[0] + behind, f"[{texts[1]}, {texts[2]}]" if len(texts) == 3 else ""


def estimate_text(found: Estimate, *, unit: str = "", share: bool = False) -> str:
    """Write value, unit and interval in a row of text.

    >>> estimate_text(Estimate(13.337, 12.981, 13.691), unit="mm")
    '13.3\\xa0mm [13.0, 13.7]'
    """
    value, interval = estimate_parts(found, share=share)
    return f"{with_unit(value, unit)} {interval}".strip()


def capital(text: str) -> str:
    """Give the text a capital first letter.

    >>> capital("miscalibration area"), capital("NLL")
    ('Miscalibration area', 'NLL')
    """
    return text[:1].upper() + text[1:]
