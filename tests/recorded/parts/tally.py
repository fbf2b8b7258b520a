"""Tally: settings, groups, merging in several orders, what is fitted from it; and scores in one pass."""

from itertools import product

import numpy as np

import truesigma as ts

from ..book import Book
from ..samples import Sample, sample, variety

SETTINGS = {
    "plain": {},
    "levels": {"levels": (0.8,)},
    "edges": {"edges": tuple(np.linspace(0.05, 12, 12))},
    "mean": {"outputs": "mean"},
    "draws": {"error": "draws"},
    "mean draws": {"outputs": "mean", "error": "draws"},
    "by output": {"by_output": True},
}


def record(book: Book) -> None:
    for one in variety():
        few = dict(SETTINGS) if one.name in ("normal", "laplace 3", "normal 3 mask weight by case") else {
            k: SETTINGS[k] for k in (("plain",) if "jax" in one.name else ("plain", "edges", "mean draws"))
        }  # fmt: skip
        for name, settings in few.items():
            _one(book, f"{name} {one.name}", settings, one)
    _grouped(book)
    _fits(book)
    _refusals(book)


def _one(book: Book, label: str, settings: dict, one: Sample) -> None:
    whole = book.call(
        label,
        lambda: ts.Tally.empty(**settings).add(one.prediction, one.target, weight=one.weight),
        close=one.close,
    )
    if whole is None or len(one.prediction) < 10 or "jax" in label:  # which compiles for every shape
        return
    parts = []
    for cut in (slice(0, 7), slice(7, 30), slice(30, None)):
        weight = None if one.weight is None else one.weight[cut]
        parts.append(ts.Tally.empty(**settings).add(one.prediction[cut], one.target[cut], weight=weight))
    book.call(f"{label} merged", lambda: parts[0].merge(parts[1]).merge(parts[2]), close=one.close)
    book.call(f"{label} merged backwards", lambda: parts[2].merge(parts[1].merge(parts[0])), close=one.close)
    book.call(f"{label} repr", repr, whole)


def _grouped(book: Book) -> None:
    for law, outputs, weight, mask in (
        ("normal", (), "", False),
        ("normal", (3,), "case", True),
        ("laplace", (3,), "", True),
        ("laplace", (), "case", False),
    ):
        one = sample(5, outputs=outputs, law=law, weight=weight, group=True, mask=mask)
        for name in ("plain", "mean", "edges"):
            made = ts.Tally.empty(**SETTINGS[name]).add(
                one.prediction, one.target, weight=one.weight, group=one.group
            )
            book.call(f"groups {name} {one.name}", lambda made=made: made)
            book.call(f"groups merged {name} {one.name}", made.merge, made)
    one = sample(5, outputs=(3,))
    apart = ts.Tally.empty(by_output=True).add(one.prediction, one.target)
    book.call("outputs apart", lambda: [ts.recalibrate.sigma.fit(one) for one in apart.outputs_apart()])
    book.call(
        "outputs apart of a plain tally", ts.Tally.empty().add(one.prediction, one.target).outputs_apart
    )


def _fits(book: Book) -> None:
    for law, outputs, group in product(("normal", "laplace"), ((), (3,)), (False, True)):
        one = sample(6, outputs=outputs, law=law, group=group)
        for name, settings in SETTINGS.items():
            made = ts.Tally.empty(**settings).add(one.prediction, one.target, group=one.group)
            label = f"{name} {one.name}"
            book.call(f"sigma of {label}", ts.recalibrate.sigma.fit, made)
            book.call(f"sigma aleatoric of {label}", ts.recalibrate.sigma.fit, made, part="aleatoric")
            book.call(f"card of {label}", ts.calibrate, made, "sigma", data={"file": "a.csv"}, unit="mm")
            if name in ("plain", "by output"):
                book.call(f"sigma_by_output of {label}", ts.recalibrate.sigma_by_output.fit, made)
                book.call(
                    f"sigma_by_output draws of {label}",
                    ts.recalibrate.sigma_by_output.fit,
                    made,
                    error="draws",
                )
                book.call(f"aux of {label}", ts.calibrate, made, "aux")


def _refusals(book: Book) -> None:
    one = sample(5)
    plain = ts.Tally.empty().add(one.prediction, one.target)
    book.call("empty", ts.Tally.empty().summary)
    for name, settings in SETTINGS.items():
        if settings:
            other = ts.Tally.empty(**settings).add(one.prediction, one.target)
            book.call(f"merge with {name}", plain.merge, other)
    laplace = sample(5, law="laplace")
    book.call(
        "merge with laplace", lambda: plain.merge(ts.Tally.empty().add(laplace.prediction, laplace.target))
    )
    book.call("add laplace", plain.add, laplace.prediction, laplace.target)
    book.call("add nothing", plain.add, one.prediction[:0], one.target[:0])
    book.call("add short", plain.add, one.prediction, one.target[:3])
    book.call("merge with empty", plain.merge, ts.Tally.empty())
    book.call("merge with text", plain.merge, "tally")
    for bad in (
        {"levels": ()}, {"levels": (90,)}, {"edges": (1.0,)}, {"edges": (2.0, 1.0)}, {"edges": "a"}, {"outputs": "all"},
        {"error": "all"}, {"levels": (0.9, 0.9)},
    ):  # fmt: skip
        book.call(f"empty({bad})", ts.Tally.empty, **bad)
    isotonic = ts.recalibrate.isotonic.fit(one.prediction, one.target)(one.prediction)
    book.call("tally of isotonic", lambda: ts.Tally.empty().add(isotonic, one.target))
    conformal = ts.recalibrate.conformal.fit(one.prediction, one.target)(one.prediction)
    book.call("tally of conformal", lambda: ts.Tally.empty().add(conformal, one.target))
    half = ts.Prediction(np.zeros(9, "float16"), aleatoric=np.ones(9, "float16"))
    book.call("float16", lambda: ts.Tally.empty().add(half, np.arange(9, dtype="float16")), close=1e-3)
