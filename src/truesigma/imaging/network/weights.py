"""Read a file of weights into a network: a whole two-head network's, or a backbone's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .tensors import read_tensors

__all__ = ["is_whole", "load_weights"]

CLASSIFIERS = ("fc.", "classifier.", "head.", "head_fc.", "last_linear.")


def load_weights(net: nn.Module, file: str | Path) -> None:
    """Read weights into a network, in place.

    A file with names that begin with `backbone.` or `log_variance.` is a whole network's and must fit exactly. Any
    other is a backbone's: it goes into `net.backbone`, its classifier is left out, and a first convolution for another
    number of channels is adapted (the sum over its channels, shared out evenly).
    net: from `build`. file: safetensors, or torch's own format with plain tensors (nothing is unpickled).
    """
    state = _read(Path(file))
    whole = _whole(state)
    target = net if whole else getattr(net, "backbone", net)
    assert isinstance(target, nn.Module)
    wanted = target.state_dict()
    fitted: dict[str, Tensor] = {}
    for name, value in state.items():
        if name in wanted:
            fitted[name] = value if whole else _adapted(value, wanted[name])
        elif whole or not name.startswith(CLASSIFIERS):
            raise ValueError(
                f"{file}: {name!r} is not a weight of this network; is it another backbone's? "
                f"This one has {', '.join(list(wanted)[:3])}, ..."
            )
    # counters that old files lack do not matter to the result
    missing = [name for name in wanted if name not in fitted and not name.endswith("num_batches_tracked")]
    if missing:
        raise ValueError(f"{file} lacks {len(missing)} weights of this network, the first is {missing[0]!r}")
    for name, value in fitted.items():
        if value.shape != wanted[name].shape:
            raise ValueError(
                f"{file}: {name!r} has shape {tuple(value.shape)}, expected {tuple(wanted[name].shape)}; "
                "was it trained with other outputs, heads or channels?"
            )
    target.load_state_dict(fitted, strict=False)


def is_whole(file: str | Path) -> bool:
    """Tell whether a file has the weights of a whole two-head network, not of a backbone alone."""
    return _whole(_read(Path(file)))


def _whole(state: Mapping[str, Tensor]) -> bool:
    return any(name.startswith(("backbone.", "log_variance.")) for name in state)


def _read(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise ValueError(f"no file of weights {file}")
    found: Any
    if file.suffix == ".safetensors":
        found = read_tensors(file)[0]
    else:
        try:
            found = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises pickle's, zip's and its own kinds
            raise ValueError(
                f"{file} could not be read as plain tensors ({type(error).__name__}); save the state_dict alone, "
                "or as safetensors"
            ) from error
        for key in ("state_dict", "model"):
            if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
                found = found[key]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"{file} holds no weights by name; save net.state_dict()")
    return {str(name).removeprefix("module."): value for name, value in found.items()}


def _adapted(value: Tensor, wanted: Tensor) -> Tensor:
    """A convolution for another number of input channels: the same response to a grey image."""
    same = (
        value.ndim == wanted.ndim >= 4
        and value.shape[0] == wanted.shape[0]
        and value.shape[2:] == wanted.shape[2:]
    )
    if value.shape == wanted.shape or not same:
        return value
    return (value.sum(1, keepdim=True) / wanted.shape[1]).expand_as(wanted)
