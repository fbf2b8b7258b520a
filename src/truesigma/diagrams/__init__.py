"""Diagrams: one file each, found by name. `table(...)` computes, `draw(table, ax)` draws.

Predictions and targets come in; a table of what is shown goes out, and from it matplotlib's axes. Only `draw` imports
matplotlib; a new picture is one new file. A figure of your own looks like these with `figure`, `style` and `look`.
"""

from ..core.plugins import in_folder
from ._style import figure, look, save, style

__all__ = ["figure", "look", "save", "style"]

__getattr__, __dir__ = in_folder("diagrams")
