"""What the reproduction taught, as tables of computed numbers: the two errors, the tails, the table's MSE column."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from truesigma import Cases, Prediction, Undefined, evaluate

from ..claims.intervals import held
from ..drawing import title
from ..paper import Paper
from ..studies.rare import far_draws
from ..text import grid, number, percent
from .deviations import beside

LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)
UCE = (("uce", {"error": "mean"}), ("uce", {"error": "draws"}))


def shown(head: Sequence[str], rows: Sequence[Sequence[str]], absent: str = "Not yet run.") -> str:
    """A table; without rows, that nothing was run."""
    return grid(head, rows) if rows else absent


def two_errors(paper: Paper) -> str:
    """UCE under both errors, for factors fitted on both."""
    rows, kinds = [], ("none", "sigma", "sigma:error=draws")
    for name in paper.networks():
        valid, test = paper.cases(name, "valid")[0], paper.cases(name, "test")
        found = evaluate(valid, test, recalibrations=kinds, metrics=UCE, recipe="paper")
        values = [
            row["value"] for row in found.rows
        ]  # none, sigma, sigma on the draws; the mean's error first
        factors: list[Any] = [found.recalibrations[key] for key in kinds[1:]]
        columns = [number(values[k], "uce") for k in (0, 2, 4, 1, 3, 5)]
        rows.append([title(paper, name), *[f"{fit.factor:.2f}" for fit in factors], *columns])
    head = [
        "network", "s (mean)", "s (draws)", "mean: none", "mean: s (mean)", "mean: s (draws)",
        "draws: none", "draws: s (mean)", "draws: s (draws)",
    ]  # fmt: skip
    return shown(head, rows)


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
            found = evaluate(valid, test, recalibrations=("none", "sigma"), metrics=UCE[:1], recipe="paper")
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


def stage_dropout(paper: Paper) -> str:
    """ResNet-101 on OCT with the code's dropout after its stages beside the text's."""
    return beside(paper, ("oct_resnet101", "oct_resnet101_stage05")).strip()


def laplace(paper: Paper) -> str:
    """The Laplace likelihood beside the Gaussian one, where both have been run."""
    rows = []
    for one in (e for e in paper.plan.experiments if e.likelihood == "laplace"):
        twin = paper.plan.match(one.data_set, one.network)
        if twin is None or not paper.has(one.name, twin.name):
            continue
        for name in (twin.name, one.name):
            fit: Any = paper.fitted(name, "exact", "sigma")
            asked = ("none mse", "none mae", "none nll", "sigma nll", "sigma crps", "sigma uce")
            scores = [_plain(paper, name, *words.split()) for words in asked]
            last = percent(held(paper, name, "sigma", 0.99))
            rows.append([title(paper, name), f"{fit.factor:.2f}", *scores, last])
    head = ["network", "s", "MSE", "MAE", "NLL none", "NLL σ", "CRPS σ", "UCE x 100 σ", "99 % holds"]
    return shown(head, rows, "Not yet run: the Laplace run of step 5.")


def _plain(paper: Paper, name: str, recalibration: str, metric: str) -> str:
    """A score; a dash where the law has none."""
    try:
        value = paper.score(name, "exact", recalibration, metric)["value"]
    except Undefined:
        value = None
    return f"{value:.4f}" if metric in ("mae", "crps") and value is not None else number(value, metric)


# By the name of their place in the page.
SECTIONS: dict[str, Callable[[Paper], str]] = {
    one.__name__: one
    for one in (
        overfitting,
        two_errors,
        tails,
        rare_draws,
        by_output,
        without_dropout,
        stage_dropout,
        mixed_column,
        laplace,
    )
}
