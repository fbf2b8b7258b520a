"""The two-head network: features -> (mean, log-variance)."""

import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core import plugins
from ...core.arrays import Host
from ..recipe import TrainingRecipe, from_dict
from .randomness import SEEDING
from .weights import load_weights

__all__ = ["TwoHead", "build", "rebuild"]

# the variance of a target spread evenly over [0, 1]: what a network that knows nothing should say
FIRST_LOG_VARIANCE = -math.log(12.0)
SMALLEST_VARIANCE = 1e-8  # that a head starts with, if the targets have none
NEAR_ZERO = 1e-4  # share of the targets' range below which errors of a root do not shrink further
OPEN = np.array([math.inf])  # a bound that is none
TINY = 1e-8  # that keeps the slope of a root finite


class Standardise(nn.Module):
    """Standardise features by their running mean and sd; like batch norm, but for batches of any size.

    Features grow as the mean needs them. A head that cannot shape them would otherwise learn most from the largest.

    >>> Standardise(2).eval()(torch.tensor([[1.0, -2.0]]))
    tensor([[ 1., -2.]])
    """

    mean: Tensor
    variance: Tensor
    seen: Tensor

    def __init__(self, features: int, rate: float = 0.1, smallest: float = 1e-5) -> None:
        """A batch counts for `rate` of the running means; the first batches count equally."""
        super().__init__()
        self.rate, self.smallest = rate, smallest
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        """(case, feature) -> the same."""
        if self.training:
            with torch.no_grad():
                self.seen += 1
                share = (1 / self.seen).clamp(min=self.rate)
                # Not as a difference of mean squares: float32 would lose the sd of features far from 0.
                apart = x.mean(0) - self.mean
                self.variance.lerp_(x.var(0, correction=0), share).add_(share * (1 - share) * apart.square())
                self.mean.lerp_(x.mean(0), share)
        return (x - self.mean) * self.variance.clamp(min=self.smallest).rsqrt()


class Within(nn.Module):
    """Keep log-variances within bounds that are learned with them: far from all cases, exponentials know no limit.

    >>> Within(2)(torch.tensor([[3.0, -200.0]]))
    tensor([[   3., -200.]])
    """

    low: Tensor
    high: Tensor

    def __init__(self, outputs: int) -> None:
        """Without bounds at first."""
        super().__init__()
        self.register_buffer("low", torch.full((outputs,), -math.inf))
        self.register_buffer("high", torch.full((outputs,), math.inf))

    def forward(self, x: Tensor) -> Tensor:
        """(case, output) -> the same."""
        return torch.minimum(torch.maximum(x, self.low), self.high)


