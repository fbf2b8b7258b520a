"""Laws that differ by case: one file each, of which `Prediction.from_...` makes predictions."""

from .histogram import Histogram
from .mixture import Mixture
from .quantiles import Quantiles, Stated
from .samples import Samples
from .scipy import Scipy

KINDS = (Histogram, Mixture, Quantiles, Samples, Scipy, Stated)
