"""python -m tests.fuzz READER|all COUNT SEED: damage a reader's file, print the counts; exit 1 where one is a fault.

python -m tests.fuzz table: the committed counts into the docs.
python -m tests.fuzz READER keep SEED INDEX FOLDER: write the damaged file of that number.
"""

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "src")]


HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "failures.md"
START, END = "<!-- made by python -m tests.fuzz table -->\n", "<!-- end -->\n"
COLUMNS = ("read", "refused", "changed", "changed behind a checksum")


def table() -> str:
    """The committed counts as a table of the docs."""
    kept = json.loads((HERE / "counts.json").read_text())
    lines = [f"| reader | {' | '.join(COLUMNS)} | seconds at most | MB at most |", "| --- |" + " ---: |" * 6]
    for name, count in kept["counts"].items():
        numbers = [*(count[column] for column in COLUMNS), count["seconds at most"], count["MB at most"]]
        lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines) + "\n"


def write_table() -> None:
    """Put the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2], encoding="utf-8")


def main(words: list[str]) -> int:
    import importlib

    from .readers import READERS
    from .server import fuzz, keep

    if len(words) == 5 and words[1] == "keep":
        keep(words[0], int(words[2]), int(words[3]), Path(words[4]))
        return 0
    if words == ["table"]:
        write_table()
        return 0
    if len(words) not in (3, 4) or words[0] not in (*READERS, "all"):
        print(__doc__, f"READER is one of {', '.join(READERS)}.", sep="\n")
        return 2
    names = list(READERS) if words[0] == "all" else [words[0]]
    # Warm: what is imported here need not be in every process that is forked.
    warm = ["pyarrow.parquet", "pyarrow.csv", "nibabel", "pydicom", "PIL.Image", "truesigma.files.images"]
    torch_ones = {"run", "weights", "safetensors", "recipe"} & set(names)
    warm += ["truesigma.imaging.prediction.runs", "blob_images"] if torch_ones else []
    for module in [*warm, "truesigma.project.ledger", "truesigma.evaluation.card"]:
        importlib.import_module(module)
    counts, faults = {}, 0
    for name in names:
        counts[name] = fuzz(name, int(words[1]), int(words[2]))
        for fault in counts[name]["faults"]:
            print(name, json.dumps(fault), file=sys.stderr, flush=True)
        faults += len(counts[name]["faults"])
        counts[name]["faults"] = len(counts[name]["faults"])
        print(name, json.dumps(counts[name]), flush=True)
    if len(words) == 4:
        said = {"files of each reader": int(words[1]), "seed": int(words[2]), "counts": counts}
        Path(words[3]).write_text(json.dumps(said, indent=1) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
