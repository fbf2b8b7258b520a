"""Projects: init, run and demo on small folders of images, and the same from Python."""

import shutil
from pathlib import Path

from truesigma.project.plan import plan_project
from truesigma.project.run import run_project
from truesigma.project.survey import survey

from .. import folders
from ..book import Book


def record(book: Book) -> None:
    import torch

    torch.set_num_threads(1)
    for name, more in {
        "pictures": {}, "split": {"split": True, "ending": ".tif"}, "volumes": {"volumes": True, "ending": ".nii.gz"},
        "arrays": {"volumes": True, "ending": ".npy", "split": True},
    }.items():  # fmt: skip
        folders.images(book.folder / name, 24, side=10, **more)
    _init(book)
    _run(book)
    _python(book)
    _demo(book)


def _init(book: Book) -> None:
    base = "init --images pictures/scans --table pictures/labels.csv --target age --device cpu"
    for name, more in {
        "plain": "--unit months --epochs 1", "quiet": "--quiet", "json": "--json - --epochs 2",
        "two": "--target size --unit months --unit mm --epochs 1", "laplace": "--likelihood laplace --epochs 1",
        "ensemble": "--ensemble 2 --epochs 1 --seed 3 --output members", "size": "--size 8 --backbone small --epochs 1",
        "pattern": "--image {id}.png --group '' --epochs 1", "column": "--image id --group patient",
    }.items():  # fmt: skip
        book.command(f"{base} {more} -o {name}.toml")
    book.command(f"{base} -o plain.toml", label="init over a recipe")
    book.command(f"{base} --unit months --epochs 1 --force -o plain.toml", label="init by force")
    for name in ("split", "volumes", "arrays"):
        book.command(f"init --images {name} --target age --epochs 1 --device cpu -o {name}.toml")
    book.command("init --images split --target age --split split --epochs 1 --device cpu -o split2.toml")
    for more in (
        "--target height", "--image gone", "--group gone", "--split gone", "--size -1", "--backbone magic",
        "--likelihood cauchy", "--epochs 0", "--ensemble -1", "--unit a --unit b --unit c",
    ):  # fmt: skip
        book.command(f"{base} {more} -o wrong.toml", label=f"init wrong: {more}")
    book.command("init --images gone --target age -o wrong.toml")
    book.command("init --images pictures/scans --table gone.csv --target age -o wrong.toml")


def _small(path: Path, **more: str) -> None:
    """A recipe that is done in seconds."""
    text = path.read_text().replace("draws = 25", "draws = 3")
    for old, new in more.items():
        text = text.replace(f"{old} = ", f"{old} = {new} # ")
    path.write_text(text)


def _run(book: Book) -> None:
    f = book.folder
    for name in ("plain", "two", "laplace", "ensemble", "split", "volumes", "arrays"):
        _small(f / f"{name}.toml", **({} if name == "plain" else {"figures": "false"}))
    book.command("run plain.toml --dry-run --device cpu", content=False)
    book.command("run plain.toml --dry-run --device cpu --json -", content=False)
    book.command("run plain.toml --device cpu --json - -o out-plain")
    book.command("run plain.toml --device cpu -o out-plain", label="run plain again")
    for name in ("two", "laplace", "ensemble", "split", "volumes", "arrays"):
        book.command(f"run {name}.toml --device cpu --quiet -o out-{name}")
    book.command("run split.toml --device cpu --time-limit 0 -o out-stopped")
    book.command("run split.toml --device cpu -o out-stopped", label="run stopped on")
    text = (f / "plain.toml").read_text()
    (f / "plain.toml").write_text(text.replace('recalibrate = "sigma"', 'recalibrate = "aux:steps=30"'))
    book.command("run plain.toml --device cpu -o out-plain", label="run changed")
    book.command("run plain.toml --device cpu -o out-plain --redo --quiet", label="run redone")
    for name, old, new in (
        ("key", "epochs = ", "epoch = "), ("backbone", '"small"', '"magic"'), ("csv", "labels.csv", "gone.csv"),
        ("by", 'by = "auto"', 'by = "site"'),
    ):  # fmt: skip
        (f / f"wrong-{name}.toml").write_text(text.replace(old, new))
        book.command(f"run wrong-{name}.toml --device cpu -o out-wrong")
    book.command("predict out-plain/runs/0 --images pictures/scans/s000.png --card out-plain/card.json -o new.csv "
                 "--device cpu")  # fmt: skip
    book.command("compare --calibration out-plain/valid.npz --recalibrate none,sigma --folds 2 --json -")


def _python(book: Book) -> None:
    f = book.folder
    found = book.call(
        "survey", lambda: _seen(survey(f / "pictures" / "scans", f / "pictures" / "labels.csv"))
    )
    assert found is not None
    for name in ("split", "volumes", "arrays"):
        book.call(f"survey {name}", lambda name=name: _seen(survey(f / name)))
    book.call("survey pattern", lambda: _seen(survey(f / "pictures", image="scans/{id}.png")))
    book.call("survey of nothing", survey, f / "gone")
    shutil.copy(f / "split.toml", f / "again.toml")
    plan = plan_project(f / "again.toml", f / "out-split", device="cpu")
    told = "cases groups image unit parts done changed parameters device"
    book.call("plan_project", lambda: [getattr(plan, name) for name in told.split()])
    book.call("plan_project keys", lambda: [sorted(plan.to_dict()), len(plan.lines()) > 3])
    said: list[str] = []
    made = run_project(
        f / "again.toml", f / "out-python", device="cpu", say=said.append, tick=lambda n: lambda k: None
    )
    book.call("run_project", lambda: [made.complete, made.headline, made.scores, len(said)])
    book.call("run_project keys", lambda: sorted(made.to_dict()))
    book.call("run_project other", run_project, f / "plain.toml", f / "out-python", device="cpu", say=None)
    book.call("run_project redone", lambda: run_project(f / "again.toml", f / "out-python", device="cpu", redo=True,
                                                        say=None, time_limit=100.0).complete)  # fmt: skip


def _seen(found: object) -> list[object]:
    names = ("header", "image", "names", "missing", "numeric", "group", "split", "shapes", "dtype", "dimensions",
             "channels", "candidates")  # fmt: skip
    return [getattr(found, name) for name in names]


def _demo(book: Book) -> None:
    small = "--train 12 --valid 12 --test 12 --epochs 2 --draws 2"
    book.command(f"demo {small} --seed 1 --json - -o demo")
    book.command(f"demo {small} --seed 1 --quiet -o demo", label="demo again")
    book.command("demo --train 0 -o wrong")
