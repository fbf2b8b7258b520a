"""The plans that may compete for a project: how large images are, which network, from which weights, what it learns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .project import Project

if TYPE_CHECKING:
    from ..imaging.data.dataset import DataSet

SIDES = (112, 160, 256)  # pixels of the longest side
APART = 1.2  # ratio below which two sides are as good as one
PRETRAINED = 160  # pixels of the longest side, for a network that takes ten times as long
SKEWED = 0.25  # share of the targets' range below which their median lies
ENOUGH, FEW = 15, 2  # epochs that a network needs at least: one that starts anew, and one that does not
RATE, PUBLISHED_RATE = 2e-3, 2e-4  # of new weights, and of those that start from published ones


@dataclass(frozen=True)
class Contender:
    """A candidate plan: settings of a project, by table.

    least: epochs below which it is not worth trying; 1 if it has no more, since its features are given.
    """

    name: str
    settings: Mapping[str, Mapping[str, Any]]
    least: int

    @property
    def fitted(self) -> bool:
        """Whether nothing is trained: the best linear reading of features, at once."""
        return self.least == 1

    def beside(self, other: "Contender") -> "Contender":
        """The mean of networks by this plan and by one whose features are given, which sees the same images."""
        both = " + ".join(str(one.settings["network"]["backbone"]) for one in (self, other))
        return _with(self, f"{self.name} + {other.name}", network={"backbone": both})


def plans_of(project: Project, data: "DataSet") -> list[Contender]:
    """List what is worth trying on these images, the quickest first."""
    from ..imaging.backbones.efficientnet_lite0 import packaged

    space = data.splits["train"].shape[1:]
    longest = max(space)
    if len(space) == 3:
        shares = [0.7, 1.0] if min(space) > 32 else [1.0]
        nets = [_plan(project, space, "small3d", "small3d", share * longest) for share in shares]
        cells = [_plan(project, space, "cells", "cells", share * longest, least=1) for share in shares]
        return [*cells, *nets]
    sides = [side for side in SIDES if side * APART < longest]
    sides = [*sides, min(SIDES[-1], longest)]
    small = _plan(project, space, "small", "pooled", sides[0])
    if data.places is not None:
        net = f"points:points={len(data.places.points)}"
        return [*(_plan(project, space, "points", net, side) for side in sides), small]
    residual = [
        _plan(project, space, "residual", "small:coarse=true" if side > SIDES[0] else "small", side)
        for side in sides
        if side > SIDES[0] or side == longest
    ]
    plans = [small, *residual]
    if project.network.weights or packaged() is not None:
        features = _pretrained(project, space, frozen=True)
        plans = [features, *(_seeing(features, plan) for plan in plans), _pretrained(project, space)]
    # Where a few cases have many times as much as most, errors grow with the target, as those of counts do.
    skewed = bool((data.splits["train"].target.median(0).values < SKEWED).all())
    if skewed and bool((data.offset >= 0).all()) and project.network.likelihood == "gaussian":
        return [*(_rooted(plan) for plan in plans), small]
    return plans


def _pretrained(project: Project, space: Sequence[int], frozen: bool = False) -> Contender:
    """The plan that starts from published weights, or from the file that the user has given; frozen: ends there."""
    name, how, least = ("features", "frozen", 1) if frozen else ("pretrained", "settled", FEW)
    plan = _plan(project, space, name, f"efficientnet_lite0:{how}=true", PRETRAINED, least)
    given = project.network.weights
    each = project.options.get("normalise") == "image"
    return _with(
        plan,
        plan.name,
        data={"normalise": "image" if each else "half"},
        network={"pretrained": not given, "weights": given},
        train={"learning_rate": PUBLISHED_RATE},
    )


def _seeing(features: Contender, plan: Contender) -> Contender:
    """The plan with images that are normalised as those of features, if they are as large: then both have a mean."""
    seen = features.settings["data"]
    sized = {key: value for key, value in seen.items() if key != "normalise"}
    return _with(plan, plan.name, data=seen) if plan.settings["data"] == sized else plan


def _rooted(plan: Contender) -> Contender:
    return _with(plan, f"{plan.name} root", network={"link": "root"})


def _with(plan: Contender, name: str, **settings: Mapping[str, Any]) -> Contender:
    """The plan by another name, with some settings changed."""
    changed = {table: {**plan.settings[table], **values} for table, values in settings.items()}
    return Contender(name, {**plan.settings, **changed}, plan.least)


def _plan(
    project: Project, space: Sequence[int], name: str, backbone: str, longest: float, least: int = 0
) -> Contender:
    """The plan of a backbone that starts anew, for images whose longest side has so many pixels, or as many as now."""
    by = min(1.0, longest / max(space))
    settings: dict[str, dict[str, Any]] = {
        "data": _smaller(project, space, by) if by < 1 else {},
        "network": {
            "backbone": backbone,
            "stage_dropout": 0.0,
            "head_dropout": 0.0,
            "weights": "",
            "pretrained": False,
        },
        "train": {"batch": 16, "learning_rate": RATE},
        "sample": {"method": "ensemble"},
    }
    return Contender(f"{name} {round(by * max(space))}", settings, least or ENOUGH)


def _smaller(project: Project, space: Sequence[int], by: float) -> dict[str, Any]:
    """The options for images whose sides are `by` times as long."""
    sides = [8 * max(2, round(by * side / 8 + 0.25)) for side in space]
    made: dict[str, Any] = {"size": ",".join(map(str, sides)) if len(set(sides)) > 1 else sides[0]}
    if scale := project.options.get("mm_per_pixel"):
        made["mm_per_pixel"] = ",".join(f"{float(one) / by:.6g}" for one in str(scale).split(","))
    if shift := project.options.get("shift"):
        made["shift"] = max(1, round(by * shift))
    return made
