"""Shared by all diagrams: journal column widths, colours that colour-blind readers can tell apart, and saving.

Colours are those of Okabe and Ito; every series also has its own marker and line, so that grey print stays readable.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..core.arrays import Host
from ..core.cases import Cases
from ..files.disk import write_atomically

Axes = Any  # matplotlib.axes.Axes; the package does not import matplotlib until something is drawn
Figure = Any

COLUMN = 85 / 25.4  # inches: one column of a journal page
PAGE = 170 / 25.4  # both columns
BLUE, RED, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
INK, GREY, PALE = "#222222", "#767676", "#D9D9D9"
SERIES = (
    {"color": BLUE, "marker": "o", "linestyle": "-"},
    {"color": RED, "marker": "s", "linestyle": "--"},
    {"color": GREEN, "marker": "^", "linestyle": "-."},
    {"color": PURPLE, "marker": "D", "linestyle": ":"},
    {"color": ORANGE, "marker": "v", "linestyle": "-"},
    {"color": SKY, "marker": "P", "linestyle": "--"},
)
NAMED = {"sigma": 0, "none": 1, "aux": 2}  # a recalibration has the same look in every figure
SETTINGS = Path(__file__).with_name("journal.mplstyle")
# No date and nothing random in a file: the same figure gives the same bytes.
STAMPS: Any = {".pdf": {"CreationDate": None}, ".png": {"Software": None}, ".svg": {"Date": None}}
T = TypeVar("T")


def style() -> AbstractContextManager[None]:
    """Apply the settings inside a context; outside it matplotlib is as it was."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ImportError(
            "drawing needs matplotlib, which is not installed: pip install 'truesigma[plot]'."
        ) from None
    return mpl.rc_context(fname=SETTINGS)


def figure(
    rows: int = 1, columns: int = 1, *, width: float = COLUMN, ratio: float = 0.78, share: bool = False
) -> tuple[Figure, Host]:
    """Make a figure with that many panels, without a window; its axes come as an array (rows, columns).

    Args:
        rows: panels one below another.
        columns: panels side by side.
        width: of the whole figure in inches; COLUMN or PAGE.
        ratio: height of a panel over its width.
        share: the same axes limits in all panels.
    """
    with style():
        from matplotlib.figure import Figure as New

        size = (width, width / columns * ratio * rows)
        made = New(figsize=size, layout="constrained")
        return made, np.asarray(made.subplots(rows, columns, squeeze=False, sharex=share, sharey=share))


def axes_or_new(ax: Axes, ratio: float = 0.78) -> Axes:
    """The axes that were given, or those of a new figure as wide as one column."""
    return figure(ratio=ratio)[1][0, 0] if ax is None else ax


def look(name: str, index: int) -> dict[str, str]:
    """Choose colour, marker and line of a series: fixed for the known recalibrations, else by its number."""
    return dict(SERIES[NAMED.get(name.partition(":")[0], index) % len(SERIES)])


def labelled(tables: T | Cases | Mapping[str, T | Cases], table: Callable[[Cases], T]) -> dict[str, T]:
    """One table, or several by their label, as a mapping; `table` makes one of cases."""
    named = tables if isinstance(tables, Mapping) else {"": tables}
    return {name: table(one) if isinstance(one, Cases) else one for name, one in named.items()}


def note_power(axis: Any, label: str, unit: str = "", log: bool = False) -> None:
    """Label an axis, with its power of ten in the label: `predicted variance (mm², ×10⁻³)`.

    matplotlib writes the power in the corner of the panel, where it meets other text. Call it when the limits are set.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(abs(v) for v in axis.get_view_interval())
    short = log and 0 < high < 200 * low  # a power of ten or two: its decades alone would leave the axis bare
    power = 0 if log and not short else _power(math.sqrt(low * high) if log else high)
    parts = [f"{unit}²"] if unit else []
    if log:
        axis.set_minor_formatter(NullFormatter())
    if short:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if power or short:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 10**power:.6g}"))
    if power:
        parts.append(rf"$\times 10^{{{power}}}$")
    axis.set_label_text(f"{label} ({', '.join(parts)})" if parts else label)


def power_only(label: str) -> str:
    """Shorten an axis label to its power of ten, next to a panel that says the rest."""
    return label[label.index("$") : label.rindex("$") + 1] if "$" in label else ""


def _power(value: float) -> int:
    """Choose the power of ten to take out of numbers as large as this: 0 for ordinary ones."""
    power = math.floor(math.log10(value)) if value > 0 else 0
    return 0 if -2 < power < 4 else power


def scientific(value: float, deviation: float | None = None) -> str:
    r"""Typeset a number for a title, with its power of ten, and its standard deviation if there is one.

    >>> scientific(0.00123)
    '$1.23\\times 10^{-3}$'
    """
    if not np.isfinite(value):
        return f"{value:g}"
    power = _power(abs(value))
    digits = 2 if power or value == 0 else max(2 - math.floor(math.log10(abs(value))), 0)
    if deviation:  # with at least one digit of the deviation
        digits = max(digits, min(-math.floor(math.log10(deviation / 10**power)), 4))
    head = f"{value / 10**power:.{digits}f}"
    if deviation is not None:
        head += rf" \pm {deviation / 10**power:.{digits}f}"
        head = f"({head})" if power else head
    return rf"${head}\times 10^{{{power}}}$" if power else f"${head}$"


def strip(ax: Axes) -> Axes:
    """Add a narrow panel on top of the axes, with the same x axis and no frame."""
    inset = ax.inset_axes([0, 1.0, 1, 0.13], sharex=ax)
    inset.axis("off")
    return inset


def save(fig: Figure, path: str | Path) -> tuple[Path, Path]:
    """Write the figure as vector PDF and as PNG of 300 dots an inch, atomically.

    Args:
        fig: the figure (`ax.figure`).
        path: without a suffix, or with .pdf or .png; both files are written.

    Returns:
        The paths of the PDF and of the PNG.
    """
    path = Path(path)
    if path.suffix not in ("", ".pdf", ".png"):
        raise ValueError(f"path ends in {path.suffix!r}; expected .pdf or .png (both are written).")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = path.with_suffix(".pdf"), path.with_suffix(".png")
    for one in found:
        write_figure(fig, one)
    return found


def write_figure(fig: Figure, path: Path) -> None:
    """Write the figure as the kind of file that its ending names, one of STAMPS, atomically."""
    kind = path.suffix.lower()
    with style():
        write_atomically(path, partial(fig.savefig, format=kind[1:], metadata=STAMPS[kind]))
