"""A timm network without its classifier, with errors that say what to do."""

import difflib
from typing import Any

import timm
from torch import nn

__all__ = ["timm_features"]


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
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=3)
        hint = f"; close to it: {', '.join(near)}" if near else ""
        raise ValueError(f"timm knows no model {name!r}{hint}")
    try:
        net = timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=channels, **options)
    except Exception as error:  # the hub, its mirrors and the network stack each raise their own kinds
        if not pretrained:
            raise
        raise ValueError(
            f"the pretrained weights of {name} could not be loaded ({type(error).__name__}: {error}). Either run "
            "once where the model hub can be reached, or give a file of weights (weights=..., --weights FILE: "
            "safetensors, or torch's with plain tensors), or start from random weights (pretrained=False)"
        ) from error
    features: Any = getattr(net, "head_hidden_size", None) or net.num_features
    return net, int(features)
