"""Claims on prediction intervals: how many targets they hold, before and after recalibration."""

from ..drawing import title
from ..paper import Paper
from ..text import percent
from .verdict import HOLDS, OPEN, PART, Verdict, each, open_verdict, over_all

BAND_99 = (0.98, 0.999)  # "approximately 99 %": no more than twice the misses that it promises


def held(paper: Paper, name: str, recalibration: str, level: float) -> float:
    """Observed share in the interval of a level, mean over the repeated test runs (factor of recipe exact)."""
    return float(paper.score(name, "exact", recalibration, "coverage", level=level)["value"])


def bone_age_90(paper: Paper) -> Verdict:
    """The raw 90 % interval holds 40 to 60 %, after sigma scaling 85 to 95 %; in part: the raw one below 85 %."""
    name = paper.in_regime("boneage_densenet201")
    if name not in paper.judged():
        return open_verdict(paper, name)
    raw, aux, sigma = (held(paper, name, r, 0.9) for r in ("none", "aux", "sigma"))
    low, fixed = 0.4 <= raw <= 0.6, 0.85 <= sigma <= 0.95
    word = HOLDS if low and fixed else PART if raw < 0.85 and fixed else "does not hold"
    text = f"Raw {percent(raw)}, aux {percent(aux)}, σ scaling {percent(sigma)}."
    if raw >= 0.85:
        run = paper.result(name)
        text += (
            f" This network is not too sure: after {run.about['epochs']} epochs its test error is {run.overfitted:.2f} "
            "times that of training, see Overfitting decides the factor."
        )
    return Verdict(word, text)


def too_narrow(paper: Paper) -> Verdict:
    """The raw 90 % interval holds less than 90 %."""
    values = {name: held(paper, name, "none", 0.9) for name in paper.judged()}
    said = {name: percent(value) for name, value in values.items()}
    # Outputs of a case err alike: a case counts once.
    sizes = {name: paper.cases(name, "test")[0].target.shape[0] for name in values}
    close = [title(paper, n) for n, v in values.items() if 0 < 0.9 - v < 2 * (0.9 * 0.1 / sizes[n]) ** 0.5]
    within = f" By less than two standard errors of the test cases: {'; '.join(close)}." if close else ""
    text = f"The raw 90 % interval holds: {each(paper, said)}{within}"
    return over_all({name: value < 0.9 for name, value in values.items()}, text)


def holds_99(paper: Paper) -> Verdict:
    """After aux and sigma scaling the 99 % interval misses some cases, but at most twice as many as it promises."""
    low, high = BAND_99
    found, said = {}, {}
    for name in paper.judged():
        raw, aux, sigma = (held(paper, name, r, 0.99) for r in ("none", "aux", "sigma"))
        found[name] = all(low <= v <= high for v in (aux, sigma))
        said[name] = f"raw {percent(raw)}, aux {percent(aux)}, σ {percent(sigma)}"
    return over_all(found, f"Called 99 %: {percent(low)} to {percent(high)}. " + each(paper, said))


def lower_too_wide(paper: Paper) -> Verdict:
    """After sigma scaling the 50 % interval holds more than 52 % in some network."""
    values = {name: held(paper, name, "sigma", 0.5) for name in paper.judged()}
    if not values:
        return Verdict(OPEN, "no network of the tables has been run")
    raw = {name: held(paper, name, "none", 0.5) for name in values}
    wide = [name for name, value in values.items() if value > 0.52]
    grew = sum(values[name] > raw[name] for name in wide)
    said = each(paper, {n: f"{percent(raw[n])} → {percent(value)}" for n, value in values.items()})
    return Verdict(
        HOLDS if wide else "does not hold",
        f"{len(wide)} of {len(values)} networks above 52 %; σ scaling made {grew} of them wider, the others were so "
        f"before. The 50 % interval before → after σ scaling holds: {said}",
    )
