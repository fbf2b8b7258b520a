"""The paper's commands, on a copy of paper/ as it was recorded, with the first cases of each result."""

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np

from ..book import Book
from ..ids import START

ROOT = Path(__file__).parents[3]
CASES = 40
RUNS = ("boneage_densenet201", "oct_resnet101", "oct_densenet201_one_pass", "simulated_small")


def record(book: Book) -> None:
    described(book.folder)
    book.command("paper status")
    book.command("paper status --json -")
    for table in ("table1", "table2"):
        book.command(f"paper {table}")
        book.command(f"paper {table} --json {table}.json")
    for number in ("1", "3", "5", "9", "21", "C", "99"):  # `all` draws the others, too
        book.command(f"paper figure {number} --out figures --json -")
    book.command("paper all --quiet --json all.json")
    book.command("paper figure 9 --hours -1")
    book.command("paper table1 --data nowhere --hours 1 --runs r")
    (book.folder / "data").mkdir()
    text = (book.folder / "paper" / "experiments.toml").read_text()
    small = text.replace(
        "options = { cases = 2200, train = 200 }", "options = { cases = 40, train = 16, valid = 12 }"
    )
    (book.folder / "paper" / "experiments.toml").write_text(small)
    base = "paper run simulated_small --data data --runs runs --device cpu"
    book.command(f"{base} --epochs 2 --quiet")
    book.command(f"{base} --epochs 3 --precision fp32 --hours 1 --other data --json -")
    book.command("paper run gone --data data")
    book.command("paper table2 --data data --runs runs --hours 0", label="paper table2, nothing more")
    (book.folder / "also").symlink_to("paper")
    book.command("paper figure C --root also --data data --runs runs --hours 0 --out figures --json -")
    book.command("paper status --root also --json -")
    book.command("paper run gone --root also --data data")
    book.command("paper all --root nowhere --data data --runs runs --hours 0")


def described(folder: Path) -> None:
    """The folder of that commit, by git, made small."""
    packed = subprocess.run(
        ["git", "archive", START, "paper"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    for path in (folder / "paper" / "figures").glob("*"):
        path.unlink()
    for run in sorted((folder / "paper" / "results").iterdir()):
        if run.name not in RUNS:
            shutil.rmtree(run)
            continue
        with np.load(run / "draws.npz") as held:
            kept = {name: held[name][:, :, :CASES] for name in held.files}
        np.savez(run / "draws.npz", **kept)
        about = json.loads((run / "run.json").read_text())
        about["cases"] = {name: min(n, CASES) if name != "train" else n for name, n in about["cases"].items()}
        (run / "run.json").write_text(json.dumps(about))
        (run / "scores.json").unlink()
