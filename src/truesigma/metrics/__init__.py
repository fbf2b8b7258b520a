"""Scores: one file each, found by name. `truesigma.metrics.uce.score(prediction, target)`.

A prediction and its targets come in, one plain number goes out. A file says its title, which direction is better, its
unit, and what it sums over elements or bins; a new score is one new file.

Every `score(prediction, target, *, weight=None)` takes the target with the location's shape, and weights of that shape
or (case,); where it does not use location, scale and law of the prediction, it says what it uses.
"""

from typing import TYPE_CHECKING

from ..core.plugins import in_folder

if TYPE_CHECKING:  # so that a misspelt name is an error, and an editor knows the others
    from . import ause as ause
    from . import coverage as coverage
    from . import crps as crps
    from . import ence as ence
    from . import energy as energy
    from . import joint_coverage as joint_coverage
    from . import mae as mae
    from . import median_absolute_error as median_absolute_error
    from . import miscalibration_area as miscalibration_area
    from . import mse as mse
    from . import nll as nll
    from . import pinball as pinball
    from . import quantile_score as quantile_score
    from . import r2 as r2
    from . import rank_correlation as rank_correlation
    from . import rmse as rmse
    from . import sharpness as sharpness
    from . import skce as skce
    from . import uce as uce
    from . import variogram as variogram
    from . import volume as volume
    from . import width as width
    from . import winkler as winkler
else:
    __getattr__, __dir__ = in_folder("metrics")
