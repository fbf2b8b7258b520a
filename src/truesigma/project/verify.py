"""Verify that results still follow from their files: hashes, splits, rows, units and scores are computed again."""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..core import plugins
from ..evaluation.card import Card, calibrate, read_card
from ..evaluation.evaluate import evaluate
from ..evaluation.fit import choose
from ..files.described import read_again
from ..files.disk import BadFile, check_like, fingerprint, json_text, read_json, reading
from .ledger import FILE, RUNS, read_ledger

RTOL = 1e-9  # for recomputed numbers: another machine sums in another order
FILE_LIKE = {"file": str, "sha256": str}
SCORES_LIKE = {
    "recipe": str,
    "data": {"calibration": FILE_LIKE, "test": [FILE_LIKE]},
    "rows": [{"recalibration": str, "label?": str, "part": str, "metric": str}],
    "questions?": [{"recalibration": str, "question": str}],
}


class Unknown(str):
    """Stands for what cannot be known, with the reason."""


WEIGHTED = Unknown("its cases were weighted to be like those of a new site, and are not weighted again here")


@dataclass(frozen=True)
class Check:
    """One statement about files: whether it still follows from them; None if they cannot tell."""

    what: str
    holds: bool | None
    words: str = ""

    def line(self) -> str:
        """The statement in words, as it is printed."""
        mark = {True: "follows", False: "DOES NOT FOLLOW", None: "cannot be known"}[self.holds]
        return f"{mark}: {self.what}" + (f" ({self.words})" if self.words else "")


def verify(path: str | Path, code: Collection[str | Path] = ()) -> list[Check]:
    """Recompute what a file or a folder says from the files it names.

    Args:
        path: the folder of `truesigma run` or of `truesigma train`; a card, or scores; or an ONNX
            file of `truesigma export`.
        code: your own Python files that its networks may use; a file that only the folder names is not executed.

    Returns:
        What was checked, and whether it still follows.
    """
    path = Path(path)
    kind: Callable[[Path], Iterator[Check]]
    if path.is_dir():
        look = _project if (path / FILE).exists() else _run
        kind = partial(look, code=code)
    elif path.suffix.lower() == ".onnx":
        kind = _onnx
    elif path.suffix.lower() == ".json":
        kind = _json
    else:
        raise BadFile(f"{path} cannot be verified; expected the folder of a run, or a .json or .onnx file.")
    return list(kind(path))


def _checked(what: str, look: Callable[[], str | None]) -> Check:
    """Run a check: the function says or raises what is wrong; "" means right, None or `Unknown` not known."""
    try:
        found = look()
    except plugins.NotGiven as problem:
        return Check(what, None, str(problem))
    except (ValueError, OSError) as problem:
        return Check(what, False, str(problem))
    unknown = found is None or isinstance(found, Unknown)
    return Check(what, None if unknown else not found, found or "")


def _project(folder: Path, code: Collection[str | Path]) -> Iterator[Check]:
    ledger = read_ledger(folder)
    assert ledger is not None
    for part, done in ledger.done.items():
        for name, mark in done["files"].items():
            yield _checked(f"{name} is what {part} wrote", partial(_same_file, folder / name, mark))
    for one in sorted((folder / RUNS).glob("*")):
        yield from (Check(f"{RUNS}/{one.name}: {c.what}", c.holds, c.words) for c in _run(one, code))
    for name in ("card.json", "scores.json"):
        if (folder / name).is_file():
            try:
                yield from _json(folder / name)
            except plugins.NotGiven as problem:
                yield Check(f"{name} follows from its cases", None, str(problem))
            except (ValueError, OSError) as problem:
                yield Check(f"{name} is whole", False, str(problem))


def _same_file(path: Path, mark: str) -> str:
    return "" if fingerprint(path) == mark else f"{path} has changed since"


def _run(folder: Path, code: Collection[str | Path]) -> Iterator[Check]:
    """Check a training run: its recipe and its weights."""
    from ..imaging.training.folder import BEST, load_run, read_recipe

    yield _checked("recipe.json is whole", lambda: "" if read_recipe(folder) else "it is empty")
    # Its hash is checked, and names and shapes.
    yield _checked(f"{BEST} is whole, and fits the network", lambda: "" if load_run(folder, code) else None)


def _json(path: Path) -> Iterator[Check]:
    """Check a card, or scores that name their files."""
    found = read_json(path)  # if it has a seal, it is what was written
    if not isinstance(found, dict):
        raise BadFile(f"{path} holds no card and no scores.")
    if str(found.get("format", "")).startswith("truesigma recalib"):
        card = _our_card(path)
        yield Check(f"{path.name} is whole", True)
        yield _checked(f"{path.name} follows from its cases", partial(_card, path, card))
    elif "rows" in found and isinstance(data := found.get("data"), dict) and "calibration" in data:
        check_like(path, found, SCORES_LIKE)
        files = [data["calibration"], *data["test"]]
        yield from (
            _checked(f"{one['file']} is what was scored", partial(_beside, path, one)) for one in files
        )
        if all((path.parent / one["file"]).is_file() for one in files):
            yield _checked("the scores follow from them", partial(_scored, path, found))
    else:
        raise BadFile(f"{path} holds no card, and no scores with the names of their files.")


