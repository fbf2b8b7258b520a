"""Recalibrations: fitted with every option, applied, stored and loaded again."""

from itertools import product
from typing import Any

import numpy as np

import truesigma as ts

from ..book import Book
from ..paths import named
from ..samples import BACKBONES, DATASETS, METRICS, RECALIBRATIONS, Sample, sample

PARTS = ("total", "aleatoric")
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "none": [{"part": part} for part in PARTS],
    "sigma": [
        {"part": p, "outputs": o, "error": e, "solver": s}
        for p, o, e, s in product(PARTS, ("separate", "mean"), ("mean", "draws"), ("closed", "gradient"))
    ],
    "sigma_by_output": [{"part": p, "error": e} for p, e in product(PARTS, ("mean", "draws"))],
    "aux": [
        {"steps": 40},
        {"steps": 40, "part": "aleatoric"},
        {"steps": 40, "outputs": "mean"},
        {"steps": 30, "hidden": 4, "rate": 0.01, "seed": 3, "standardise": False},
    ],
    "isotonic": [{"part": part} for part in PARTS],
    "conformal": [{"part": part} for part in PARTS],
}


def samples() -> list[Sample]:
    found = [
        sample(law=law, outputs=outputs, mask=mask, weight=weight, group=group)
        for law, outputs, mask, weight, group in (
            ("normal", (), False, "", False),
            ("normal", (), False, "", True),
            ("normal", (3,), False, "case", False),
            ("normal", (3,), True, "element", True),
            ("laplace", (), False, "", False),
            ("laplace", (3,), True, "case", True),
        )
    ]
    found += [sample(outputs=(3,), library=library) for library in ("torch", "jax")]
    found += [sample(1, split=False), sample(3, cases=5), sample(dtype="float32", library="torch")]
    return found


def record(book: Book) -> None:
    new = {one: sample(50, 12, one) for one in ((), (3,))}
    for one in samples():
        for name in RECALIBRATIONS:
            options = OPTIONS[name] if one.name in ("normal", "normal 3 mask weight by element group") else (
                OPTIONS[name][:: max(1, len(OPTIONS[name]) // 2)]
            )  # fmt: skip
            for given in options:
                words = ",".join(f"{k}={v}" for k, v in given.items())
                label = f"{name}({words}) {one.name}"
                module = getattr(ts.recalibrate, name)
                data = {"weight": one.weight, "group": one.group}
                fitted = book.call(
                    label, module.fit, one.prediction, one.target, **data, **given, close=one.close
                )
                if fitted is not None:
                    outputs = tuple(one.prediction.location.shape[1:])
                    _use(book, label, fitted, one, new[outputs].prediction)
    _refusals(book)


def _use(book: Book, label: str, fitted: Any, one: Sample, new: ts.Prediction) -> None:
    same = book.call(f"{label} applied", fitted, one.prediction, group=one.group, close=one.close)
    book.call(f"{label} new", fitted, new)
    book.call(f"{label} repr", repr, fitted)
    book.call(f"{label} loaded", lambda: _same(ts.load_recalibration(fitted.to_dict())(new), fitted(new)))
    if same is not None:
        book.call(f"{label} width", lambda: _width(same.interval(0.8)), close=one.close)
    if hasattr(fitted, "standard_error"):
        book.call(f"{label} error", lambda: [fitted.factor, fitted.standard_error], close=one.close)


def _same(a: ts.Prediction, b: ts.Prediction) -> bool:
    return (
        bool(np.array_equal(np.asarray(a.scale), np.asarray(b.scale))) and a.law.to_dict() == b.law.to_dict()
    )


def _width(found: ts.Interval) -> float:
    return float(np.asarray(found.upper - found.lower, dtype=float).mean())


def _refusals(book: Book) -> None:
    one = sample()
    p, y = one.prediction, one.target
    for name in RECALIBRATIONS:
        fit = getattr(ts.recalibrate, name).fit
        few = {"steps": 20} if name == "aux" else {}
        book.call(f"{name} one case", fit, p[:1], y[:1], **few)
        book.call(f"{name} two cases", fit, p[:2], y[:2], **few)
        book.call(f"{name} short", fit, p, y[:-1], **few)
        book.call(f"{name} no error", fit, p, np.asarray(p.location), **few)
        book.call(f"{name} constant", fit, ts.Prediction(0 * y, aleatoric=0 * y + 1), y, **few)
        book.call(f"{name} part", fit, p, y, part="epistemic", **few)
        book.call(f"{name} group", fit, p, y, group=["a"], **few)
        book.call(f"{name} one group", fit, p, y, group=["a"] * len(y), **few)
        book.call(f"{name} unknown split", fit, sample(split=False).prediction, y, part="aleatoric", **few)
        book.call(f"{name} title", lambda name=name: getattr(ts.recalibrate, name).TITLE)
    for bad in ({}, {"name": "magic"}, {"name": "sigma"}, {"name": "sigma", "factor": "a"}, {"name": "../x"}):
        book.call(f"load_recalibration({bad})", ts.load_recalibration, bad)
    for given in ({"hidden": 0}, {"steps": 0}, {"rate": -1.0}, {"seed": -1}):
        book.call(f"aux {given}", ts.recalibrate.aux.fit, p, y, **given)
    book.call("sigma solver", ts.recalibrate.sigma.fit, p, y, solver="newton")
    three = sample(outputs=(3,))
    fitted = ts.recalibrate.sigma_by_output.fit(three.prediction, three.target)
    book.call("sigma_by_output of other outputs", fitted, p)
    _plugins(book)


def _plugins(book: Book) -> None:
    names, load, parse, options = (
        named(f"truesigma.plugins.{name}") for name in ("names", "load", "parse", "options")
    )
    for text in (
        "sigma:part=aleatoric", "aux:hidden=4,steps=9,standardise=false", "none", "sigma:solver=newton", "sigma:x=1",
        "aux:hidden=a", "sigma:part", "magic", "./mine.py", ("aux", {"hidden": 4}), ("aux", 4), 7,
    ):  # fmt: skip
        book.call(f"parse {text}", lambda text=text: parse("recalibrate", text)[::2])
    there = {
        "recalibrate": RECALIBRATIONS, "metrics": METRICS, "backbones": BACKBONES, "datasets": DATASETS,
        "diagrams": ("ablation", "calibration", "coverage", "history", "rejection", "shift"),
    }  # fmt: skip
    for kind, known in there.items():
        book.call(f"names {kind}", lambda kind=kind, known=known: [name in names(kind) for name in known])
        for name in known:
            found = options(kind, load(kind, name))
            book.note(f"options {kind} {name}", {k: str(v.default) for k, v in found.items()})
    book.call("names of another kind", names, "laws")
    book.call("load magic", load, "metrics", "magic")
