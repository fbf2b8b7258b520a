"""The command of the recorder; the package's docstring shows its use."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .book import Book, steady
from .difference import Difference, differences
from .encode import dump
from .ids import lost_ids
from .parts import PARTS, load
from .reach import Reach

VALUES = Path(__file__).parent / "values"
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))  # where the parts find made-up numbers


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.recorded", description="Record what a user sees, and compare."
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode in ("record", "compare"):
        one = modes.add_parser(mode)
        one.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts")
        one.add_argument("--values", type=Path, default=VALUES, help="the folder of recorded values")
        if mode == "compare":
            one.add_argument("--base", type=Path, help="another checkout, recorded now, instead of values/")
    show = modes.add_parser("show")
    show.add_argument("part", choices=PARTS)
    show.add_argument("label", help="any piece of it")
    modes.add_parser("parts")
    modes.add_parser("ids")
    given = parser.parse_args()
    with steady():
        if given.mode == "parts":
            print("\n".join(f"{name:14} {load(name).__doc__.splitlines()[0]}" for name in PARTS))
            return 0
        if given.mode == "ids":
            return lost_ids(ROOT)
        if given.mode == "show":
            entries = record(given.part, whole_text=True).entries
            print(dump({k: v for k, v in entries.items() if given.label in k}))
            return 0
        if given.mode == "record":
            return record_all(given.only, given.values)
        if given.base is not None:
            with tempfile.TemporaryDirectory() as folder:
                _record_elsewhere(given.base, given.only, Path(folder))
                return compare_all(given.only, Path(folder))
        return compare_all(given.only, given.values)


def record(part: str, *, whole_text: bool = False, quick: bool = False) -> Book:
    """Make the calls of a part, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        book = Book(Path(folder).resolve(), whole_text=whole_text, quick=quick)
        load(part).record(book)
    return book


def record_all(parts: list[str], values: Path) -> int:
    values.mkdir(parents=True, exist_ok=True)
    calls = commands = 0
    reach = Reach() if "coverage" not in sys.modules else None
    for part in parts:
        start = time.process_time()
        if reach is not None:
            with reach:
                book = record(part)
        else:
            book = record(part)
        (values / f"{part}.json").write_text(dump(book.entries))
        calls, commands = calls + book.calls, commands + book.commands
        _say(part, book, start)
    print(f"{calls} calls and {commands} commands in {', '.join(parts)}")
    if reach is not None:
        known = values / "reached.txt"
        before = set(known.read_text().splitlines()) if known.is_file() and parts != list(PARTS) else set()
        known.write_text("\n".join(sorted(reach.seen | before)) + "\n")
        print(reach.told(before))
    return 0


def compare_all(parts: list[str], values: Path) -> int:
    found: list[tuple[str, Difference]] = []
    calls = commands = 0
    for part in parts:
        start = time.process_time()
        book = record(part)
        calls, commands = calls + book.calls, commands + book.commands
        before = json.loads((values / f"{part}.json").read_text())
        after = json.loads(dump(book.entries))
        here = differences(before, after)
        found += [(part, one) for one in here]
        changed = {one.label for one in here if one.kind != "new"}
        _say(part, book, start, f", {len(changed)} differ" if changed else ", equal")
    titles = {
        "new": "New beside what was there",
        "words": "Different in their words alone",
        "value": "Different",
    }
    for kind, title in titles.items():
        chosen = [(part, one) for part, one in found if one.kind == kind]
        if chosen:
            print(f"\n{title}:")
            print("\n".join(f"{part}: {one}" for part, one in chosen))
    labels = {(part, one.label) for part, one in found if one.kind != "new"}
    print(f"\n{calls} calls and {commands} commands compared, {len(labels)} differ")
    return 1 if labels else 0


def _record_elsewhere(base: Path, parts: list[str], values: Path) -> None:
    """Record with the package of another checkout, by this recorder."""
    environment = {**os.environ, "PYTHONPATH": f"{base.resolve() / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.recorded", "record", "--values", str(values), "--only", *parts]
    subprocess.run(command, env=environment, cwd=ROOT, check=True)


def _say(part: str, book: Book, start: float, result: str = "") -> None:
    took = time.process_time() - start
    print(
        f"{part}: {book.calls} calls, {book.commands} commands, {took:.0f} s of the processor{result}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
