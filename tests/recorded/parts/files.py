"""Files: read and write of every kind, data frames, sets of files, evaluate_files, maps, engines."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import truesigma as ts
from truesigma.engine import load_engine
from truesigma.engine.local import run as run_here

from .. import folders
from ..book import Book
from ..contents import content
from ..paths import named
from ..samples import drawn_cases, sample

open_fileset = named("truesigma.fileset.open_fileset")
apply_maps, write_nifti = named("truesigma.maps.apply_maps"), named("truesigma.maps.write_nifti")

QUICK = ["none", "sigma"]


def record(book: Book) -> None:
    folders.tables(book.folder)
    folders.parts(book.folder)
    for some in (_round_trips, _tables, _frames, _sets, _maps, _engines):
        some(book)


def _round_trips(book: Book) -> None:
    values: dict[str, Any] = {}
    for law, outputs, mask in product(("normal", "laplace"), ((), (2,), (2, 3)), (False, True)):
        one = sample(81, 12, outputs, law=law, mask=mask, weight="case", group=True)
        values[f"cases {one.name}"] = folders.named(one)
        values[f"prediction {one.name}"] = one.prediction
    values["total"] = sample(82, 9, split=False).cases
    values["draws"] = drawn_cases(83).draws
    values["cases with draws"] = drawn_cases(83)
    one = sample(84, 30)
    values["empirical"] = ts.recalibrate.isotonic.fit(one.prediction, one.target)(one.prediction)
    values["conformal"] = ts.recalibrate.conformal.fit(one.prediction, one.target)(one.prediction)
    values["float32"] = sample(85, 9, dtype="float32").cases
    values["torch"] = sample(86, 9, (2,), library="torch").cases
    values["jax"] = sample(86, 9, (2,), library="jax").cases
    values["evaluation"] = ts.evaluate(one.cases, sample(87, 30).cases, recalibrations=QUICK)
    values["card"] = ts.calibrate(one.cases, "sigma")
    values["sigma"] = ts.recalibrate.sigma.fit(one.prediction, one.target)
    values["comparison"] = ts.compare(one.cases, recalibrations=["sigma"], folds=3, replicates=20)
    values["text"] = "text"
    for (name, value), ending in product(values.items(), (".npz", ".csv", ".parquet", ".json", ".txt")):
        path = book.folder / f"written{ending}"
        path.unlink(missing_ok=True)
        plain = name.startswith(("cases", "prediction")) and not name.startswith("cases with")
        if plain and ending in (".json", ".txt") and "laplace" in name:
            continue
        book.call(f"write {name} {ending}", ts.write, value, path)
        if path.is_file():
            book.note(f"written {name} {ending}", content(path, book.encode))
            if ending not in (".json", ".txt"):
                book.call(f"read {name} {ending}", ts.read, path)


def _tables(book: Book) -> None:
    for path in sorted(p for p in book.folder.iterdir() if p.suffix in (".csv", ".npz", ".parquet", ".txt")):
        book.call(f"read {path.name}", ts.read, path)
        book.call(f"read {path.name} as laplace", ts.read, str(path), law="laplace")
        book.call(f"read {path.name} masked", ts.read, path, mask_missing=True)
    for law in ("normal", "gauss", ts.Normal(), ts.Laplace(), 3):
        book.call(f"read law {law!r}", ts.read, book.folder / "other.csv", law=law)
        book.call(f"read test law {law!r}", ts.read, book.folder / "test.csv", law=law)
    for name in ("none.csv", "none.xlsx", "test", "."):
        book.call(f"read {name}", ts.read, book.folder / name)
    texts = {
        "variance": "target,location,variance\n1,2,0.5\n2,2,0.5\n", "outputs": "target_0,target_1,location_0,"
        "location_1,scale_0,scale_1\n1,2,1,2,1,1\n3,4,3,5,1,2\n", "one scale": "target_0,target_1,location_0,"
        "location_1,scale\n1,2,1,2,1\n3,4,3,5,1\n", "gap": "target_0,target_2,location_0,location_2,scale\n1,2,1,2,1\n",
        "parts": "target,location,aleatoric,epistemic\n1,2,0.5,0.1\n2,2,0.5,0\n", "both": "target,location,scale,"
        "aleatoric\n1,2,1,1\n", "mask": "target,location,scale,mask\n1,2,1,true\n,2,1,false\n", "law":
        "target,location,scale,law,unit\n1,2,1,laplace,mm\n2,2,1,laplace,mm\n", "two laws": "target,location,scale,"
        "law\n1,2,1,normal\n2,2,1,laplace\n", "near": "target,location,scale,weights\n1,2,1,1\n", "patient":
        "target,location,scale,patient\n1,2,1,a\n", "twice": "target,target,location,scale\n1,1,2,1\n", "labels":
        "target,location,scale,group,id,weight,checkpoint\n1,2,1,007,1,2.5,ab\n2,2,1,008,2,1,ab\n", "inf":
        "target,location,scale\ninf,2,1\n", "rows": "target,location,scale\n1,2,1\n,,\n1,2,1\n", "ragged":
        "target,location,scale\n1,2\n", "spread": "target,location,aleatoric,epistemic,spread\n1,2,1,1,0.5\n",
    }  # fmt: skip
    for name, text in texts.items():
        path = book.folder / "given.csv"
        path.write_text(text)
        book.call(f"table {name}", ts.read, path)


def _frames(book: Book) -> None:
    import pandas
    import polars
    import pyarrow

    columns = {"target": [1.0, 2.0], "location": [1.2, 1.9], "scale": [0.5, 0.1], "group": ["a", "b"]}
    wrong = {"truth": [1.0], "location": [2.0], "scale": [1.0]}
    for make in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        name = make.__module__.split(".")[0]
        book.call(f"from_frame {name}", ts.from_frame, make(columns))
        book.call(f"from_frame {name} laplace", ts.from_frame, make(columns), law="laplace")
        book.call(f"read {name}", ts.read, make(columns))
        book.call(f"from_frame {name} without target", ts.from_frame, make(wrong))
        gaps = make({**columns, "target": [1.0, None]})
        book.call(f"from_frame {name} missing", ts.from_frame, gaps)
        book.call(f"from_frame {name} masked", ts.from_frame, gaps, mask_missing=True)
    book.call("from_frame of a list", ts.from_frame, [1, 2])


def _sets(book: Book) -> None:
    f = book.folder
    sets = {
        "npz": "_part*.npz", "csv": "_part*.csv", "parquet": "_part*.parquet", "manifest": "_manifest.csv",
        "list": ".txt", "npy": "_npy/*.npy", "maps": "_maps/*.nii.gz", "table of maps": "_maps.csv", "one": ".npz",
    }  # fmt: skip
    for name, ending in sets.items():
        cal, test = str(f / f"cal{ending}"), str(f / f"test{ending}")
        book.call(f"open_fileset {name}", lambda test=test: _about(open_fileset(test)))
        for label, options in {
            "exact": {},
            "one pass": {"one_pass": True},
            "by group": {"by_group": True, "recalibrations": QUICK, "metrics": ["rmse", "uce", "nll", "coverage"]},
            "paper": {"recipe": "paper", "recalibrations": QUICK},
            "options": {"recalibrations": ["sigma_by_output", "isotonic", "conformal", "sigma:part=aleatoric"],
                        "metrics": ["uce:bins=4", "ause", "coverage:level=0.8"]},
            "kept": {"keep": f / f"sums {name}", "recalibrations": QUICK},
            "from kept": {"keep": f / f"sums {name}", "recalibrations": QUICK},
            "masked": {"mask_missing": True, "recalibrations": QUICK, "metrics": ["nll", "ence"]},
        }.items():  # fmt: skip
            given = {"recalibrations": ["none", "sigma", "aux:steps=30"], **options}
            book.call(f"evaluate_files {name} {label}", ts.evaluate_files, cal, [test], **given)
        book.call(f"evaluate_files {name} repeats", ts.evaluate_files, cal, [test, cal], recalibrations=QUICK)
    opened = open_fileset([str(f / "cal.csv"), str(f / "test.parquet")])
    book.call("FileSet repr", repr, opened)
    ticks: list[int] = []

    def report(title: str, total: int):
        return ticks.append

    book.call(
        "evaluate_files of opened", ts.evaluate_files, opened, [opened], recalibrations=QUICK, report=report
    )
    book.call("ticks", lambda: sum(ticks))
    engine = partial(run_here)
    book.call("evaluate_files run", ts.evaluate_files, opened, [opened], recalibrations=QUICK, run=engine)
    marked = ts.Cases(sample(95).prediction, sample(95).target, checkpoint="abc")
    ts.write(marked, f / "marked.npz")
    book.call("open_fileset checkpoint", lambda: open_fileset(str(f / "marked.npz")).checkpoint)
    laplace = [str(f / f"{kind}-laplace.csv") for kind in ("cal", "test")]
    book.call("evaluate_files laplace", ts.evaluate_files, laplace[0], [laplace[1]], recalibrations=QUICK)
    book.call("evaluate_files law", ts.evaluate_files, f / "other.csv", [f / "other.csv"], law="laplace")
    book.call("evaluate_files draws", ts.evaluate_files, f / "cal-draws.npz", [f / "test-draws.npz"], recipe="code",
              recalibrations=QUICK)  # fmt: skip
    for name, (a, b) in {
        "one set": ("cal.npz", "test.npz"), "none": ("gone*.npz", ["test.npz"]), "outputs": ("cal.npz", ["test3.npz"]),
        "laws": ("cal.npz", ["test-laplace.csv"]), "empty": ("empty.csv", ["test.npz"]),
    }.items():  # fmt: skip
        given = str(f / b) if isinstance(b, str) else [str(f / one) for one in b]
        book.call(f"evaluate_files wrong: {name}", ts.evaluate_files, str(f / a), given, recalibrations=QUICK)
    book.call("open_fileset law", lambda: _about(open_fileset(str(f / "cal.csv"), law="laplace")))


def _about(opened: Any) -> list[Any]:
    return [opened.cases, opened.sizes, opened.outputs, opened.elements, opened.law.name, opened.unit]


def _maps(book: Book) -> None:
    import nibabel

    f = book.folder
    one = sample(91, 60)
    cards = {name: ts.calibrate(one.cases, name) for name in ("sigma", "isotonic", "conformal", "none")}
    for name, card in cards.items():
        out = f / f"maps-{name}"
        found = book.call(
            f"apply_maps {name}", apply_maps, card, [str(f / "test_maps")], out, levels=(0.5, 0.9)
        )
        for maps in (found or [])[:2]:
            for path in maps.files:
                book.note(f"map {name} {Path(path).name}", content(Path(path), book.encode))
    done: list[int] = []
    table = [str(f / "test_maps.csv")]
    book.call("apply_maps of a table", apply_maps, cards["sigma"], table, f / "maps-table", tick=done.append)
    book.call("apply_maps law", apply_maps, cards["sigma"], table, f / "maps-law", law="laplace")
    book.call("apply_maps of csv", apply_maps, cards["sigma"], [str(f / "test.csv")], f / "maps-csv")
    book.note("ticks of maps", done)
    head = nibabel.Nifti1Header()
    head.set_data_shape((2, 2, 2))
    write_nifti(f / "mine.nii.gz", np.arange(8.0).reshape(2, 2, 2), head)
    book.note("write_nifti", content(f / "mine.nii.gz", book.encode))


def _engines(book: Book) -> None:
    for name in ("local", "ray", "slurm"):
        book.call(f"load_engine {name}", lambda name=name: load_engine(name).__module__.rpartition(".")[2])
    tasks = [{"cases": k} for k in (2, 3, 4)]

    def merge(parts: Any) -> dict[str, Any]:
        return {"n": sum(part["n"] for part in parts)}

    def count(task: Any, tick: Any) -> dict[str, Any]:
        tick(task["cases"])
        return {"n": task["cases"]}

    seen: list[int] = []
    book.call("run", run_here, count, tasks, merge=merge, report=seen.append)
    book.call("run nothing", run_here, count, [], merge=merge)
    book.note("reported", seen)
