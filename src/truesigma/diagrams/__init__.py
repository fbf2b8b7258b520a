"""Diagrams: one file each, found by name. `table(...)` computes, `draw(table, ax)` draws.

Predictions and targets come in; a table of what is shown goes out, and from it matplotlib's axes. Only `draw` imports
matplotlib; a new picture is one new file. A figure of your own looks like these with `figure`, `style` and `look`.
"""

from typing import TYPE_CHECKING

from ..core.plugins import in_folder
from ._style import figure, look, save, style

__all__ = ["figure", "look", "save", "style"]

if TYPE_CHECKING:  # so that a misspelt name is an error, and an editor knows the others
    from . import calibration as calibration
    from . import coverage as coverage
    from . import crps_parts as crps_parts
    from . import history as history
    from . import pit as pit
    from . import region as region
    from . import rejection as rejection
    from . import shift as shift
    from . import slabs as slabs
else:
    __getattr__, __dir__ = in_folder("diagrams")
