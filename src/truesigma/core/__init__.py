"""The statistics: values, laws, elements and sums; and the loader of plug-ins.

Arrays of numpy, torch, JAX or CuPy come in and are checked once, when `Draws`, `Prediction` or `Cases` are made.
Sums over elements, scores and a `Tally` go out. Nothing here knows a file, a metric by name, a picture or a network;
torch is imported only where a torch tensor was handed in.

Plug-ins need no more than what is exported here.
"""

from .arrays import Array, Host, flat, like, namespace, to_host
from .bins import Bins, Spacing, assign, bin_edges, segment_sums
from .cases import Cases
from .elements import Elements, Error, Outputs, Part, Terms, blocks
from .errors import Refusal
from .law import Empirical, Laplace, Law, Normal, Undefined, central_bounds, has_terms
from .ranking import keep_lowest, rank
from .recalibration import (
    Factor,
    Recalibration,
    degrees_of_freedom,
    factors_of,
    observed_z,
    on_cases,
    on_predictions,
    rescale,
    select_part,
    with_law,
)
from .scores import Binned, Mean, Pit, Sum, accumulate, add_sums, join_sums, measure, request, score_of
from .sketches import edges_over
from .tally import Tally
from .values import Draws, Prediction, changed, check_prediction

__all__ = ["Array", "Host", "like", "namespace", "to_host"]
__all__ += ["Bins", "Spacing", "assign", "bin_edges"]
__all__ += ["segment_sums"]
__all__ += ["Elements", "Error", "Outputs", "Part", "Terms", "blocks"]
__all__ += ["Refusal"]
__all__ += ["Empirical", "Laplace", "Law", "Normal", "Undefined", "central_bounds", "has_terms"]
__all__ += ["keep_lowest", "rank"]
__all__ += [
    "Factor",
    "Recalibration",
    "degrees_of_freedom",
    "factors_of",
    "observed_z",
    "on_cases",
    "on_predictions",
    "rescale",
    "select_part",
    "with_law",
]
__all__ += ["Binned", "Mean", "Pit", "edges_over", "measure", "request", "score_of"]
__all__ += ["Sum", "accumulate", "add_sums", "flat", "join_sums"]
__all__ += ["Tally"]
__all__ += ["Cases", "Draws", "Prediction", "changed", "check_prediction"]
