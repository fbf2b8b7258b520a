"""Recalibrations: one file each, found by name. `truesigma.recalibrate.sigma.fit(cases)`.

The cases of the calibration split come in, or their arrays, as `fit(prediction, target, patient=...)`; a frozen
`Recalibration` goes out, already fitted: called with a prediction it returns another, and `to_dict` is what a card
holds. A new method is one new file.
"""

from typing import TYPE_CHECKING

from ..core.plugins import in_folder

if TYPE_CHECKING:  # so that a misspelt name is an error, and an editor knows the others
    from . import aux as aux
    from . import conformal as conformal
    from . import cqr as cqr
    from . import cv_plus as cv_plus
    from . import isotonic as isotonic
    from . import none as none
    from . import region as region
    from . import sigma as sigma
    from . import sigma_by_group as sigma_by_group
    from . import sigma_by_output as sigma_by_output
    from . import two_factor as two_factor
else:
    __getattr__, __dir__ = in_folder("recalibrate")