class TwoHead(nn.Module):
    """A backbone with two heads: the mean, and the log-variance (Gaussian) or log b (Laplace).

    backbone: gives (case, features). features: how many. outputs: of the target.
    dropout: probability before the heads. variances: "one" per case, as in the paper, or "each" output its own.
    heads: "linear", or "deep" (ReLU, then two layers with a leaky ReLU each, as in the published code).
    inputs: numbers beside the image, as that many constant planes after its channels; they go into both heads with the
    features, and are never dropped.
    link: "root" if the first head gives the square root of the mean, as suits counts, whose errors grow with them; the
    second head is then for errors of the root. Both leave the network as mean and log-variance all the same.
    detached: the second head takes the features as given, standardised, and does not shape them, as the loss `faithful`
    needs. It then sees the signs of the backbone's maps, too, which come behind the features (see `Watched`).

    >>> from truesigma.imaging.backbones import small
    >>> net = TwoHead(*small.build(1), outputs=3, dropout=0.2)
    >>> mean, log_variance = net(torch.zeros(2, 1, 64, 64))
    >>> mean.shape, log_variance.shape
    (torch.Size([2, 3]), torch.Size([2, 1]))

    Reference: Laves et al. (2021), Eq. 4; Nix and Weigend (1994).
    """

    def __init__(
        self,
        backbone: nn.Module,
        features: int,
        outputs: int,
        *,
        dropout: float,
        variances: str = "one",
        heads: str = "linear",
        detached: bool = False,
        inputs: int = 0,
        link: str = "",
    ) -> None:
        """Make the heads; the second one starts near the variance of a target spread evenly over [0, 1]."""
        super().__init__()
        if variances not in ("one", "each"):
            raise ValueError(
                f"variances = {variances!r}: expected 'one' (per case) or 'each' (output its own)"
            )
        if heads not in ("linear", "deep"):
            raise ValueError(f"heads = {heads!r}: expected 'linear' or 'deep'")
        if link not in ("", "root"):
            raise ValueError(f"link = {link!r}: expected '' or 'root'")
        self.backbone, self.detached, self.inputs, self.link = backbone, detached, inputs, link
        self.before = nn.ReLU() if heads == "deep" else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.signs = getattr(backbone, "signs", 0)
        known = features - self.signs + inputs
        self.mean = _head(known, outputs, heads)
        second = known + (self.signs if detached else 0)
        self.log_variance = _head(second, 1 if variances == "one" else outputs, heads, detached)
        last = self._last
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=1e-3)
        nn.init.constant_(last.bias, FIRST_LOG_VARIANCE)
        start = self.mean[-1] if isinstance(self.mean, nn.Sequential) else self.mean
        if link and isinstance(start, nn.Linear):
            nn.init.constant_(start.bias, 0.5)  # on one side of zero
        self.plan: dict[str, Any] | None = None  # how `build` made it, so that a run can be read back

    @property
    def _last(self) -> nn.Module:
        """The last layer of the second head that has weights."""
        *_, last = (layer for layer in self.log_variance.modules() if not isinstance(layer, Within))
        return last

    def expect(self, variance: Tensor) -> None:
        """Start the second head at a variance for each output, the same for all cases; one that has learned stays.

        >>> net = TwoHead(nn.Flatten(), 4, 2, dropout=0.0, variances="each")
        >>> net.expect(torch.tensor([0.5, 0.02]))
        >>> net(torch.rand(1, 1, 2, 2))[1].exp()
        tensor([[0.5000, 0.0200]], grad_fn=<ExpBackward0>)
        """
        last = self._last
        if not isinstance(last, nn.Linear) or bool((last.bias != torch.tensor(FIRST_LOG_VARIANCE)).any()):
            return
        known = variance if len(last.bias) > 1 else variance.mean()
        nn.init.zeros_(last.weight)
        with torch.no_grad():
            last.bias.copy_(known.clamp(min=SMALLEST_VARIANCE).log())

    def follow(self, weight: Host, bias: Host, low: Host = -OPEN, high: Host = OPEN) -> None:
        """Give the second head's last layer slopes (output, sign) and constants; one row is for all outputs.

        low, high: bounds of what it says, (output,).
        """
        last = self._last
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.copy_(torch.from_numpy(weight).expand_as(last.weight))
            last.bias.copy_(torch.from_numpy(bias).expand_as(last.bias))
            for bound, value in zip(self._bounds, (low, high)):
                bound.copy_(torch.from_numpy(value))

    @property
    def _bounds(self) -> list[Tensor]:
        return [
            b for layer in self.log_variance.modules() if isinstance(layer, Within) for b in layer.buffers()
        ]

    def evidence(self, features: Tensor, beside: Tensor | None) -> Tensor:
        """What the second head's last layer sees of the parts that `shared` gives."""
        x = features if beside is None else torch.cat([features, beside.to(features)], 1)
        return (
            self.log_variance[: -2 if self.detached else -1](x)
            if isinstance(self.log_variance, nn.Sequential)
            else x
        )

    def scale_variance(self, factor: Tensor, likelihood: str) -> None:
        """Multiply the variance of each output by a factor; one for all outputs by their mean factor.

        >>> net = TwoHead(nn.Flatten(), 4, 2, dropout=0.0, variances="each")
        >>> net.expect(torch.tensor([0.5, 0.02]))
        >>> net.scale_variance(torch.tensor([2.0, 1.0]), "gaussian")
        >>> net(torch.rand(1, 1, 2, 2))[1].exp()
        tensor([[1.0000, 0.0200]], grad_fn=<ExpBackward0>)
        """
        last = self._last
        assert isinstance(last, nn.Linear)
        change = (factor if len(last.bias) > 1 else factor.mean()).log()
        change = change if likelihood == "gaussian" else change / 2
        with torch.no_grad():
            last.bias.add_(change)
            for bound in self._bounds:
                bound.add_(change)

    def aim(
        self,
        points: Sequence[Sequence[int]],
        offset: Sequence[float],
        factor: Sequence[float],
        space: Sequence[int],
    ) -> None:
        """Start the mean at the places that a backbone with heat maps finds, for outputs that are coordinates.

        points: the outputs of each, x first. offset, factor: of each output, from scaled targets to pixels.
        space: sides of the images, in pixels, x last.
        """
        known = getattr(self.backbone, "points", 0)
        if not known or not isinstance(self.mean, nn.Linear):
            return
        if known != len(points):
            raise ValueError(f"the backbone finds {known} points, and the data has {len(points)}")
        with torch.no_grad():
            self.mean.weight.zero_()
            for point, outputs in enumerate(points):
                for axis, (output, side) in enumerate(zip(outputs, reversed(space))):
                    # A share s of the side is the pixel s side - 1/2.
                    self.mean.weight[output, 2 * point + axis] = side / factor[output]
                    self.mean.bias[output] = -(0.5 + offset[output]) / factor[output]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images (case, channel, *space) -> mean (case, output), log-variance (case, 1) or (case, output)."""
        return self.drawn(*self.shared(x))

    def shared(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The part before the dropout of the heads: (features, the numbers beside the image and the signs or None)."""
        beside = []
        if self.inputs:
            x, numbers = x[:, : -self.inputs], x[:, -self.inputs :].flatten(2)[:, :, 0]
            beside.append(numbers)
        features = self.backbone(x)
        if self.signs:
            features, signs = features[:, : -self.signs], features[:, -self.signs :]
            beside += [signs] if self.detached else []
        return self.before(features), torch.cat(beside, 1) if beside else None

    def drawn(self, features: Tensor, beside: Tensor | None) -> tuple[Tensor, Tensor]:
        """The rest: dropout, and the two heads."""
        features = self.dropout(features)
        if torch.is_autocast_enabled(features.device.type):
            # bfloat16 has 8 bits: a mean near 1 would be rounded by 0.002, more than a good network's error
            with torch.autocast(features.device.type, enabled=False):
                return self._heads(features.float(), beside)
        return self._heads(features, beside)

    def _heads(self, features: Tensor, beside: Tensor | None) -> tuple[Tensor, Tensor]:
        features = features if beside is None else torch.cat([features, beside.to(features)], 1)
        mean = self.mean(features[:, : -self.signs] if self.signs and self.detached else features)
        second = self.log_variance(features.detach() if self.detached else features)
        if self.link:
            mean = mean.square()
            second = second + slope(mean.detach())
        return mean, second


