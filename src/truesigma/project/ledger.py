"""The ledger of a project, progress.json in its folder: a run resumes from it, and a changed recipe is noticed."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files.disk import BadFile, check_like, fingerprint, now, read_json, write_json

FILE, RUNS = "progress.json", "runs"
FORMAT, VERSION = "truesigma project", 1
STAGES = ("train", "sample", "calibrate", "evaluate", "report")
# The first stage that a change in a table of the recipe affects; all later ones follow from it.
FIRST = {"data": 0, "network": 0, "train": 0, "sample": 1, "calibrate": 2, "report": 3}


@dataclass(eq=False)
class Ledger:
    """The recipe and the data that a folder was made from, and the finished parts of its stages, as `train 0`."""

    folder: Path
    recipe: Mapping[str, Any]
    data: Mapping[str, str]
    done: dict[str, dict[str, Any]]

    def is_done(self, part: str) -> bool:
        """Tell whether a part was finished and what it wrote is still there, unchanged."""
        files = self.done.get(part, {}).get("files")
        if files is None:
            return False
        paths = {self.folder / name: mark for name, mark in files.items()}
        return all(path.is_file() and fingerprint(path) == mark for path, mark in paths.items())

    def finish(self, part: str, files: Sequence[str], words: str, seconds: float) -> None:
        """Note that a part is finished, with the files it wrote and its result in words."""
        marks = {name: fingerprint(self.folder / name) for name in files}
        self.done[part] = {"files": marks, "words": words, "seconds": round(seconds, 2), "date": now()}
        self.write()

    def forget(self, first: int) -> None:
        """Undo this stage and all later ones, and remove what they wrote; the networks stay for `train` to judge."""
        for part in [part for part in self.done if STAGES.index(part.split()[0]) >= first]:
            for name in self.done[part]["files"]:
                if not name.startswith(f"{RUNS}/"):
                    (self.folder / name).unlink(missing_ok=True)
            del self.done[part]

    def write(self) -> None:
        """Write progress.json, atomically."""
        said = {"recipe": self.recipe, "data": self.data, "done": self.done}
        write_json({"format": FORMAT, "version": VERSION, **said}, self.folder / FILE, strict=True, seal=True)


def read_ledger(folder: Path) -> Ledger | None:
    """Read what a folder says was done in it; None if nothing was started."""
    if not (folder / FILE).exists():
        return None
    stored = read_json(folder / FILE)
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or stored.get("version") != VERSION:
        raise BadFile(f"{folder / FILE} was not written by this truesigma; take another output folder")
    check_like(folder / FILE, stored, {"recipe": {"train": {"epochs": int}}, "data": dict, "done": dict})
    for part, done in stored["done"].items():
        check_like(folder / FILE, part.split()[0], STAGES, "done")
        check_like(folder / FILE, done, {"files": dict, "words": str}, f"done.{part}")
    return Ledger(folder, stored["recipe"], stored["data"], stored["done"])


def changes(before: Ledger, recipe: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, str]:
    """Describe what differs now, by `table.key`."""
    differences = {}
    for table, values in recipe.items():
        old = before.recipe.get(table, {})
        for key in dict.fromkeys([*old, *values]):
            was, now = old.get(key), values.get(key)
            if was != now:
                differences[f"{table}.{key}"] = f"[{table}] {key} was {_shown(was)}, is {_shown(now)}"
    if not any(key.startswith("data.") for key in differences) and before.data != data:
        names = [
            name for name in dict.fromkeys([*before.data, *data]) if before.data.get(name) != data.get(name)
        ]
        differences["data"] = f"the images or labels of {', '.join(names)} are not those of before"
    return differences


def touched(before: Ledger, recipe: Mapping[str, Any], differences: Iterable[str]) -> tuple[int, bool]:
    """Find the first stage that `changes` touch, and whether training starts anew; for more epochs it may resume."""
    stages = {key: FIRST[key.partition(".")[0]] for key in differences}
    longer = recipe["train"]["epochs"] > before.recipe["train"]["epochs"]
    # A cosine has come to its end, and `own` is one.
    usual = "cosine" if recipe["train"].get("recipe") == "own" else "plateau"
    longer = longer and (recipe["train"].get("schedule") or usual) == "plateau"
    training = [key for key, stage in stages.items() if stage == 0]
    goes_on = training == [] or (training == ["train.epochs"] and longer)
    return min(stages.values(), default=len(STAGES)), not goes_on


def open_ledger(
    folder: Path,
    recipe: Mapping[str, Any],
    data: Mapping[str, str],
    *,
    redo: bool,
    say: Callable[[str], None],
) -> Ledger:
    """Open the ledger to resume from; a changed recipe or changed data are refused, unless `redo` is set."""
    before = read_ledger(folder)
    if before is None:
        if (folder / RUNS).exists():
            raise BadFile(
                f"{folder} holds {RUNS}/ and no {FILE}, so it is not this project's; take another folder"
            )
        made = Ledger(folder, recipe, data, {})
        made.write()
        return made
    differences = changes(before, recipe, data)
    if not differences:
        return before
    first, anew = touched(before, recipe, differences)
    words, stages = "; ".join(differences.values()), ", ".join(STAGES[first:])
    if not redo:
        raise ValueError(
            f"{folder} was made from another recipe: {words}. Put it back, take another output folder (-o), or redo "
            f"{stages} with --redo"
        )
    say(f"changed: {words}; redoing {stages}")
    before.forget(first)
    if anew:
        shutil.rmtree(folder / RUNS, ignore_errors=True)
    made = Ledger(folder, recipe, data, before.done)
    made.write()
    return made


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
