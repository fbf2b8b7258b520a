"""What the reproduction taught, as tables of computed numbers: overfitting, the tails, the table's MSE column."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from truesigma import Cases, Prediction, evaluate

from ..claims.intervals import held
from ..drawing import title
from ..paper import Paper
from ..studies.rare import far_draws
from ..text import grid, number, percent

LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)
UCE = (("uce", {"error": "mean"}),)


def shown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; without rows, that nothing was run."""
    return grid(head, rows) if rows else "Not yet run."


def tails(paper: Paper) -> str:
    """Observed shares of the intervals after sigma scaling, to the far tails, and the kurtosis of z."""
    rows = []
    for name in paper.networks():
        shares = [percent(held(paper, name, "sigma", level), 2) for level in LEVELS[:-1]]
        predictions, targets = paper.predictions(name, "test", "exact", "sigma")
        z = np.concatenate([((y - p.location) / p.scale).ravel() for p, y in zip(predictions, targets)])
        far = percent(float(np.mean(np.abs(z) <= predictions[0].law.quantile((1 + LEVELS[-1]) / 2))), 2)
        kurtosis = float(np.mean(z**4) / np.mean(z**2) ** 2)
        rows.append([title(paper, name), *shares, far, f"{np.abs(z).max():.1f}", f"{kurtosis:.1f}"])
    return shown(["network", *[f"{100 * level:g} %" for level in LEVELS], "largest z", "kurtosis (3)"], rows)


def rare_draws(paper: Paper) -> str:
    """How often one draw's variance lies far above the others of its case, and what the mean over draws makes of it."""
    rows = []
    for name in paper.networks():
        run = paper.result(name)
        far = far_draws(run.draws("test"))
        shares = [percent(float(far.mean()), 2), percent(float(far.any(axis=1).mean()), 1)]
        scores = []
        for middle in (False, True):
            (valid, *_), test = (
                [_typical(one) if middle else one for one in run.cases(split)] for split in ("valid", "test")
            )
            found = evaluate(valid, test, recalibrations=("none", "sigma"), metrics=UCE, recipe="paper")
            scores += [number(row["value"], "uce") for row in found.rows]
        variances = [number(run.kept(f"{split}_variance"), "mse") for split in ("train", "test")]
        rows.append([title(paper, name), *shares, *scores, *variances])
    head = ["network", "draws", "cases", "mean: none", "mean: σ", "median: none", "median: σ"]
    return shown([*head, "variance in training", "variance on test"], rows)


def _typical(cases: Cases) -> Cases:
    """The same cases with the median of the draws' variances as aleatoric part."""
    assert cases.draws is not None
    one = cases.prediction
    typical = np.broadcast_to(np.median(cases.draws.variance, axis=0), one.location.shape)
    middle = Prediction(one.location, aleatoric=typical, epistemic=one.epistemic, law=one.law)
    return Cases(middle, cases.target)


def mixed_column(paper: Paper) -> str:
    """Which of the two published errors each MSE of Table 1 prints."""
    rows, expected, plan = [], paper.expected, paper.plan
    for key, one in expected.paper.items():
        if key[4] != "mse":
            continue
        logs = [expected.log[(key[0], key[1], part, "none", "mse")].value for part in ("aleatoric", "total")]
        nearest = int(abs(logs[1] - one.value) < abs(logs[0] - one.value))
        nearer = ("error of the mean", "error of the draws")[nearest]
        both = (number(value, "mse") for value in logs)
        rows.append([plan.data_sets[key[0]], plan.networks[key[1]], one.printed, *both, nearer])
    head = ["data set", "network", "Table 1", "log, error of the mean", "log, error of the draws", "nearer"]
    return grid(head, rows)


def overfitting(paper: Paper) -> str:
    """The factor of the aleatoric part at the kept epoch, beside the root of test over training error."""
    rows = []
    for name in ["simulated_small", *paper.networks()]:
        run = paper.run(name)
        if run is None:
            continue
        fit: Any = paper.fitted(name, "exact", "sigma")
        errors = (number(run.kept(f"{split}_mse"), "mse") for split in ("train", "test"))
        factors = (f"{s:.2f}" for s in (np.sqrt(run.overfitted), run.kept("test_factor"), fit.factor))
        rows.append([title(paper, name), *errors, *factors])
    head = ["network", "train MSE", "test MSE", "root of test / train", "s, aleatoric", "s, total"]
    return shown(head, rows)


def by_output(paper: Paper) -> str:
    """One factor for all outputs beside one for each: their scores, and what intervals of single outputs hold."""
    rows, labels = [], ("sigma", "sigma_by_output")
    for name in paper.networks():
        valid, test = paper.cases(name, "valid")[0], paper.cases(name, "test")
        if test[0].prediction.location.ndim < 2 or test[0].prediction.location.shape[1] < 2:
            continue
        found = evaluate(valid, test, recalibrations=labels, metrics=("nll", "crps"), recipe="exact")
        fits: list[Any] = [found.recalibrations[label] for label in labels]
        held_by = []
        for fit in fits:
            shares = np.mean([_held(fit(one.prediction), one.target) for one in test], axis=0)
            held_by.append(f"{percent(shares.min(), 0).removesuffix(' %')} to {percent(shares.max(), 0)}")
        factors = fits[1].factors
        scores = [f"{found.value(label, m):.4f}" for m in ("nll", "crps") for label in labels]
        ends = f"{min(factors):.2f} to {max(factors):.2f}"
        rows.append([title(paper, name), f"{fits[0].factor:.2f}", ends, *scores, *held_by])
    head = ["network", "s", "s by output", "NLL σ", "NLL by output", "CRPS σ", "CRPS by output"]
    return shown([*head, "90 % holds, σ", "by output"], rows)


def _held(prediction: Prediction, target: Any) -> Any:
    """The share of each output's targets within its 90 % intervals."""
    low, high = prediction.interval(0.9)
    return np.mean((target >= low) & (target <= high), axis=0)


def without_dropout(paper: Paper) -> str:
    """The error of the draws beside that of one pass without dropout, at the kept epoch and at the last one."""
    rows = []
    for one, run in paper.finished():
        errors = (number(run.error("test", member=member), "mse") for member in (False, True))
        drawn = number(run.column("valid_mse")[-1], "mse") if run.validated_with_dropout else "–"
        passes = run.column("valid_mse_one_pass" if run.validated_with_dropout else "valid_mse")
        single = passes[np.isfinite(passes)][-1]  # of the last epoch in which it was measured
        last = [number(run.column("train_mse")[-1], "mse"), drawn, number(single, "mse")]
        rows.append([one.name, str(run.best), *errors, str(run.about["epochs"]), *last])
    head = ["run", "kept", "draws", "one pass", "last", "train", "valid, draws", "valid, one pass"]
    return shown(head, rows)


# By the name of their place in the page.
SECTIONS: dict[str, Callable[[Paper], str]] = {
    one.__name__: one
    for one in (
        overfitting,
        tails,
        rare_draws,
        by_output,
        without_dropout,
        mixed_column,
    )
}
