"""All that touches the array API: numpy, torch, JAX and CuPy arrays in, the same kind out, on the same device.

`array_api_compat` supplies the common functions; what it lacks (the normal distribution function, sums by
segment, the way to the host) is here, once for each library.
"""

import os
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_jax_array, is_numpy_array, is_torch_array
from array_api_compat import device as device_of

from .errors import Refusal

Array = Any  # an array of any library the array API covers; the libraries share no common base class
Host = np.ndarray[Any, np.dtype[Any]]

CHUNK = {"cpu": 1 << 18, "other": 1 << 26}  # elements at a time: the CPU's cache, or enough to fill a GPU

ROW = 4096  # numbers that a GPU adds up in float32, before their sums are in float64


def as_array(name: str, values: Any) -> Array:
    """Return `values` as an array: arrays as they are, frames and lists through numpy.

    >>> as_array("location", [1, 2]).dtype
    dtype('float64')
    """
    if isinstance(values, np.ma.MaskedArray):
        raise Refusal(
            f"{name} is a masked array of numpy; expected a plain one, because its hidden values would be used. Give "
            f"numpy.ma.getdata({name}), and mask=~numpy.ma.getmaskarray({name})."
        )
    if not is_array_api_obj(values):
        try:
            values = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
        except ValueError as problem:
            raise Refusal(
                f"{name} is not an array: {problem} Expected numbers with the same count along each axis."
            ) from None
    xp = namespace(values)
    if xp.isdtype(values.dtype, "integral"):
        # float64 holds every count there is; JAX has it only when x64 is enabled.
        return xp.astype(values, xp.asarray(0.0).dtype if is_jax_array(values) else xp.float64)
    if not xp.isdtype(values.dtype, "real floating"):
        raise Refusal(
            f"{name} has dtype {values.dtype}; expected real floating point numbers. Convert it first, for example "
            f"with numpy.asarray({name}, dtype=float)."
        )
    # Half precision holds files, not arithmetic: sums of squares overflow it. Beyond double no library has erf.
    bits = xp.finfo(values.dtype).bits
    return xp.astype(values, xp.float32 if bits < 32 else xp.float64) if bits not in (32, 64) else values


def namespace(*arrays: Array) -> Any:
    """The array API namespace the arrays share; `None` is passed over."""
    given = []
    for array in arrays:
        if array is not None:
            given.append(array)
    if given and set(map(type, given)) == {np.ndarray}:
        from array_api_compat import numpy  # when it is first needed, because that imports all of numpy

        return numpy
    devices = {a.device for a in given if is_torch_array(a)} if len(given) > 1 else set()
    if len(devices) > 1:
        raise Refusal(
            f"arrays on different devices were given together ({', '.join(sorted(map(str, devices)))}); expected one. "
            "Move them to the same device."
        )
    try:
        return array_namespace(*given)
    except TypeError:
        kinds = sorted({type(a).__module__.split(".")[0] for a in given})
        raise Refusal(
            f"arrays of different libraries were given together ({', '.join(kinds)}); expected one. "
            "Convert them to the same kind, on the same device, as with tensor.numpy()."
        ) from None


def on_host(values: Array) -> Array:
    """View a tensor on the CPU as a numpy array, without a copy; other arrays stay as they are.

    numpy is the faster of the two there: torch's threads wait for each other after every operation.
    """
    if is_torch_array(values):
        values = values.detach()
        return values.numpy() if values.device.type == "cpu" else values
    return values


def to_host(values: Array) -> Host:
    """A numpy array with the same values."""
    if is_torch_array(values):
        return values.detach().cpu().numpy()
    return values.get() if hasattr(values, "get") else np.asarray(values)


def like(values: Host, example: Array) -> Array:
    """Host values as an array of the example's kind, device and precision."""
    return namespace(example).asarray(values, dtype=example.dtype, device=device_of(example))


def expand(name: str, values: Array, shape: tuple[int, ...]) -> Array:
    """View `values` in `shape`: (case,) holds for every output, and an output axis of length 1 for the whole axis."""
    same = tuple(values.shape) == shape
    return values if same else namespace(values).broadcast_to(with_axes(name, values, shape), shape)


def with_axes(name: str, values: Array, shape: tuple[int, ...], case: int = 0) -> Array:
    """Give `values` as many axes as `shape`, each of its length or 1; only the axis `case` must be of full length."""
    if values.ndim == case + 1:  # one for all outputs of a case
        values = namespace(values).reshape(values, (*values.shape, *[1] * (len(shape) - values.ndim)))
    fits = values.ndim == len(shape) and values.shape[case] == shape[case]
    if not fits or any(a not in (1, b) for a, b in zip(values.shape, shape)):
        raise Refusal(
            f"{name} has shape {tuple(values.shape)}; expected {shape}, or length 1 where it is not the case's. The "
            f"{('first', 'second')[case]} axis is the case, every axis behind it is output."
        )
    return values


def extremes(values: Array) -> tuple[float, float]:
    """The smallest and the largest value; NaN where one is.

    >>> extremes(np.array([2.0, -1.0]))
    (-1.0, 2.0)
    """
    values = on_host(values)
    xp = namespace(values)
    if is_torch_array(values):
        low, high = xp.stack(xp.aminmax(values)).tolist()
        return low, high
    with np.errstate(invalid="ignore"):
        return float(xp.min(values)), float(xp.max(values))


