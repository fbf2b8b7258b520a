"""Values and laws: Draws, Prediction, Cases, Interval, decompose, Normal, Laplace, Empirical; and what they refuse."""

from itertools import product

import numpy as np

import truesigma as ts

from ..book import Book
from ..samples import LAWS, drawn_cases, draws, maker, sample, variety


def record(book: Book) -> None:
    _laws(book)
    _predictions(book)
    _draws(book)
    _refusals(book)


def _laws(book: Book) -> None:
    z = np.linspace(-3, 3, 7)
    values = np.sort(np.random.default_rng(0).normal(size=9))
    laws = {**LAWS, "empirical": ts.Empirical(values)}
    laws["table"] = ts.Empirical(values, unit=2.0, moment=1, probability=np.linspace(0.05, 0.95, 9))
    for name, law in laws.items():
        for key in ("name", "unit", "moment", "symmetric", "variance", "log_norm"):
            book.call(f"{name}.{key}", lambda law=law, key=key: getattr(law, key))
        for p in (0.0, 0.001, 0.05, 0.3, 0.5, 0.9, 0.999, 1.0, 1.5):
            book.call(f"{name}.quantile({p})", law.quantile, p)
        for library, dtype in (
            ("numpy", "float64"),
            ("numpy", "float32"),
            ("torch", "float64"),
            ("jax", "float64"),
        ):
            given = maker(library, dtype)(z)
            book.call(f"{name}.cdf {library} {dtype}", law.cdf, given)
            book.call(f"{name}.log_density {library} {dtype}", law.log_density, given)
            book.call(f"{name}.crps {library} {dtype}", lambda law=law, z=given: law.crps(z, law.cdf(z)))
            if hasattr(law, "share_within"):
                book.call(f"{name}.share_within {library} {dtype}", law.share_within, given)
        book.call(f"{name}.to_dict", law.to_dict)
        book.call(f"{name} repr", repr, law)
        if hasattr(law, "crps_terms"):
            parts = [np.abs(z), np.ones(7), np.abs(z) ** law.moment, law.share_within(np.abs(z))]
            book.call(f"{name}.crps_terms", law.crps_terms, *parts)
    for bad in ([], [np.nan], ["a"], [[1.0]]):
        book.call(f"Empirical({bad})", ts.Empirical, bad)


def _predictions(book: Book) -> None:
    for one in variety():
        p = one.prediction
        book.call(f"repr {one.name}", repr, p)
        for key in ("total", "scale", "variance"):
            book.call(f"Prediction.{key} {one.name}", getattr, p, key)
        for level in (0.5, 0.9):
            book.call(f"Prediction.interval({level}) {one.name}", p.interval, level)
        book.call(f"Prediction[1:4] {one.name}", p.__getitem__, slice(1, 4))
        book.call(f"len {one.name}", len, p)
        cases = book.call(f"Cases {one.name}", lambda one=one: one.cases)
        book.call(f"Cases[::3] {one.name}", cases.__getitem__, slice(None, None, 3))
        index = np.arange(len(cases)) % 2 == 0
        book.call(f"Cases[mask] {one.name}", cases.__getitem__, index)
        book.call(f"Cases[index] {one.name}", cases.__getitem__, np.arange(len(cases))[::-1])
        book.call(f"Cases repr {one.name}", repr, cases)
    p = sample().prediction
    for level in (0.0, 1.0, -1, 90, "a", None, np.nan):
        book.call(f"Prediction.interval({level!r})", p.interval, level)
    book.call("Interval unpacked", lambda: list(p.interval(0.5)))
    book.call("Interval", lambda: repr(ts.Interval(np.zeros(3), np.ones(3))))
    full = {"group": ["a", "b"], "id": [3, 4], "weight": [1.0, 2.0], "unit": "mm", "checkpoint": "abc"}
    two = ts.Prediction([1.0, 2.0], aleatoric=[0.1, 0.2])
    book.call("Cases with all", lambda: ts.Cases(two, [1.1, 1.7], **full))
    book.call("Cases with draws", lambda: drawn_cases())
    book.call("Cases with draws[4:9]", lambda: drawn_cases()[4:9])


