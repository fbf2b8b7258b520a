"""Tensors on disk: safetensors files with the hash of their content, checked whenever they are read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ...files.disk import BadFile, check_exists, reading, write_atomically

__all__ = ["read_state", "read_tensors", "read_values", "write_state"]

# The key of the header with values and hash as JSON: one, because the format does not keep the order of several,
# and the same tensors must give the same bytes.
KEY = "truesigma"
KIND = "is damaged, or not a safetensors file"


def write_state(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write tensors and plain values with their hash as one safetensors file, atomically.

    tensors: by name, on any device. values: anything JSON holds (no NaN, no infinity).
    """
    text = json.dumps(values, allow_nan=False)
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        alone = tensor.detach().cpu().contiguous()
        # Tied weights share their memory, which the format does not take.
        shared = alone.untyped_storage().data_ptr() in seen
        plain[name] = alone.clone() if shared else alone
        seen.add(plain[name].untyped_storage().data_ptr())
    head = {KEY: json.dumps({"values": text, "sha256": _digest(plain, text)})}

    def write(part: Path) -> None:
        try:
            save_file(plain, part, metadata=head)
        except SafetensorError as error:  # what a full disk becomes there
            raise OSError(f"{path} could not be written: {error}") from error

    write_atomically(path, write)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors (on the processor) and the values; a `BadFile` if they are not what was written.

    The values of a file from elsewhere are empty, and its tensors are used as they are.
    """
    text, mark = _head(path)
    with reading(path, KIND), safe_open(path, framework="pt") as file:
        names = file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    if mark and _digest(tensors, text) != mark:
        raise BadFile(f"{path} is damaged: it does not hold what was written; copy it again.")
    with reading(path):
        return tensors, dict(json.loads(text))


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and values that `write_state` wrote; a file from elsewhere is refused."""
    read_values(path)
    return read_tensors(path)


def read_values(path: Path) -> dict[str, Any]:
    """The values alone, without a look at the hash: the tensors may be large."""
    with reading(path):
        values = dict(json.loads(_head(path)[0]))
    if not values:
        raise BadFile(f"{path} is damaged, or not a training state that this package wrote; copy it again.")
    return values


def _head(path: Path) -> tuple[str, str]:
    """The values as text, and the hash; both are empty if a file has none."""
    check_exists(path)
    with reading(path, KIND), safe_open(path, framework="pt") as file:
        found = file.metadata() or {}
        stored = json.loads(found.get(KEY, '{"values": "{}", "sha256": ""}'))
        return str(stored["values"]), str(stored["sha256"])


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """The SHA-256 of tensors by their names, and of a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        content: Any = tensor.reshape(-1).view(torch.uint8).numpy()
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