def chunk_size(values: Array) -> int:
    """How many elements to treat at a time where `values` lives."""
    on_cpu = is_numpy_array(values) or "cpu" in str(device_of(values)).lower()
    return CHUNK["cpu" if on_cpu else "other"]


def special(values: Array) -> Any:
    """The array library's own functions that the array API lacks."""
    if is_torch_array(values):
        return import_module("torch.special")
    if is_jax_array(values):
        return import_module("jax.scipy.special")
    return import_module("scipy.special" if is_numpy_array(values) else "cupyx.scipy.special")


@cache
def keep_memory() -> None:
    """Make the C library reuse the memory of a chunk's arrays, instead of asking the system for new pages each time.

    glibc keeps freed blocks that are no larger than one it has freed before; other C libraries ignore this. A tally of
    a million cases takes half as long again without it.
    """
    np.empty(1 << 24, dtype=np.uint8)


def total(values: Array) -> Array:
    """Sum all values on their device, to an array without axes; for booleans, count the true ones.

    >>> float(total(np.array([0.5, 1.0])))
    1.5
    """
    if isinstance(values, np.ndarray):
        if values.dtype == bool:
            return np.count_nonzero(values)
        # In float64, or the rounding of float32 would show how the data was split.
        return float(np.add.reduce(values, axis=None, dtype=np.float64))
    xp = namespace(values)
    if not is_torch_array(values):
        return xp.sum(values)
    many = values.dtype in (xp.bool, xp.float32) and values.numel() >= ROW and values.device.type != "cpu"
    return _total_of_rows(values.reshape(-1)) if many else xp.sum(values, dtype=xp.float64)


def _total_of_rows(flat: Array) -> Array:
    """The sum of very many numbers or booleans in one pass over memory; torch would first copy them to a wider type."""
    torch, whole = namespace(flat), len(flat) - len(flat) % ROW
    if flat.dtype == torch.bool:
        # Four booleans are the bytes of one number; 128 of those add up without a carry from byte to byte.
        fours = flat[:whole].view(torch.int32).reshape(-1, 128)
        rows = torch.sum(fours, dim=1, dtype=torch.int32).view(torch.uint8)
    else:
        rows = torch.sum(flat[:whole].reshape(-1, ROW), dim=1, dtype=torch.float32)
    held = torch.sum(rows, dtype=torch.float64)
    return held + torch.sum(flat[whole:], dtype=torch.float64) if whole < len(flat) else held


def float_bits(values: Array) -> Array:
    """The float64 bits of positive numbers as integers, which sort as the numbers do; for JAX on the host.

    >>> (float_bits(np.array([1.0, 1.5, 2.0])) >> 51).tolist()
    [2046, 2047, 2048]
    """
    values = widen(to_host(values) if is_jax_array(values) else values)
    return values.view(namespace(values).int64)


def widen(values: Array) -> Array:
    """Convert to float64 where the library has it: JAX does only when x64 is enabled."""
    xp = namespace(values)
    return values if is_jax_array(values) else xp.astype(values, xp.float64, copy=False)


def pack(example: Array, *numbers: Any) -> Array:
    """Join numbers and arrays without axes to one array (number,) on the example's device.

    >>> pack(np.zeros(1), 2.0, np.float64(3.0))
    array([2., 3.])
    """
    if isinstance(example, np.ndarray):
        return np.array(numbers, dtype=np.float64)
    xp, kind = namespace(example), widen(example[:0]).dtype
    # Filled where they are: a copy of a number would wait for everything that the device has yet to do.
    fill = partial(xp.full, (), dtype=kind, device=device_of(example))
    return xp.stack([fill(n) if isinstance(n, float | int) else xp.astype(n, kind) for n in numbers])


def to_hosts(arrays: Sequence[Array]) -> list[Host]:
    """Copy each array to the host in float64; arrays on a GPU in one transfer."""
    on_gpu = [is_torch_array(a) and a.device.type != "cpu" for a in arrays]
    if not on_gpu or not all(on_gpu):
        return [to_host(a).astype(np.float64, copy=False) for a in arrays]
    joined = to_host(namespace(*arrays).concat([widen(a).reshape(-1) for a in arrays]))
    ends = np.cumsum([a.numel() for a in arrays])
    return [part.reshape(a.shape) for part, a in zip(np.split(joined, ends[:-1]), arrays)]


def workers(example: Array) -> int:
    """Count the threads to use: numpy computes with one alone, other libraries and devices bring their own.

    As many as the process has cores, or OMP_NUM_THREADS where the environment sets it, as clusters do; for tensors as
    many as torch would use.
    """
    if is_torch_array(example) and example.device.type == "cpu":
        return int(namespace(example).get_num_threads())
    if not is_numpy_array(example):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(told))) if told.isdigit() else cores


def flat(*arrays: Array) -> list[Array]:
    """Each array with one axis; None stays None."""
    return [None if a is None else namespace(a).reshape(a, (-1,)) for a in arrays]
