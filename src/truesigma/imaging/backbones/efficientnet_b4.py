"""EfficientNet-B4 with drop-connect (stochastic depth per case)."""

from torch import nn

from ..network.timm_features import timm_features

TIMM = "efficientnet_b4"  # what timm calls it, and publishes its weights as


def build(channels: int, *, pretrained: bool = False, drop_connect: float = 0.2) -> tuple[nn.Module, int]:
    """EfficientNet-B4 with drop-connect (stochastic depth per case).

    Arguments:
        channels: of the images.
        pretrained: timm's ImageNet weights.
        drop_connect: the rate at the deepest block; it grows linearly from 0.

    Returns:
        (module giving (case, 1792), 1792)

    >>> build(3)[1]
    1792

    Reference: Tan and Le (2019); Laves et al. (2021), section 5.
    """
    options = {"drop_path_rate": drop_connect}
    return timm_features(TIMM, channels, pretrained=pretrained, options=options)
