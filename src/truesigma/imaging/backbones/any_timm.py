"""Any network of timm by its own name, written `timm:NAME` where a backbone is asked for."""

from torch import nn

from ..network.timm_features import timm_features


def build(channels: int, *, pretrained: bool = False, model: str = "resnet18") -> tuple[nn.Module, int]:
    """Any network of timm by its own name; `timm:NAME` on the command line and in `network.build`.

    Arguments:
        channels: of the images.
        pretrained: timm's weights.
        model: timm's name; its dropout is timm's default, dropout before the heads is ours.

    Returns:
        (module giving (case, features), features)

    >>> build(3, model="resnet34")[1]
    512
    """
    return timm_features(model, channels, pretrained=pretrained, options={})
