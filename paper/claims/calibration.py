"""Claims on calibration: underestimated variances, what recalibration does, and which parts and methods help."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import fdtrc

from truesigma import Prediction
from truesigma.recalibrate import sigma as sigma_scaling

from ..drawing import title
from ..paper import FULL, Paper
from ..studies.calibration_size import SEEDS, SIZES, learning_curve
from ..studies.rare import has_far_draws
from ..text import number, percent
from .verdict import (
    ALIKE,
    BY_UCE,
    FAILS,
    HOLDS,
    OPEN,
    UNKNOWN,
    UNSEEN,
    Verdict,
    difference,
    each,
    mean,
    open_verdict,
    over_all,
    over_networks,
)

REPEATS = 5  # test runs of a network


def underestimated(paper: Paper) -> Verdict:
    """s of the total variance (recipe paper) is above 1 on average over networks, by log s."""
    fits: dict[str, Any] = {name: paper.fitted(name, "paper", "sigma") for name in paper.judged()}
    said = {name: f"s = {fit.factor:.2f} ± {fit.standard_error:.2f}" for name, fit in fits.items()}
    small, large = (
        sum(sign * (fit.factor - 1) > 2 * fit.standard_error for fit in fits.values()) for sign in (1, -1)
    )
    text = f"{each(paper, said)} By more than two standard errors above 1: {small}, below: {large}."
    return over_networks({name: math.log(fit.factor) for name, fit in fits.items()}, text)


def recalibration_helps(paper: Paper) -> Verdict:
    """By UCE, which is not judged; shown with aux and with sigma scaling, under both errors."""
    said = {}
    for name in paper.judged():
        texts = []
        for recipe in ("paper", "exact"):
            before, by_aux, by_sigma = (
                number(_uce(paper, name, recipe, r), "uce") for r in ("none", "aux", "sigma")
            )
            texts.append(f"{recipe} {before} → aux {by_aux}, σ {by_sigma}")
        said[name] = " and ".join(texts)
    return _by_uce(paper, said)


def calibrated_stays(paper: Paper) -> Verdict:
    """Of 4000 targets drawn from the model itself, s is within two standard errors of 1."""
    y = np.random.default_rng(0).normal(size=4000)
    known: Any = sigma_scaling.fit(Prediction(0 * y, aleatoric=0 * y + 1, epistemic=0 * y), y)
    kept = abs(known.factor - 1) < 2 * known.standard_error
    return Verdict(HOLDS if kept else FAILS, f"s = {known.factor:.3f} ± {known.standard_error:.3f}.")


def epistemic_helps_small(paper: Paper) -> Verdict:
    """The epistemic part lowers the NLL after sigma scaling on BreastPathQ, more than it does on average elsewhere."""
    gains: dict[str, dict[str, float]] = {}
    texts = []
    for data_set in paper.plan.of_paper:
        names = paper.judged(data_set)
        if not names:
            continue
        alone, whole = (
            [_score(paper, n, "exact", "sigma", "nll", part) for n in names]
            for part in ("aleatoric", "total")
        )
        gains[data_set] = {name: a - b for name, a, b in zip(names, alone, whole)}
        cases = paper.result(names[0]).about["cases"]["train"]
        texts.append(
            f"{paper.plan.data_sets[data_set]} ({cases} training cases, networks: {len(names)}): NLL after σ scaling "
            f"{mean(alone):.3f} aleatoric, {mean(whole):.3f} total nats"
        )
    text = "; ".join(texts) + "."
    if "breastpathq" not in gains or len(gains) < 2:
        missing = "BreastPathQ, the small set, has not been run. "
        return Verdict(OPEN, missing + text if texts else "nothing has been run")
    small = gains.pop("breastpathq")
    large = mean([gain for each_one in gains.values() for gain in each_one.values()])
    return over_networks({name: gain - max(large, 0.0) for name, gain in small.items()}, text)


def aux_overfits(paper: Paper) -> Verdict:
    """With 30 cases aux scaling has a higher test NLL than sigma scaling, on average over networks."""
    texts, small = [], {}
    for name in paper.judged():
        curve = learning_curve(paper, name)
        first, last = curve[0], curve[-1]
        small[name] = first.aux - first.sigma
        texts.append(
            f"{title(paper, name)}: {small[name]:+.3f} nats with {first.cases} cases (at worst "
            f"{first.aux_ends[1] - first.sigma:+.3g}), {last.aux - last.sigma:+.3f} with {last.cases}"
        )
    how = f"fitted on {SIZES[0]} cases (median of {SEEDS} subsets) and on all"
    return over_networks(small, f"Test NLL of aux minus that of σ scaling, {how}. {'; '.join(texts)}.")


def sigma_beats_aux_small(paper: Paper) -> Verdict:
    """By UCE, which is not judged; the other sets are shown for comparison."""
    names = paper.judged("breastpathq")
    names += [name for name in paper.judged() if name not in names]
    both = {
        name: [number(_uce(paper, name, "paper", kind), "uce") for kind in ("aux", "sigma")] for name in names
    }
    return _by_uce(paper, {name: f"aux {aux}, σ {sigma}" for name, (aux, sigma) in both.items()})


def ensemble_worse(paper: Paper) -> Verdict:
    """One ensemble beside one network, by UCE: not judged. The interval of the difference is paired over test cases."""
    said = {}
    for one in paper.plan.ensembles:
        if not one.beside or not paper.has(one.name, one.beside):
            continue
        fit: Any = paper.fitted(one.name, "exact", "sigma")
        joined, single = (
            [_uce(paper, name, "exact", kind) for kind in ("none", "sigma")]
            for name in (one.name, one.beside)
        )
        more = difference(paper, one.beside, one.name, "uce")
        ends = " to ".join(f"{100 * end:+.3f}" for end in more)
        said[one.name] = (
            f"UCE x 100 (exact) {number(joined[0], 'uce')}, after σ scaling with s = {fit.factor:.2f} "
            f"{number(joined[1], 'uce')}; one network {number(single[0], 'uce')}, after σ scaling "
            f"{number(single[1], 'uce')}; the ensemble as it is less that: {ends}"
        )
    lacking = open_verdict(
        paper, *(one.name for one in paper.plan.ensembles if one.name not in said)
    ).evidence
    if not said:
        return Verdict(OPEN, f"No ensemble is complete. {lacking}")
    rest = f" Not looked at: {lacking}." if len(said) < len(paper.plan.ensembles) else ""
    return Verdict(UNKNOWN, f"{BY_UCE}{each(paper, said)} {ALIKE}{rest}")


def location_unchanged(paper: Paper) -> Verdict:
    """No recalibration moves the location: the MSE is the same to the last digit."""
    found = {
        name: len({_score(paper, name, "exact", r, "mse") for r in ("none", "aux", "sigma")}) == 1
        for name in paper.judged()
    }
    return over_all(found, "The MSE is the same number before and after.")


def solvers_agree(paper: Paper) -> Verdict:
    """Closed form and gradient descent give the same factor, to 1e-6 of it."""
    away = {}
    for name in paper.judged():
        valid = paper.cases(name, "valid")[0]
        closed, descended = (
            sigma_scaling.fit(valid, solver=solver).factor for solver in ("closed", "gradient")
        )
        away[name] = abs(closed - descended) / closed
    largest = _above(max(away.values(), default=0.0))
    return over_all(
        {n: off < 1e-6 for n, off in away.items()}, f"Largest relative difference below {largest}."
    )


def oct_error(paper: Paper) -> Verdict:
    """OCT: the test MSE is at or below the paper's (its log has more digits), by the logarithm of their ratio."""
    found, said = {}, {}
    for name in paper.judged("oct"):
        about, run = paper.about(name), paper.result(name)
        ours = _score(paper, name, "exact", "none", "mse")
        printed, log = paper.expected.of((about.data_set, about.network, "total", "none", "mse"))
        assert printed is not None
        found[name] = math.log((log or printed).value / ours)
        theirs = f"paper {printed.printed}" + (f", its log {number(log.value, 'mse')}" if log else "")
        said[name] = f"{number(ours, 'mse')} ({theirs}) after {run.about['epochs']} epochs, kept {run.best}"
    return over_networks(found, each(paper, said)) if found else Verdict(OPEN, "no OCT run yet")


