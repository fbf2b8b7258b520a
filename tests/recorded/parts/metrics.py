"""Metrics: every score with every option over laws, masks, weights, outputs and libraries."""

from itertools import product

import numpy as np

import truesigma as ts

from ..book import Book
from ..samples import METRICS, sample, variety

LEVELS = (0.5, 0.9, 0.99)
BINNED = [
    {"bins": bins, "spacing": spacing, "error": error, "outputs": outputs}
    for bins, spacing, error, outputs in product(
        (4, 15), ("width", "mass"), ("mean", "draws"), ("separate", "mean")
    )
]
OPTIONS = {
    "ause": [{"by": "case"}, {"by": "element"}],
    "coverage": [{"level": level} for level in LEVELS],
    "width": [{"level": level} for level in LEVELS],
    "winkler": [{"level": level} for level in LEVELS],
    "nll": [{"outputs": o, "units": u} for o, u in product(("separate", "mean"), ("nats", "table"))],
    "ence": BINNED,
    "uce": [*BINNED, {"closed": False}, {"closed": False, "outputs": "mean", "error": "draws"}],
}


def record(book: Book) -> None:
    for name in METRICS:
        module = getattr(ts.metrics, name)
        book.note(
            f"{name} says", [module.TITLE, module.BETTER, module.UNITS, getattr(module, "PROPER", False)]
        )
    for one in variety():
        for name in METRICS:
            score = getattr(ts.metrics, name).score
            for given in _few(OPTIONS.get(name, [{}]), one.name):
                words = ",".join(f"{k}={v}" for k, v in given.items())
                label = f"{name}({words}) {one.name}"
                book.call(
                    label, score, one.prediction, one.target, weight=one.weight, close=one.close, **given
                )
    recalibrated(book)
    refusals(book)


def _few(options: list[dict], name: str) -> list[dict]:
    """All options on plain samples, some on the others."""
    whole = name in ("normal", "normal 3 mask weight by case", "laplace 3", "normal 3 #1")
    return options if whole else options[:: max(1, len(options) // 3)]


def recalibrated(book: Book) -> None:
    """Scores under laws of their own, which some of them do not have."""
    fitted_on, test = sample(7, 60, (2,)), sample(8, 50, (2,))
    for method in ("isotonic", "conformal", "aux"):
        given = {"steps": 50} if method == "aux" else {}
        fitted = getattr(ts.recalibrate, method).fit(fitted_on.prediction, fitted_on.target, **given)
        after = fitted(test.prediction)
        for name in METRICS:
            score = getattr(ts.metrics, name).score
            book.call(f"{name} after {method}", score, after, test.target)
    few = ts.recalibrate.conformal.fit(fitted_on.prediction[:6], fitted_on.target[:6])(test.prediction)
    for name in ("width", "winkler", "coverage", "crps"):
        book.call(
            f"{name} after conformal of 6", getattr(ts.metrics, name).score, few, test.target, level=0.99
        ) if (name != "crps") else book.call(
            "crps after conformal of 6", ts.metrics.crps.score, few, test.target
        )


def refusals(book: Book) -> None:
    one = sample()
    p, y = one.prediction, np.asarray(one.target)
    constant = ts.Prediction(np.zeros(6), aleatoric=np.ones(6))
    atoms = ts.Prediction(np.zeros(6), aleatoric=np.array([1.0, 1.0, 1.0, 4.0, 4.0, 4.0]))
    t = np.arange(6.0)
    for name in METRICS:
        score = getattr(ts.metrics, name).score
        book.call(f"{name} short target", score, p, y[:-1])
        book.call(f"{name} nan target", score, p, np.where(np.arange(len(y)) == 3, np.nan, y))
        book.call(f"{name} negative weight", score, p, y, weight=-np.ones(len(y)))
        book.call(f"{name} zero weights", score, p, y, weight=np.zeros(len(y)))
        book.call(f"{name} some zero weights", score, p, y, weight=np.arange(len(y)) % 2.0)
        book.call(f"{name} short weight", score, p, y, weight=np.ones(3))
        book.call(f"{name} of cases", score, one.cases, y)
        book.call(f"{name} constant", score, constant, t)
        book.call(f"{name} atoms", score, atoms, t)
        nothing = ts.Prediction(np.zeros(2), aleatoric=np.ones(2), mask=np.zeros(2, dtype=bool))
        book.call(f"{name} all masked", score, nothing, np.zeros(2))
    for name, key, values in (
        ("coverage", "level", (0, 1, 90, -0.5, "a", np.nan)),
        ("width", "level", (0, 1, 90)),
        ("winkler", "level", (0, 1, 90)),
        ("uce", "bins", (0, 1, 2.5, 1000)),
        ("ence", "bins", (0, 1, 1000)),
        ("uce", "spacing", ("mas",)),
        ("ence", "spacing", ("width", "none")),
        ("uce", "error", ("median",)),
        ("uce", "outputs", ("all",)),
        ("uce", "closed", (True, 0)),
        ("nll", "units", ("bits",)),
        ("nll", "outputs", ("all",)),
        ("ause", "by", ("patient",)),
    ):
        for value in values:
            score = getattr(ts.metrics, name).score
            book.call(f"{name} {key}={value!r}", score, p, y, **{key: value})
