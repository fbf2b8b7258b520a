"""Scores: one file each, found by name. `truesigma.metrics.uce.score(prediction, target)`.

A prediction and its targets come in, one plain number goes out. A file says its title, which direction is better, its
unit, and what it sums over elements or bins; a new score is one new file.

Every `score(prediction, target, *, weight=None)` takes the target with the location's shape, and weights of that shape
or (case,); where it does not use location, scale and law of the prediction, it says what it uses.
"""

from ..core.plugins import in_folder

__getattr__, __dir__ = in_folder("metrics")
