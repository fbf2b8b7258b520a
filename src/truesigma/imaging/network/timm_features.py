"""A timm network without its classifier, with errors that say what to do."""

import difflib
import os
import socket
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import timm
import torch
from torch import nn

__all__ = ["timm_features"]

HUB = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
SOON = 3.0  # seconds in which it must answer
ELSE = (
    "run once where the model hub can be reached, or give a file of weights (network.weights: safetensors, "
    "or torch's with plain tensors), or start from random weights (pretrained=False)"
)


def timm_features(
    name: str, channels: int, *, pretrained: bool, options: dict[str, Any]
) -> tuple[nn.Module, int]:
    """A timm model that returns pooled features (case, features), and how many those are.

    name: as timm spells it. channels: of the images, any number. options: timm's own, e.g. drop_path_rate.
    Returns (module, features).

    >>> net, features = timm_features("resnet18", 1, pretrained=False, options={})
    >>> features
    512
    """
    check_timm(name)
    if pretrained:
        check_reachable(name)
    try:
        net = timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=channels, **options)
    except Exception as error:  # the hub, its mirrors and the network stack each raise their own kinds
        if not pretrained:
            raise
        raise ValueError(
            f"the pretrained weights of {name} could not be loaded ({type(error).__name__}: {error}). Either {ELSE}"
        ) from error
    features: Any = getattr(net, "head_hidden_size", None) or net.num_features
    return net, int(features)


def check_timm(name: str) -> None:
    """Refuse a name that timm does not know, with those that are close to it."""
    if not timm.is_model(name):
        near = near_timm(name)
        hint = f"; close to it: {', '.join(near)}" if near else ""
        raise ValueError(f"timm knows no model {name!r}{hint}")


def near_timm(name: str) -> list[str]:
    """The names of timm that are close to one."""
    return difflib.get_close_matches(name, timm.list_models(), n=3)


def check_reachable(name: str) -> None:
    """Say at once if published weights are neither on this machine nor within reach; the hub tries for a minute."""
    if is_cached(name):
        return
    try:
        socket.create_connection((urlsplit(HUB).hostname or "", 443), timeout=SOON).close()
    except OSError as error:
        raise ValueError(
            f"the pretrained weights of {name} are not on this machine, and {HUB} cannot be reached ({error}). Either "
            f"{ELSE}"
        ) from error


def is_published(name: str) -> bool:
    """Whether timm publishes weights of a model."""
    known: Any = timm.get_pretrained_cfg(name)
    return known is not None and bool(known.hf_hub_id or known.url)


def is_cached(name: str) -> bool:
    """Whether timm's published weights of a model are on this machine."""
    from huggingface_hub import try_to_load_from_cache

    known: Any = timm.get_pretrained_cfg(name)
    if known is None:
        return False
    files = ("model.safetensors", "pytorch_model.bin")
    if known.hf_hub_id and any(
        isinstance(try_to_load_from_cache(known.hf_hub_id, file), str) for file in files
    ):
        return True
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    return bool(known.url) and (folder / PurePosixPath(known.url).name).is_file()
