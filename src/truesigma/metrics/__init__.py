"""Scores: one file each, found by name. `truesigma.metrics.uce.score(prediction, target)`.

A prediction and its targets come in, one plain number goes out. A file says its title, which direction is better, its
unit, and what it sums over elements or bins; a new score is one new file.
"""

from ..core.plugins import in_folder

__getattr__, __dir__ = in_folder("metrics")
