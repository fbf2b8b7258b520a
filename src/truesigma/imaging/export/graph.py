"""From a module to an ONNX graph that says nothing about the machine it was made on."""

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.arrays import Host

LARGEST = 2**31 - 1  # bytes that one protobuf message can have


def need_onnx() -> None:
    """Name the extra that is missing."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            __import__(name)
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(
                f"the export needs {name}, which is not installed: pip install 'truesigma[train,onnx]'",
                name=name,
            ) from missing


def content_hash(proto: Any) -> str:
    """The SHA-256 of all that a runtime reads (graph, functions, operator sets, metadata), but for the hash itself."""
    whole = type(proto)()
    whole.CopyFrom(proto)
    said = sorted((one.key, one.value) for one in proto.metadata_props if one.key != "sha256")
    del whole.metadata_props[:]
    digest = hashlib.sha256(whole.SerializeToString(deterministic=True))
    digest.update(repr(said).encode())
    return digest.hexdigest()


def onnx_graph(
    model: nn.Module,
    example: Mapping[str, Tensor],
    masks: Sequence[Tensor] = (),
    *,
    outputs: Sequence[str],
    space: Sequence[str] = (),
) -> Any:
    """The module as an onnx.ModelProto whose first axes, of the inputs and of all outputs, are the cases.

    Args:
        model: with tensor operations alone, in evaluation mode.
        example: its inputs by name, of two cases or more; a length of 1 would be taken for a constant.
        masks: further inputs of the module, which become constants of the file.
        outputs: the names of the outputs.
        space: the names of the last axes of the first input whose lengths are free, too.
    """
    from onnx.numpy_helper import from_array

    names = [f"mask_{number}" for number in range(len(masks))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                model,
                (*example.values(), *masks),
                dynamo=True,
                input_names=[*example, *names],
                output_names=list(outputs),
                dynamic_shapes=_shapes(
                    len(example), len(masks), next(iter(example.values())).ndim, len(space)
                ),
                custom_translation_table=dict(translations()),
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as problem:
            cause: BaseException = problem
            while cause.__cause__ is not None:
                cause = cause.__cause__
            reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
            raise ValueError(f"the network cannot be written as ONNX: {reason}") from problem
    assert program is not None
    proto = program.model_proto
    for given in [value for value in proto.graph.input if value.name in names]:
        proto.graph.input.remove(given)
    proto.graph.initializer.extend(from_array(mask.numpy(), name) for name, mask in zip(names, masks))
    if proto.ByteSize() > LARGEST:
        raise ValueError(
            f"the model has {proto.ByteSize() / 2**30:.1f} GiB, and one ONNX file holds 2; export fewer members."
        )
    graph = proto.graph
    # The trace noted file names and lines of code of this machine.
    graph.ClearField("value_info")
    for part in (*graph.node, *graph.initializer, *graph.input, *graph.output, graph):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "case"
    lengths = graph.input[0].type.tensor_type.shape.dim
    for length, name in zip(lengths[len(lengths) - len(space) :], space):
        length.dim_param = name
    return proto


def _shapes(given: int, masks: int, axes: int, space: int) -> Any:
    """Which lengths are free: the cases of what is given, and space; what follows the image may be one tuple."""
    free = {0: torch.export.Dim.DYNAMIC}
    first = free | dict.fromkeys(range(axes - space, axes), torch.export.Dim.DYNAMIC)
    more: tuple[Any, ...] = (*[free] * (given - 1), *[{}] * masks)
    return (first, *more) if space else (first, more) if more else (first,)


def translations() -> Mapping[Any, Callable[..., Any]]:
    """Translations of operations that torch's exporter does not know."""
    return {torch.ops.aten._adaptive_avg_pool3d.default: _pool_volume}


def averages(before: int, after: int) -> Host:
    """The matrix (before, after) that averages neighbours as torch's adaptive pooling does: from floor to ceiling.

    >>> averages(3, 2)
    array([[0.5, 0. ],
           [0.5, 0.5],
           [0. , 0.5]], dtype=float32)
    """
    found = np.zeros((before, after), np.float32)
    for k in range(after):
        inside = slice(k * before // after, -(-(k + 1) * before // after))
        found[inside, k] = 1 / (inside.stop - inside.start)
    return found


def _pool_volume(self: Any, output_size: Any) -> Any:
    """Axis by axis from the last: its mean over each part by a product of matrices, then to the front of the three."""
    from onnx.numpy_helper import from_array
    from onnxscript import opset18 as op

    made = self
    for before, after in zip(reversed(list(self.shape)[2:]), reversed(list(output_size))):
        matrix = op.Constant(value=from_array(averages(int(before), int(after))))
        made = op.Transpose(op.MatMul(made, matrix), perm=[0, 1, 4, 2, 3])
    return made
