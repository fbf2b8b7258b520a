"""DenseNet-201 with dropout after every dense layer."""

from torch import nn

from ..network.timm_features import timm_features


def build(channels: int, *, pretrained: bool = False, layer_dropout: float = 0.2) -> tuple[nn.Module, int]:
    """DenseNet-201 with dropout after every dense layer.

    Arguments:
        channels: of the images.
        pretrained: torchvision's ImageNet weights, as in the paper.
        layer_dropout: the probability.

    Returns:
        (module giving (case, 1920), 1920)

    >>> build(1)[1]
    1920

    Reference: Huang et al. (2017), section 4.2; Laves et al. (2021), section 5.
    """
    options = {"proj_drop_rate": layer_dropout}
    return timm_features("densenet201.tv_in1k", channels, pretrained=pretrained, options=options)