def _draws(book: Book) -> None:
    for outputs, law, count in product(((), (2,), (2, 3)), LAWS, (1, 7)):
        held = draws(outputs=outputs, law=law, count=count)
        name = f"{law} {list(outputs)} of {count}"
        book.call(f"Draws {name}", lambda held=held: held)
        book.call(f"Draws repr {name}", repr, held)
        book.call(f"Draws[2:5] {name}", held.__getitem__, slice(2, 5))
        book.call(f"Draws[reversed] {name}", held.__getitem__, np.arange(len(held))[::-1])
        for kind, ddof in product(("arithmetic", "geometric"), (0, 1)):
            book.call(f"decompose {name} {kind} {ddof}", ts.decompose, held, aleatoric=kind, ddof=ddof)
        book.call(f"concat {name}", ts.Draws.concat, held, draws(1, outputs=outputs, law=law))
        book.call(f"concat list {name}", ts.Draws.concat, [held, held])
        for library in ("torch", "jax"):
            make = maker(library, "float64")
            made = ts.Draws(make(np.asarray(held.mean)), make(np.asarray(held.variance)), law=held.law)
            book.call(f"decompose {name} {library}", ts.decompose, made)
    mask = np.arange(30) % 3 > 0
    masked = draws(outputs=())
    masked = ts.Draws(np.where(mask, masked.mean, np.nan), masked.variance, mask=mask)
    book.call("decompose masked", ts.decompose, masked)
    book.call("decompose masked geometric", ts.decompose, masked, aleatoric="geometric", ddof=1)
    book.call("concat masked", ts.Draws.concat, masked, masked)
    book.call("concat unlike", ts.Draws.concat, masked, draws(outputs=()))
    book.call("concat nothing", ts.Draws.concat)
    book.call("concat laws", ts.Draws.concat, draws(), draws(law="laplace"))
    for bad in ({"aleatoric": "harmonic"}, {"ddof": 2}, {"ddof": -1}):
        book.call(f"decompose {bad}", ts.decompose, draws(), **bad)
    book.call("decompose a prediction", ts.decompose, sample().prediction)


def _refusals(book: Book) -> None:
    nan = float("nan")
    one = [1.0, 2.0]
    bad = {
        "lengths": (one, [0.1]), "negative": (one, [0.1, -0.1]), "zero": (one, [0.0, 0.0], [0.0, 0.0]),
        "nan": ([1.0, nan], [0.1, 0.1]), "nan variance": (one, [0.1, nan]), "none": (one, None), "text": ("a", "b"),
        "scalar": (1.0, 0.1), "law": (one, [0.1, 0.1], None, "normal"), "mask": (one, [0.1, 0.1], None, ts.Normal(),
        None, [1, 0]), "empty": ([], []), "whole": ([1, 2], [1, 2]), "wide": ([1e200], [1e300], [1e308]),
        "complex": ([1j], [1.0]), "masked": ([1.0, nan], [0.1, nan], None, ts.Normal(), None, [True, False]),
    }  # fmt: skip
    for name, given in bad.items():
        book.call(f"Prediction {name}", ts.Prediction, *given)
    p = ts.Prediction(one, aleatoric=[0.1, 0.1])
    for name, (target, more) in {
        "short": ([1.0], {}), "nan": ([1.0, nan], {}), "weight": (one, {"weight": [1.0, -1.0]}),
        "weight zero": (one, {"weight": [0.0, 0.0]}), "group": (one, {"group": ["a"]}), "id": (one, {"id": [1]}),
        "group nan": (one, {"group": [1.0, nan]}), "group none": (one, {"group": ["a", None]}),
        "draws": (one, {"draws": draws()}), "whole": ([1, 2], {}), "text": (["a", "b"], {}),
    }.items():  # fmt: skip
        book.call(f"Cases {name}", ts.Cases, p, target, **more)
    book.call("Cases of target", ts.Cases, one, one)
    book.call("Cases[0]", ts.Cases(p, one).__getitem__, 0)
    for name, given in {
        "one axis": (one, one), "negative": ([one], [[0.1, -1]]), "nan": ([[1.0, nan]], [one]),
        "zeros": ([one, one], [[0.0, 0.0]]), "shape": ([one], [[0.1, 0.1, 0.1]]), "law": ([one], [one], None, "normal"),
    }.items():  # fmt: skip
        book.call(f"Draws {name}", ts.Draws, *given)