def oct_uce(paper: Paper) -> Verdict:
    """OCT, by the UCE of the mean's error, over outputs, which is not judged."""
    said = {}
    for name in paper.judged("oct"):
        before, after = (
            number(_score(paper, name, "paper", r, "uce_mean"), "uce") for r in ("none", "sigma")
        )
        far = ", see One draw among 25" if has_far_draws(paper, name) else ""
        said[name] = f"{before} → {after}{far}"
    return _by_uce(paper, said)


def seeds_vary(paper: Paper) -> Verdict:
    """The MSE varies more between seeds than between repeated test runs of one network: an F test over all networks."""
    unseen = Verdict(
        OPEN if paper.regime == FULL else UNSEEN, "No second seed."
    )  # none is planned of short runs
    texts, between, within = [], [], []
    for name in paper.judged():
        seeds = (one.name for one in paper.plan.seeds(paper.plan.find(name)))
        runs = [one for one in seeds if paper.run(one) is not None]
        if len(runs) < 2:
            continue
        rows = [paper.score(one, "exact", "none", "mse") for one in runs]
        values, repeats = (np.array([float(row[key] or 0.0) for row in rows]) for key in ("value", "sd"))
        factors = np.array([paper.fitted(one, "exact", "sigma").factor for one in runs])  # type: ignore[attr-defined]
        size, spread = float(values.mean()), float(values.std(ddof=1))
        between += [(spread / size) ** 2] * (len(runs) - 1)
        within += list((repeats / values) ** 2)
        texts.append(
            f"{title(paper, name)}, {len(runs)} seeds: MSE {number(size, 'mse')}, sd over seeds "
            f"{percent(spread / size)} of it, over repeats {percent(repeats[0] / values[0], 2)}; "
            f"s from {factors.min():.2f} to {factors.max():.2f}"
        )
    if not texts:
        return unseen
    ratio = mean(between) / mean(within) if any(within) else math.inf
    chance = float(fdtrc(len(between), (REPEATS - 1) * len(within), ratio))
    return Verdict(HOLDS if ratio > 1 else FAILS, f"{'; '.join(texts)}. F = {ratio:.0f}.", chance)


def _by_uce(paper: Paper, said: Mapping[str, str]) -> Verdict:
    """What rests on the UCE of bins of equal width."""
    if not said:
        return Verdict(OPEN, "no network of the tables has been run")
    return Verdict(UNKNOWN, f"{BY_UCE}UCE x 100: {each(paper, said)}")


def _score(paper: Paper, name: str, recipe: str, kind: str, metric: str, part: str = "total") -> float:
    return float(paper.score(name, recipe, kind, metric, part=part)["value"])


def _uce(paper: Paper, name: str, recipe: str, kind: str, part: str = "total") -> float:
    return _score(paper, name, recipe, kind, "uce", part)


def _above(value: float) -> str:
    """A power of ten that the value is below, so that the text does not follow its last digits."""
    return "1e-12" if value < 1e-12 else f"1e{int(np.ceil(np.log10(value)))}"
