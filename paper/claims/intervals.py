"""Claims on prediction intervals: how many targets they hold, before and after recalibration."""

from ..paper import Paper
from ..text import percent
from .verdict import UNKNOWN, Verdict, each, open_verdict, over_networks

BAND_99 = (0.98, 0.999)  # "approximately 99 %": no more than twice the misses that it promises


def held(paper: Paper, name: str, recalibration: str, level: float) -> float:
    """Observed share in the interval of a level, mean over the repeated test runs (factor of recipe exact)."""
    return float(paper.score(name, "exact", recalibration, "coverage", level=level)["value"])


def bone_age_90(paper: Paper) -> Verdict:
    """One network, which says nothing of what another seed would hold."""
    name = paper.in_regime("boneage_densenet201")
    if name not in paper.judged():
        return open_verdict(paper, name)
    raw, aux, sigma = (percent(held(paper, name, r, 0.9)) for r in ("none", "aux", "sigma"))
    return Verdict(UNKNOWN, f"Raw {raw}, aux {aux}, σ scaling {sigma}.")


def too_narrow(paper: Paper) -> Verdict:
    """The raw 90 % intervals hold less than 90 % on average over networks."""
    values = {name: held(paper, name, "none", 0.9) for name in paper.judged()}
    said = each(paper, {name: percent(value) for name, value in values.items()})
    return over_networks({name: 0.9 - value for name, value in values.items()}, f"The intervals hold: {said}")


def holds_99(paper: Paper) -> Verdict:
    """After aux and sigma scaling the 99 % interval misses some cases, and at most twice as many as it promises; on
    average over networks."""
    low, high = BAND_99
    found, said = {}, {}
    for name in paper.judged():
        raw, aux, sigma = (held(paper, name, r, 0.99) for r in ("none", "aux", "sigma"))
        found[name] = min(aux - low, sigma - low, high - aux, high - sigma)
        said[name] = f"raw {percent(raw)}, aux {percent(aux)}, σ {percent(sigma)}"
    return over_networks(found, f"Called 99 %: {percent(low)} to {percent(high)}. " + each(paper, said))


def lower_too_wide(paper: Paper) -> Verdict:
    """After sigma scaling the 50 % interval holds more than 52 % on average over networks."""
    values = {name: held(paper, name, "sigma", 0.5) for name in paper.judged()}
    raw = {name: percent(held(paper, name, "none", 0.5)) for name in values}
    said = each(paper, {n: f"{raw[n]} → {percent(value)}" for n, value in values.items()})
    text = f"The 50 % interval before → after σ scaling holds: {said}"
    return over_networks({name: value - 0.52 for name, value in values.items()}, text)