def _scored(path: Path, found: Mapping[str, Any]) -> str:
    """Read the cases of scores as they were read, score them again, and compare row by row.

    A user's own recalibration is code, and not run.
    """
    data = found["data"]
    if "like" in data:
        return WEIGHTED
    calibration, *test = [read_again(path, one) for one in (data["calibration"], *data["test"])]
    chosen = list(dict.fromkeys(row["label"] for row in found["rows"]))
    ours = [label for label in chosen if label.partition(":")[0] in plugins.names("recalibrate")]
    made = evaluate(calibration, test, recalibrations=ours, metrics="all", recipe=found["recipe"])
    again = json.loads(json_text({"rows": made.rows, "questions": made.questions}))
    for kind, keys, values in (
        ("rows", ("part", "metric", "level"), ("value",)),
        ("questions", ("question", "output", "group"), ("verdict", "estimate", "low", "high")),
    ):
        computed = [(_picked(one, keys), _picked(one, values)) for one in again[kind]]
        for row in found.get(kind, ()):
            key, value = _picked(row, keys), _picked(row, values)
            same = [other for known, other in computed if known == key]
            if key[0] in ours and not any(_alike(value, other) for other in same):
                return f"{path}: {key[1:]} of {key[0]} is {value}, computed again {same[:1]}"
    other = [label for label in chosen if label not in ours]
    return Unknown(f"{', '.join(other)}: not one of ours, and not run here") if other else ""


def _picked(row: Mapping[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Pick the recalibration of a row, and some of its values."""
    label = row.get("label", row["recalibration"])  # questions name it by its label
    return [label, *(row.get(name) for name in names)]


def _beside(path: Path, about: Mapping[str, Any]) -> str | None:
    file = path.parent / str(about["file"])
    return _same_file(file, about["sha256"]) if file.is_file() else None


def _our_card(path: Path) -> Card:
    """Read a card, unless its recalibration is a user's own file, which is code and not run here."""
    name = read_json(path, {"recalibration": {"name": str}})["recalibration"]["name"]
    if name not in plugins.names("recalibrate"):
        raise plugins.NotGiven(f"{name}: not one of ours, and not run here")
    return read_card(path)


def _card(path: Path, card: Card) -> str | None:
    """Fit the card's recalibration again on its cases."""
    if "file" not in card.data or not (path.parent / str(card.data["file"])).is_file():
        return None
    check_like(path, card.data, FILE_LIKE, "data")
    if problem := _beside(path, card.data):
        return problem
    if "like" in card.data:
        return WEIGHTED
    cases = read_again(path, card.data, card.law)
    stored = card.to_dict()["recalibration"]
    chosen = choose(stored["name"], card.recipe)
    names = set(plugins.options("recalibrate", chosen.module))
    options = {key: stored[key] for key in names & set(stored)}
    if "by" in names:  # of conformal
        options["by"] = "all" if stored["groups"] is None else "group"
    said = None if card.refer is None else card.refer.to_dict()
    asked = None if said is None else {name: said[name] for name in ("tolerance", "risk", "delta", "most")}
    made = calibrate(cases, (stored["name"], options), recipe=card.recipe, refer=asked).to_dict()
    again = made["recalibration"]
    if card.unit != cases.unit:
        return f"the card is in {card.unit or 'no unit'}, its cases in {cases.unit or 'no unit'}"
    if not _alike(said, made.get("refer")):
        return f"the referral found again is {made['refer']!r:.200}"
    if _alike(stored, again):
        return ""
    unsaid = sorted(names - set(options) - set(chosen.settings) - {"error"})
    if unsaid:
        return Unknown(
            f"{stored['name']} fitted with the usual {', '.join(unsaid)} is another; the card does not say which were "
            "chosen"
        )
    return f"{stored['name']} fitted again gives {again!r:.200}"


def _onnx(path: Path) -> Iterator[Check]:
    """Check an exported model: its graph and its metadata, by their hash."""
    from ..imaging.export.graph import content_hash, need_onnx

    need_onnx()
    import onnx

    with reading(path):
        model: Any = onnx.load(path)
        onnx.checker.check_model(model)
        said = {one.key: one.value for one in model.metadata_props}
        content = content_hash(model)
    same = content == said.get("sha256")
    yield Check(f"{path.name} is whole", same, "" if same else "its graph or its metadata has changed")


def _alike(one: Any, other: Any) -> bool:
    """Whether plain values are equal, numbers up to rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float | int) and isinstance(other, float | int):
        with suppress(OverflowError):  # of whole numbers that are larger than any float
            return math.isclose(one, other, rel_tol=RTOL)
    return bool(one == other)
