"""Diagrams: one file each, found by name. `table(...)` computes, `draw(table, ax)` draws.

Predictions and targets come in; a table of what is shown goes out, and from it matplotlib's axes. Only `draw` imports
matplotlib; a new picture is one new file.
"""

from ..core.plugins import in_folder

__getattr__, __dir__ = in_folder("diagrams")