def slope(mean: Tensor) -> Tensor:
    """The logarithm of the squared slope of the square, at the root of a mean: what variances of roots are times.

    >>> slope(torch.tensor([0.25])).exp()
    tensor([1.0004])
    """
    return (4 * (mean + NEAR_ZERO)).log()


def rooted(mean: Tensor, second: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Convert outputs and target of a network with the link "root" to what it learns: roots, and their errors."""
    return (mean + TINY).sqrt(), second - slope(mean.detach()), (target.clamp(min=0) + TINY).sqrt()


def build(
    backbone: str,
    channels: int,
    outputs: int,
    recipe: TrainingRecipe,
    *,
    variances: str = "one",
    pretrained: bool = False,
    weights: str | Path | None = None,
    seed: int | None = None,
    inputs: int = 0,
    link: str = "",
) -> TwoHead:
    """A two-head network by the name of its backbone.

    backbone: a file name in imaging/backbones, `timm:NAME`, or the path of a .py file with `build`; options of its
    own follow the name, as in `densenet201:layer_dropout=0.1`.
    channels, outputs: of the data set. recipe: its [network] table gives heads and dropout.
    pretrained: the backbone's published weights, through timm. weights: a file instead (see `load_weights`).
    seed: of the random first weights; None takes torch's generator as it is.
    inputs: numbers beside the image, `len(data.inputs)`. link: as for `TwoHead`.
    Returns the network on the processor, in training mode.

    >>> net = build("small", 1, 2, TrainingRecipe(), seed=0)
    >>> net.plan["backbone"]
    'small'
    """
    for name, value in (("channels", channels), ("outputs", outputs)):
        if value < 1:
            raise ValueError(f"{name} = {value}: expected at least 1")
    if pretrained and weights is not None:
        raise ValueError("both pretrained=True and a file of weights were given; choose one")
    name, make, options = find_backbone(backbone)
    if "stage_dropout" in inspect.signature(make).parameters:
        options = {"stage_dropout": recipe.stage_dropout, **options}
    dropout = recipe.head_dropout.get(name, recipe.head_dropout["other"])
    with SEEDING, torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        made, features = make(channels, pretrained=pretrained, **options)
        net = TwoHead(
            made,
            features,
            outputs,
            dropout=dropout,
            variances=variances,
            heads=recipe.heads,
            detached=recipe.loss == "faithful",
            inputs=inputs,
            link=link,
        )
    net.plan = {
        "backbone": backbone,
        "channels": channels,
        "outputs": outputs,
        "variances": variances,
        "inputs": inputs,
        **({"link": link} if link else {}),
        "recipe": recipe.to_dict(),
    }
    if weights is not None:
        load_weights(net, weights)
    return net


def rebuild(plan: dict[str, Any]) -> TwoHead:
    """The network that `build` made, with new random weights, from its `plan`.

    >>> rebuild(build("small", 1, 2, TrainingRecipe()).plan).mean.out_features
    2
    """
    return build(
        plan["backbone"],
        plan["channels"],
        plan["outputs"],
        from_dict(plan["recipe"]),
        variances=plan["variances"],
        inputs=plan.get("inputs", 0),
        link=plan.get("link", ""),
    )


def _head(features: int, outputs: int, heads: str, apart: bool = False) -> nn.Module:
    if heads == "linear" and not apart:
        return nn.Linear(features, outputs)
    first = [Standardise(features)] if apart else []
    deep = [nn.Linear(features, features), nn.LeakyReLU()] if heads == "deep" else []
    return nn.Sequential(*first, *deep, nn.Linear(features, outputs), *([Within(outputs)] if apart else []))


def find_backbone(backbone: str) -> tuple[str, Callable[..., tuple[nn.Module, int]], dict[str, Any]]:
    """The bare name of a backbone, the build function of its file, and the options its name carries."""
    if backbone.startswith("timm:"):
        from .timm_features import check_timm  # timm takes seconds to import

        model = backbone.removeprefix("timm:")
        check_timm(model)
        return backbone, plugins.load("backbones", "any_timm").build, {"model": model}
    known = plugins.names("backbones")
    if ".py" not in backbone and backbone.partition(":")[0] not in known:
        from .timm_features import near_timm

        near = ", ".join(f"timm:{name}" for name in near_timm(backbone))
        raise ValueError(
            f"no backbones plug-in is called {backbone!r}; expected one of {', '.join(known)}, timm:NAME for any "
            f"network of timm, or a .py file{f'; do you mean {near}?' if near else ''}"
        )
    name, plugin, options = plugins.parse("backbones", backbone)
    return name, plugin.build, options


def published_weights(backbone: str) -> tuple[bool, bool]:
    """Whether timm publishes weights of a backbone, and whether they are on this machine already.

    >>> published_weights("small")
    (False, False)
    """
    timms_own = backbone.startswith("timm:")
    plugin = None if timms_own else plugins.parse("backbones", backbone)[1]
    model = backbone.removeprefix("timm:") if timms_own else getattr(plugin, "TIMM", "")
    if not model:
        return False, False
    from .timm_features import is_cached, is_published

    return is_published(model), is_cached(model)
