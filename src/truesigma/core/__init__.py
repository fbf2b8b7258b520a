"""The statistics: values, laws, elements and sums; and the loader of plug-ins.

Nothing here knows a file, a metric by name, a picture or a network. Read it in this order:

1. `arrays` is the seam to numpy, torch, JAX and CuPy: the same kind goes out that came in, on the device where it is.
2. `values` and `cases` are what stages hand to each other: `Draws`, `Prediction`, `Interval`, `Cases`. Each checks what
   it is given once, when it is made (`checks`), and is frozen. `decompose` makes a prediction of draws.
3. `law` is the law of z in y = location + scale * z, the one thing with several kinds: `Normal`, `Laplace`, `Student`,
   `Empirical`, or one for each case (`varying`).
4. `elements`: cases are cut into blocks that fit the cache. `Elements` are the outputs of a block of cases, with the
   residual, z, its distribution function and so on, each computed when it is first asked for.
5. `scores`: a statistic is a function from elements to a sum. `Mean`, `Binned` and `Pit` are the kinds that a metric
   can declare; `accumulate` adds any number of them up in one pass, and `measure` makes scores of them. `bins` has the
   edges and the sums in bins, `sketches` what edges are found from where the variances are too many to keep.
6. `tally` keeps the sums of all metrics, to be merged; `factors` and `ranking` are for what is not a mean.
7. `recalibration` is what a fitted recalibration says of itself, with its defaults; `plugins` finds and loads the files
   of metrics and recalibrations, and reads a choice such as "aux:hidden=4".

So a score goes: `metrics/crps.py` calls `score_of`, which makes `Cases` (`unread`) and asks `Mean` for its statistic;
`accumulate_each` cuts the cases (`block_rows`), makes `Elements` (`elements_of`) and sums (`block_sums`) them block by
block, in threads where there are several; `Mean.value` divides.

>>> import numpy as np
>>> prediction = Prediction([0.0, 0.0], scale=[1.0, 2.0])
>>> (block,) = blocks(prediction, np.array([1.0, 3.0]))
>>> block.z.ravel(), block.total.ravel()
(array([1. , 1.5]), array([1., 4.]))
>>> float(accumulate(prediction, np.array([1.0, 3.0]), {"size": lambda e: e.size.sum()})["size"])
4.0

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
