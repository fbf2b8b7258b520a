"""Diagrams: the table of each with its options, what is drawn of it, and how figures are saved."""

from itertools import product

import numpy as np

import truesigma as ts
from truesigma.diagrams import _style

from ..book import Book
from ..contents import content
from ..samples import sample, variety


def record(book: Book) -> None:
    tables = _tables(book)
    _history(book, tables)
    _drawn(book, tables)


def _tables(book: Book) -> dict:
    tables: dict = {}

    def table(label, diagram, *given, **options):
        def columns():
            tables[f"{diagram} {label}"] = made = getattr(ts.diagrams, diagram).table(*given, **options)
            return made.columns

        book.call(f"{diagram} {label}", columns)

    for one in variety():
        p, y, w = one.prediction, one.target, one.weight
        table(one.name, "calibration", p, y, weight=w)
        table(one.name, "coverage", p, y, weight=w)
        table(one.name, "rejection", p, y, weight=w)
        table(f"shift {one.name}", "shift", p, sample(9, outputs=tuple(p.location.shape[1:])).prediction)
    one, many = sample(1, outputs=(3,), weight="case"), [sample(k, outputs=(3,)) for k in (1, 3, 5)]
    for error, outputs, spacing, bins in product(
        ("mean", "draws"), ("separate", "mean"), ("width", "mass"), (5, 15)
    ):
        given = {"error": error, "outputs": outputs, "spacing": spacing, "bins": bins}
        table(f"{given}", "calibration", one.prediction, one.target, weight=one.weight, **given)
    repeats = [m.prediction for m in many], [m.target for m in many]
    table("repeats", "calibration", *repeats)
    table("repeats", "coverage", *repeats)
    table("levels", "coverage", one.prediction, one.target, levels=(0.2, 0.8))
    table("by element", "rejection", one.prediction, one.target, by="element")
    named = {"clahe": many[0].prediction, "other": many[1].prediction}
    table("named", "shift", one.prediction, named, name="test", bins=12)
    fitted_on = sample(3, outputs=(3,)).cases
    table("hidden", "ablation", fitted_on, one.cases, hidden=(1, 2), bins=6)
    options = {"error": "draws", "outputs": "mean", "spacing": "mass", "seed": 2, "hidden": (2,)}
    table("options", "ablation", fitted_on, [m.cases for m in many], **options)
    for bad in ({"bins": 0}, {"spacing": "x"}, {"error": "x"}, {"outputs": "x"}):
        table(f"{bad}", "calibration", one.prediction, one.target, **bad)
    table("bad levels", "coverage", one.prediction, one.target, levels=(90,))
    table("bad by", "rejection", one.prediction, one.target, by="x")
    table("bad bins", "shift", one.prediction, named, bins=0)
    table("nothing", "calibration", [], [])
    return tables


def _history(book: Book, tables: dict) -> None:
    rows = [
        {
            "epoch": k, "train_mse": 1 / k, "train_variance": 0.9 / k, "valid_mse": 0.5 + 1 / k,
            "valid_variance": 0.4, "valid_factor": 1 + 0.1 * k,
        }
        for k in range(1, 6)
    ]  # fmt: skip
    both = [{**row, "test_mse": 1.0, "test_variance": 0.5, "test_factor": 1.4} for row in rows]
    for name, given in {"valid": rows, "test": both, "none": [], "bad": [{"epoch": 1}]}.items():
        made = book.call(f"history {name}", lambda given=given: ts.diagrams.history.table(given).columns)
        if made is not None:
            tables[f"history {name}"] = ts.diagrams.history.table(given)
            found = tables[f"history {name}"]
            book.call(f"history {name} calibrated", lambda found=found: found.calibrated_variance)
    path = book.folder / "history.csv"
    path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]))
    book.call("history of a file", lambda: ts.diagrams.history.table(path).columns)
    book.call("history of no file", ts.diagrams.history.table, book.folder / "none.csv")


def _drawn(book: Book, tables: dict) -> None:
    import matplotlib.pyplot as plt

    chosen = {
        "calibration": (
            "normal",
            {"title": "a", "unit": "mm", "color": "black", "log": True, "legend": False},
        ),
        "coverage": ("normal 3", {"title": "b"}),
        "rejection": ("normal", {"over": "threshold", "title": "c", "unit": "mm"}),
        "shift": ("named", {"title": "d", "unit": "mm"}),
        "history": ("test", {"calibrated": True, "title": "e", "unit": "mm"}),
        "ablation": ("hidden", {"unit": "mm", "columns": 1}),
    }
    for name, (label, options) in chosen.items():
        module, made = getattr(ts.diagrams, name), tables[f"{name} {label}"]
        for given in ({}, options):
            axes = np.ravel(module.draw(made, **given))[0]
            _saved(book, f"{name} {given}", axes.figure)
    two = {k: tables[f"coverage {k}"] for k in ("normal", "laplace")}
    _saved(book, "coverage of two", ts.diagrams.coverage.draw(two).figure)
    two = {k: tables[f"rejection {k}"] for k in ("normal", "laplace")}
    _saved(book, "rejection of two", ts.diagrams.rejection.draw(two).figure)
    book.call("rejection over", ts.diagrams.rejection.draw, tables["rejection normal"], over="x")
    with _style.style():
        figure, axes = _style.figure(2, 2, width=5.0, ratio=0.5, share=True)
        book.call("figure", lambda: [*figure.get_size_inches(), *axes.shape])
        figure, axes = _style.figure(2, 2, width=5.0)
        _, ax = plt.subplots()
        ts.diagrams.calibration.draw(tables["calibration normal"], ax)
        ts.diagrams.history.draw(tables["history valid"], axes[0, 0])
        ts.diagrams.shift.draw(tables["shift named"], axes[0, 1])
        ts.diagrams.coverage.draw(tables["coverage levels"], axes[1, 0])
        ts.diagrams.rejection.draw(tables["rejection normal"], axes[1, 1])
        _, two = _style.figure(1, 2)
        ts.diagrams.ablation.draw(tables["ablation hidden"], two)
    book.call("save", lambda: [p.name for p in _style.save(figure, book.folder / "figure")])
    book.note("save png", content(book.folder / "figure.png", book.encode))
    plt.close("all")


def _saved(book: Book, label: str, figure: object) -> None:
    """The picture as pixels, which one machine draws alike each time."""
    import matplotlib.pyplot as plt

    path = book.folder / "drawn.png"
    figure.savefig(path, metadata={"Software": None})
    book.calls += 1
    book.note(f"drawn {label}", content(path, book.encode))
    plt.close("all")
