"""python -m tests.fuzz READER[,READER...]|all COUNT SEED [FILE [SECONDS]]: damage files of readers, count what happens.

Exit 1 where one of them is a fault. With FILE the counts are in it, and the same command resumes; SECONDS
is the time that may pass.

python -m tests.fuzz table FILE...: put counts together, each reader's from the file with most, and into the docs.
python -m tests.fuzz READER keep SEED INDEX FOLDER: write the damaged file of that number.
"""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "src")]

from .readers import READERS  # noqa: E402
from .server import fuzz, keep  # noqa: E402

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "failures.md"
START, END = "<!-- made by python -m tests.fuzz table -->\n", "<!-- end -->\n"
COLUMNS = ("files", "read", "refused", "changed", "changed behind a checksum")
LAST = ("faults", "seconds at most", "MB at most")
LOT = 250  # files after which counts are written


def table() -> str:
    """The committed counts as a table of the docs."""
    kept = json.loads((HERE / "counts.json").read_text())
    head = (*COLUMNS, *LAST)
    lines = [f"| reader | {' | '.join(head)} |", "| --- |" + " ---: |" * len(head)]
    for name, count in kept["counts"].items():
        numbers = [count[column] for column in (*COLUMNS, *LAST)]
        lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines) + "\n"


def write_table() -> None:
    """Put the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2], encoding="utf-8")


def put_together(files: list[str]) -> None:
    """Take each reader's counts from the file that has most of them."""
    counts: dict[str, dict[str, Any]] = {}
    for file in files:
        for name, one in json.loads(Path(file).read_text())["counts"].items():
            if name in READERS and one["files"] > counts.get(name, {"files": 0})["files"]:
                counts[name] = one
    (HERE / "counts.json").write_text(text_of({name: counts[name] for name in READERS if name in counts}))


def text_of(counts: dict[str, Any]) -> str:
    return json.dumps({"counts": counts}, indent=1) + "\n"


def added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The counts of two lots of files; of seconds and memory the larger."""
    most = {key for key in other if key.endswith("at most")} | {"seed"}
    return {
        key: max(one.get(key, 0), other[key]) if key in most else one.get(key, 0) + other[key]
        for key in other
    } | {key: one[key] for key in one.keys() - other.keys()}


def warm(names: list[str]) -> None:
    """Import here what need not be imported in every process that is forked."""
    modules = ["pyarrow.parquet", "pyarrow.csv", "nibabel", "pydicom", "PIL.Image", "truesigma.files.images"]
    if {"run", "weights", "safetensors", "recipe", "onnx", "verified-run"} & set(names):
        modules += ["truesigma.imaging.prediction.runs", "blob_images"]
    for module in [*modules, "truesigma.project.ledger", "truesigma.evaluation.card"]:
        importlib.import_module(module)


def main(words: list[str]) -> int:
    if len(words) == 5 and words[1] == "keep":
        keep(words[0], int(words[2]), int(words[3]), Path(words[4]))
        return 0
    if words[:1] == ["table"]:
        if words[1:]:
            put_together(words[1:])
        write_table()
        return 0
    names = list(READERS) if words[:1] == ["all"] else words[0].split(",") if words else []
    if len(words) not in (3, 4, 5) or not set(names) <= set(READERS):
        print(__doc__, f"READER is one of {', '.join(READERS)}.", sep="\n")
        return 2
    count, seed, end = (
        int(words[1]),
        int(words[2]),
        time.monotonic() + float(words[4] if words[4:] else "inf"),
    )
    file = Path(words[3]) if words[3:] else None
    counts = json.loads(file.read_text())["counts"] if file is not None and file.is_file() else {}
    warm(names)
    for name in names:
        done = counts.get(name, {"files": 0})
        while done["files"] < count and time.monotonic() < end:
            first = done["files"]
            last = min(first + LOT, count) if file is not None else count
            found = fuzz(name, last, seed, first)
            for fault in found["faults"]:
                print(name, json.dumps(fault), file=sys.stderr, flush=True)
            found = {"files": last - first, "seed": seed, **found, "faults": len(found["faults"])}
            done = counts[name] = added(done, found)
            if file is not None:
                file.write_text(text_of(counts))
        print(name, json.dumps(done), flush=True)
    return 1 if any(counts.get(name, {}).get("faults") for name in names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
