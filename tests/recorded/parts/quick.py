"""Quick: a sample of the other parts, for `make test`; no networks, no JAX."""

import truesigma as ts

from .. import folders
from ..book import Book
from ..samples import METRICS, drawn_cases, sample


def record(book: Book) -> None:
    samples = [
        sample(101), sample(102, outputs=(3,), mask=True, weight="case", group=True), sample(103, law="laplace"),
        sample(104, outputs=(2,), law="laplace", weight="element"), sample(105, library="torch"),
        sample(106, cases=300, split=False),
    ]  # fmt: skip
    for one in samples:
        p, y = one.prediction, one.target
        for name in METRICS:
            book.call(f"{name} {one.name}", getattr(ts.metrics, name).score, p, y, weight=one.weight)
        for name in ("none", "sigma", "sigma_by_output", "isotonic"):
            fitted = book.call(
                f"fit {name} {one.name}",
                getattr(ts.recalibrate, name).fit,
                p,
                y,
                weight=one.weight,
                group=one.group,
            )
            book.call(f"apply {name} {one.name}", fitted, p)
        tally = ts.Tally.empty().add(p, y, weight=one.weight, group=one.group)
        book.call(f"tally {one.name}", lambda tally=tally: tally)
        book.call(f"tally merged {one.name}", tally.merge, tally)
        book.call(f"bootstrap {one.name}", ts.bootstrap, one.cases, ["rmse", "coverage"], replicates=20)
        for level in (0.5, 0.9):
            book.call(f"interval {level} {one.name}", p.interval, level)
        for diagram in ("calibration", "coverage", "rejection"):
            table = getattr(ts.diagrams, diagram).table
            book.call(
                f"{diagram} diagram {one.name}", lambda t=table, o=one: t(o.prediction, o.target).columns
            )
    a, b = drawn_cases(1), drawn_cases(2)
    for name in ("exact", "paper"):
        book.call(f"evaluate {name}", ts.evaluate, a, b, recalibrations=["none", "sigma"], recipe=name)
    book.call("compare", ts.compare, a, recalibrations=["sigma"], folds=3, replicates=20)
    folders.tables(book.folder)
    for line in (
        "evaluate --calibration cal.csv --test test.csv --recalibrate none,sigma --json -",
        "evaluate --calibration cal.npz cal3.npz --test test.npz --recalibrate none,sigma --json -",
        "evaluate --calibration cal3.npz --test test3.npz --recalibrate none,sigma --one-pass --by-group --json -",
        "calibrate --calibration cal.csv -o card.json", "apply card.json new.csv -o new-sigma.csv",
        "apply card.json new.npz -o new-sigma.npz --level 0.5,0.9",
        "compare --calibration cal.csv --recalibrate sigma --folds 3 --json -", "--version",
        "evaluate --calibration cal.csv --test test.csv --recipe paper --recalibrate none --json -",
        "evaluate --calibration gone.csv --test test.csv",
    ):  # fmt: skip
        book.command(line)
