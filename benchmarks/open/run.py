"""One set and one seed: networks, sigmas, recalibrations by size of the calibration set, and their scores."""

import contextlib
import io
import json
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import truesigma as ts
from truesigma import imaging, metrics, recalibrate
from truesigma.core.elements import elements_of
from truesigma.core.law import Undefined
from truesigma.files.disk import write_atomically

from .networks import DROPOUT, PROBABILITIES, train
from .sets import SETS, CaseTable

# What is fitted to a network that gives the mean alone; others are networks of their own.
FITTED = ("constant", "laplace", "residual", "distance")
OWN = ("two", "dropout", "ensemble", "quantiles")
CONSTANT = str(Path(__file__).parents[2] / "docs" / "skeletons" / "sigma.py")  # one sigma for all cases
RECALIBRATIONS = ("none", "sigma", "isotonic", "conformal")
SIZES, DRAWS, LEVEL = (50, 200, 1000), 20, 0.9
MEMBERS, PASSES, FOLDS = 5, 25, 5
SCORES = ("crps", "winkler", "held", "width", "rmse", "ause")
Row = dict[str, Any]


class Sigmas:
    """The networks of one seed, and what each method predicts with them."""

    def __init__(self, table: CaseTable, seed: int) -> None:
        known, self.pool, self.test = table.parts(seed)
        self.x, self.y, self.known = table.x, table.y, known
        x, y = table.x[known], table.y[known]
        self.plain = train(x, y, seed=seed)
        self.quantiles = train(x, y, seed=seed, kind="quantiles")
        self.dropout = train(x, y, seed=seed, kind="two", dropout=DROPOUT)
        self.members = [train(x, y, seed=1000 * seed + k, kind="two") for k in range(MEMBERS)]

    def own(self, method: str, rows: Tensor) -> ts.Prediction:
        """Predictions of networks that have a variance of their own."""
        batches = self.x[rows].split(512)
        if method == "dropout":
            return ts.decompose(imaging.dropout_draws(self.dropout, batches, draws=PASSES, seed=0))
        if method == "quantiles":
            with torch.inference_mode():
                found = self.quantiles(self.x[rows]).numpy()
            return ts.Prediction.from_quantiles(dict(zip(PROBABILITIES, found.T[..., None])))
        nets = self.members if method == "ensemble" else self.members[:1]
        return ts.decompose(imaging.ensemble_draws(nets, batches))

    def fitted(self, method: str, held: Tensor, rows: Iterable[Tensor]) -> list[ts.Prediction]:
        """Predictions of the plain network with a sigma that is fitted with held cases."""
        choice = CONSTANT if method == "constant" else method
        sigma = imaging.fit_sigma(self.plain, choice, train=self._cases(self.known), held=self._cases(held))
        return [sigma([self.x[some]]) for some in rows]

    def both(self, method: str, held: Tensor) -> tuple[ts.Prediction, ts.Prediction]:
        """Predictions of held cases, as a recalibration should see them, and of the test cases."""
        if method not in ("residual", "distance"):
            first, second = self.fitted(method, held, [held, self.test])
            return first, second
        fold, parts = torch.arange(len(held)) % FOLDS, []
        for number in range(FOLDS):  # by fits that have not seen them
            parts += self.fitted(method, held[fold != number], [held[fold == number]])
        order = torch.argsort(torch.argsort(fold, stable=True)).numpy()
        location, total = (
            np.concatenate([getattr(one, name) for one in parts])[order] for name in ("location", "total")
        )
        return ts.Prediction(location, variance=total), self.fitted(method, held, [self.test])[0]

    def _cases(self, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [(self.x[rows], self.y[rows])]


def by_case(prediction: ts.Prediction, y: np.ndarray) -> np.ndarray:
    """The CRPS of each case."""
    cases = ts.Cases(prediction, y)
    terms = metrics.crps.terms(elements_of(cases, slice(0, len(cases))))
    parts = terms if isinstance(terms, list) else [(1.0, terms)]
    return np.asarray(sum(factor * np.asarray(part) for factor, part in parts)).ravel()


def crps_of_training(known: np.ndarray, y: np.ndarray) -> float:
    """The mean CRPS of the distribution of the training targets: mean abs(x - y) - mean abs(x - x') / 2."""
    x = np.sort(known.astype(float))
    below = np.searchsorted(x, y)
    sums = np.concatenate([[0.0], np.cumsum(x)])
    first = (y * below - sums[below] + (sums[-1] - sums[below]) - y * (len(x) - below)) / len(x)
    rank = 2 * np.arange(1, len(x) + 1) - len(x) - 1
    return float(first.mean() - (rank * x).sum() / len(x) ** 2)


def scores(prediction: ts.Prediction, y: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """Scores of the test cases, nan where a law has none; and the CRPS by case."""
    given: dict[str, dict[str, Any]] = {
        "held": {"level": LEVEL},
        "winkler": {"level": LEVEL},
        "width": {"level": LEVEL},
    }
    found: dict[str, float] = {}
    for name in SCORES[1:]:
        metric = metrics.coverage if name == "held" else getattr(metrics, name)
        try:
            found[name] = float(metric.score(prediction, y, **given.get(name, {})))
        except Undefined:
            found[name] = float("nan")
    each = np.full(len(y), np.nan)
    if prediction.law.name != "quantiles":  # whose score is another: it is never compared with a CRPS
        with contextlib.suppress(Undefined):
            each = by_case(prediction, y)
    return {"crps": float(each.mean()), **found}, each


def run(
    table: CaseTable, seed: int, methods: Iterable[str], sizes: Iterable[int], draws: int
) -> tuple[list[Row], dict[str, np.ndarray]]:
    """All rows of a set and a seed, averaged over draws of the calibration set; and the CRPS by case."""
    made = Sigmas(table, seed)
    y = table.y[made.test].numpy()[:, None]
    usual = crps_of_training(table.y[made.known].numpy(), y.ravel())
    rows, cases = [], {}
    for method in methods:
        label = Path(method).stem  # of a file of one's own
        own = made.own(method, torch.cat([made.pool, made.test])) if method in OWN else None
        for size in sizes:
            if size > len(made.pool):
                continue
            found: dict[str, list[tuple[dict[str, float], np.ndarray]]] = {}
            for draw in range(draws):
                drawn = np.random.default_rng([seed, draw]).permutation(len(made.pool))[:size]
                held = made.pool[torch.from_numpy(drawn)]
                if own is None:
                    first, test = made.both(method, held)
                else:
                    first, test = own[drawn], own[len(made.pool) :]
                known = table.y[held].numpy()[:, None]
                for name in ("none", "cqr") if method == "quantiles" else RECALIBRATIONS:
                    after = test if name == "none" else getattr(recalibrate, name).fit(first, known)(test)
                    found.setdefault(name, []).append(scores(after, y))
            for name, each in found.items():
                mean = {key: float(np.mean([one[key] for one, _ in each])) for key in SCORES}
                spread = float(np.std([one["held"] for one, _ in each]))
                about = {"set": table.name, "seed": seed, "method": label, "recalibration": name, "n": size}
                rows.append({**about, **mean, "skill": 1 - mean["crps"] / usual, "held_sd": spread})
                cases[f"{label}/{name}/{size}"] = np.mean([one for _, one in each], axis=0).astype(np.float16)
    return rows, cases


def one(folder: Path, name: str, seed: int, methods: tuple[str, ...]) -> str:
    """Do a set and a seed unless its file is there, so that a run that was stopped resumes; in a process of its own."""
    file = folder / f"{name}-{seed}.npz"
    if file.is_file():
        return f"{name}, seed {seed}: done before"
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    began = time.monotonic()
    try:
        rows, cases = run(SETS[name](), seed, methods, SIZES, DRAWS)
    except ValueError as problem:  # some cannot travel from one process to another
        raise RuntimeError(f"{name}, seed {seed}: {problem}") from None
    content: Mapping[str, Any] = {"rows": np.array(json.dumps(rows)), **cases}
    write_atomically(file, lambda part: part.write_bytes(_packed(content)))
    return f"{name}, seed {seed}: {time.monotonic() - began:.0f} s"


def _packed(content: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **content)
    return buffer.getvalue()
