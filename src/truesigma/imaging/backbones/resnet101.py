"""ResNet-101 with dropout after each of its four stages."""

from torch import nn

from ..network.timm_features import timm_features

TIMM = "resnet101.tv_in1k"  # what timm calls it, and publishes its weights as


def build(channels: int, *, pretrained: bool = False, stage_dropout: float = 0.2) -> tuple[nn.Module, int]:
    """ResNet-101 with dropout after each of its four stages.

    Arguments:
        channels: of the images.
        pretrained: torchvision's ImageNet weights, as in the paper.
        stage_dropout: the probability after each stage; otherwise the recipe's.

    Returns:
        (module giving (case, 2048), 2048)

    >>> build(3)[1]
    2048

    Reference: He et al. (2016); dropout as in Laves et al. (2021), section 5.
    """
    net, features = timm_features(TIMM, channels, pretrained=pretrained, options={})
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        assert isinstance(stage, nn.Sequential)
        # appended inside the stage: the names of the weights stay those that other people's files use
        stage.append(nn.Dropout(stage_dropout))
    return net, features
