"""Recalibrations: one file each, found by name. `truesigma.recalibrate.sigma.fit(cases)`.

The cases of the calibration split come in, or their arrays, as `fit(prediction, target, patient=...)`; a frozen
`Recalibration` goes out, already fitted: called with a prediction it returns another, and `to_dict` is what a card
holds. A new method is one new file.
"""

from ..core.plugins import in_folder

__getattr__, __dir__ = in_folder("recalibrate")
