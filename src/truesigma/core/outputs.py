"""Select one output of an array (case, output...), a prediction or cases; or average over outputs."""

from collections.abc import Sequence
from typing import Any, TypeVar

from .arrays import Array, expand, namespace
from .cases import Cases
from .values import Prediction, changed
from .varying import Varying

T = TypeVar("T", Array, Prediction, Cases)


def output_of(values: T, output: int) -> T:
    """Select one output and drop the output axes; several axes are counted along the last. None stays None.

    >>> import numpy as np
    >>> output_of(np.array([[1.0, 2.0], [3.0, 4.0]]), 1)
    array([2., 4.])
    >>> output_of(Prediction([[1.0, 2.0]], aleatoric=[[1.0, 9.0]]), 1).scale
    array([3.])
    """
    if values is None:
        return None
    if isinstance(values, Cases):
        weight: Any = values.weight
        if weight is not None and weight.ndim > 1:  # one number may stand for all outputs
            weight = output_of(expand("weight", weight, tuple(values.target.shape)), output)
        one, target = output_of(values.prediction, output), output_of(values.target, output)
        names = values.names[output : output + 1]
        return changed(values, prediction=one, target=target, weight=weight, draws=None, names=names)
    if isinstance(values, Prediction):
        law = values.law.of_output(output) if isinstance(values.law, Varying) else values.law
        return values.with_arrays(lambda part: output_of(part, output), law=law)
    return namespace(values).reshape(values, (values.shape[0], -1))[:, output]


def name_of(names: Sequence[str], output: int) -> str:
    """The name of an output, or its number.

    >>> name_of(("tip_x", "tip_y"), 1), name_of((), 1)
    ('tip_y', 'output 1')
    """
    return names[output] if names else f"output {output}"


def case_means(values: Array, mask: Array = None) -> Array:
    """Means over the outputs of each case that count, (case, 1, ...); 1 for a case with none.

    >>> import numpy as np
    >>> case_means(np.array([[1.0, 2.0], [4.0, 6.0]]))
    array([[1.5],
           [5. ]])
    """
    xp, axes = namespace(values), tuple(range(1, values.ndim))
    if mask is None:
        return xp.mean(values, axis=axes, keepdims=True)
    count = xp.sum(xp.astype(mask, values.dtype), axis=axes, keepdims=True)
    sums = xp.sum(xp.where(mask, values, xp.zeros_like(values)), axis=axes, keepdims=True)
    return xp.where(count > 0, sums / xp.clip(count, 1, None), xp.ones_like(sums))
