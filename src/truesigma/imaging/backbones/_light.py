"""What the light networks share: stages that halve the image, and a layer behind a pooled map."""

from collections.abc import Sequence

from torch import nn

FEATURES = 128
LAYERS = {
    2: (nn.Conv2d, nn.BatchNorm2d, nn.AdaptiveAvgPool2d),
    3: (nn.Conv3d, nn.BatchNorm3d, nn.AdaptiveAvgPool3d),
}


def light(
    dimensions: int, channels: int, widths: Sequence[int], places: int, dropout: float
) -> tuple[nn.Module, int]:
    """A stage for each width: convolution, batch norm, ReLU, dropout; then the map at so many places a side."""
    conv, norm, pool = LAYERS[dimensions]
    layers: list[nn.Module] = []
    before = channels
    for width in widths:
        layers += [
            conv(before, width, 3, stride=2, padding=1, bias=False),
            norm(width),
            nn.ReLU(),
            nn.Dropout(dropout),
        ]
        before = width
    layers += [pool(places), nn.Flatten(), nn.Linear(before * places**dimensions, FEATURES), nn.ReLU()]
    return nn.Sequential(*layers), FEATURES


def no_weights(name: str, pretrained: bool) -> None:
    """Refuse to look for weights that nobody has trained."""
    if pretrained:
        raise ValueError(
            f"backbone {name!r} has no pretrained weights; give a file (weights=...) or pretrained=False"
        )
