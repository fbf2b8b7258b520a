"""EfficientNet-Lite2 with drop-connect (stochastic depth per case)."""

from torch import nn

from ..network.timm_features import timm_features

TIMM = "tf_efficientnet_lite2"  # what timm calls it, and publishes its weights as


def build(channels: int, *, pretrained: bool = False, drop_connect: float = 0.2) -> tuple[nn.Module, int]:
    """EfficientNet-Lite2 with drop-connect (stochastic depth per case).

    Its ImageNet weights, TensorFlow's, expect images (x - 0.5) / 0.5 with x in [0, 1].

    Arguments:
        channels, pretrained, drop_connect: as for `efficientnet_b4`.

    Returns:
        (module giving (case, 1280), 1280)

    >>> build(3)[1]
    1280

    Reference: Tan and Le (2019); Liu, Tan, Le: EfficientNet-Lite (2020).
    """
    options = {"drop_path_rate": drop_connect}
    return timm_features(TIMM, channels, pretrained=pretrained, options=options)
