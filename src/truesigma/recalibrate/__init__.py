"""Recalibrations: one file each, found by name. `truesigma.recalibrate.sigma.fit(prediction, target)`.

Predictions of the calibration split with their targets come in; a frozen `Recalibration` goes out, already fitted:
called with a prediction it returns another, and `to_dict` is what a card holds. A new method is one new file.
"""

from ..core.plugins import in_folder

__getattr__, __dir__ = in_folder("recalibrate")
