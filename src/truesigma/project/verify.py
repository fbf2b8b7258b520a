"""Verify that results still follow from their files: hashes, splits, rows, units and scores are computed again."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core import plugins
from ..core.cases import Cases
from ..evaluation.card import Card, calibrate, read_card, referral
from ..evaluation.evaluate import evaluate
from ..evaluation.fit import choose
from ..evaluation.sets import all_like
from ..files.described import new_again, read_again
from ..files.disk import BadFile, check_like, fingerprint, json_text, read_json, reading
from ..files.store import read
from ..files.tables import read_table
from .ledger import FILE, RUNS, Ledger, read_ledger
from .project import AUTO

RTOL = 1e-9  # for recomputed numbers: another machine sums in another order
FILE_LIKE = {"file": str, "sha256": str}
SCORES_LIKE = {"rows": list, "recipe": str, "data": {"calibration": FILE_LIKE, "test": list}}
QUESTION_LIKE = {"recalibration": str, "question": str}
ROW_LIKE = {"recalibration": str, "label?": str, "part": str, "metric": str}


class Unknown(str):
    """Stands for what cannot be known, with the reason."""


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
        path: the folder of `truesigma run` or of `truesigma train`; a card, scores or other JSON of `truesigma`; a
            report; or an ONNX file of `truesigma export`.
        code: your own Python files that its networks may use; a file that only the folder names is not executed.

    Returns:
        What was checked, and whether it still follows.
    """
    path = Path(path)
    kind: Callable[[Path], Iterator[Check]]
    if path.is_dir():
        look = _project if (path / FILE).exists() else _run
        kind = partial(look, code=code)
    elif path.suffix.lower() in (".html", ".htm"):
        kind = _page
    elif path.suffix.lower() == ".onnx":
        kind = _onnx
    elif path.suffix.lower() == ".json":
        kind = _json
    else:
        raise BadFile(
            f"{path} cannot be verified; expected the folder of a run, or a .json, .html or .onnx file."
        )
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
    networks = sorted((folder / RUNS).glob("*"))
    for one in networks:
        yield from (Check(f"{RUNS}/{one.name}: {c.what}", c.holds, c.words) for c in _run(one, code))
    split = str(ledger.recipe.get("calibrate", {}).get("split", "valid"))
    parts = {name: folder / f"{name}.npz" for name in (split, "test")}
    if not all(file.is_file() for file in parts.values()):
        yield Check("the cases", None, "they have not been drawn yet")
        return
    try:
        cases = {name: read(file) for name, file in parts.items()}
    except (ValueError, OSError) as problem:
        yield Check("the cases can be read", False, str(problem))
        return
    yield _checked("each case is in the split that cases.csv says", partial(_splits, folder, cases))
    yield _checked("no group is in two splits", partial(_groups, folder))
    yield _checked("the cases were drawn from these networks", partial(_networks, networks, cases))
    if (folder / "card.json").is_file():
        yield from _json(folder / "card.json")
    if (folder / "scores.json").is_file():
        chosen = _choices(ledger, folder)
        again = partial(_scores, folder / "scores.json", cases[split], cases["test"], chosen)
        yield _checked("scores.json follows from the cases", again)
    if (folder / "predictions.csv").is_file() and not _own(ledger):
        yield _checked("predictions.csv follows from the card", partial(_predictions, folder, cases["test"]))
    if (folder / "report.html").is_file():
        yield from _page(folder / "report.html")


def _same_file(path: Path, mark: str) -> str:
    return "" if fingerprint(path) == mark else f"{path} has changed since"


def _choices(ledger: Ledger, folder: Path) -> list[str]:
    """List the recalibrations that `run` compared."""
    chosen, compared = ledger.recipe["calibrate"]["recalibrate"], ledger.recipe["report"]["compare"]
    if chosen == AUTO:  # as the card says
        chosen = str(read_json(folder / "card.json")["recalibration"]["name"])
    return list(dict.fromkeys(["none", chosen, *compared]))


def _own(ledger: Ledger) -> bool:
    """Whether the recalibration is a user's own file, which is code and not run here."""
    return ".py" in str(ledger.recipe["calibrate"]["recalibrate"])


def _splits(folder: Path, cases: Mapping[str, Cases]) -> str:
    rows = read_table(folder / "cases.csv", need=("id", "split", "group"), exact=True)[1]
    for name, some in cases.items():
        places = [name] * len(some) if some.fold is None else [f"fold {one}" for one in some.fold]
        said = sorted((row["id"], row["split"]) for row in rows if row["split"] in places)
        if sorted(zip(map(str, some.id), places)) != said:
            return (
                f"{name}.npz holds {len(some)} cases, cases.csv names {len(said)}, and they are not the same"
            )
    return ""


def _groups(folder: Path) -> str | None:
    rows = read_table(folder / "cases.csv", need=("id", "split", "group"), exact=True)[1]
    places: dict[str, set[str]] = {}
    for row in rows:
        places.setdefault(row["group"], set()).add(row["split"])
    if set(places) == {""}:
        return None
    torn = [f"{group} is in {' and '.join(sorted(at))}" for group, at in places.items() if len(at) > 1]
    return f"{folder / 'cases.csv'}: {torn[0]}" if torn else ""


def _networks(folders: list[Path], cases: Mapping[str, Cases]) -> str | None:
    from ..imaging.data.fingerprint import names_hash
    from ..imaging.training.folder import weights_mark

    marks = [weights_mark(folder) for folder in folders]
    mark = marks[0] if len(marks) == 1 else names_hash(marks)
    if not all(some.checkpoint for some in cases.values()):
        return None
    wrong = [name for name, some in cases.items() if some.checkpoint != mark]
    return f"{wrong[0]}.npz was drawn from other weights than {folders[0].parent} holds" if wrong else ""


def _run(folder: Path, code: Collection[str | Path]) -> Iterator[Check]:
    """Check a training run: its recipe, weights and history."""
    from ..imaging.network.tensors import read_state
    from ..imaging.training.folder import BEST, HISTORY, LAST, read_recipe

    yield _checked("recipe.json is whole", lambda: "" if read_recipe(folder) else "it is empty")
    yield _checked(f"{BEST} is whole, and fits the network", partial(_whole, folder, code))
    if not (folder / LAST).is_file():
        yield Check(f"{LAST} is whole", None, "it is not there; the run cannot be resumed")
        return
    state: dict[str, Any] = {}
    yield _checked(f"{LAST} is whole", lambda: state.update(read_state(folder / LAST)[1]) or "")
    if state and (folder / HISTORY).is_file():
        yield _checked(f"{HISTORY} is what was trained", partial(_history, folder / HISTORY, state["rows"]))


def _whole(folder: Path, code: Collection[str | Path]) -> str:
    from ..imaging.network.tensors import read_values
    from ..imaging.training.folder import BEST, load_run

    read_values(folder / BEST)  # whose hash is checked
    load_run(folder, code)  # which looks at names and shapes
    return ""


def _history(path: Path, rows: list[dict[str, Any]]) -> str:
    said = read_table(path, exact=True)[1]
    if len(said) != len(rows):
        return f"{path} has {len(said)} epochs, the weights {len(rows)}"
    for row, line in zip(rows, said):
        for key in set(row) & set(line):
            if line[key] != ("" if row[key] is None else str(row[key])):
                return f"{path}: {key} of epoch {row['epoch']} is {line[key]}, and was {row[key]}"
    return ""


def _json(path: Path) -> Iterator[Check]:
    """Check a card, or scores that name their files."""
    found = read_json(path)  # if it has a seal, it is what was written
    if not isinstance(found, dict):
        raise BadFile(f"{path} holds no card and no scores.")
    if str(found.get("format", "")).startswith("truesigma recalib"):
        card = read_card(path)
        yield Check(f"{path.name} is whole", True)
        yield _checked(f"{path.name} follows from its cases", partial(_card, path, card))
    elif "rows" in found and isinstance(data := found.get("data"), dict) and "calibration" in data:
        check_like(path, found, SCORES_LIKE)
        asked = found.get("questions", [])
        check_like(path, asked, list, "questions")
        likes = (FILE_LIKE, [one for one in [data.get("like")] if one is not None]), (FILE_LIKE, data["test"])
        for like, those in (*likes, (ROW_LIKE, found["rows"]), (QUESTION_LIKE, asked)):
            for one in those:
                check_like(path, one, like)
        files = [data["calibration"], *data["test"], *([data["like"]] if "like" in data else [])]
        yield from (
            _checked(f"{one['file']} is what was scored", partial(_beside, path, one)) for one in files
        )
        if all((path.parent / one["file"]).is_file() for one in files):
            yield _checked("the scores follow from them", partial(_scored, path, found))
    else:
        raise BadFile(f"{path} holds no card, and no scores with the names of their files.")


def _scored(path: Path, found: Mapping[str, Any]) -> str:
    """Read the cases of scores as they were read, and score them again."""
    data = found["data"]
    sets = [read_again(path, one) for one in (data["calibration"], *data["test"])]
    if "like" in data:
        sets = all_like(sets, new_again(path, data["like"], data["calibration"]), str(found["recipe"]))
    calibration, *test = sets
    chosen = list(dict.fromkeys(row["label"] for row in found["rows"]))
    return _scores(path, calibration, test, chosen)


def _beside(path: Path, about: Mapping[str, Any]) -> str | None:
    file = path.parent / str(about["file"])
    return _same_file(file, about["sha256"]) if file.is_file() else None


def _card(path: Path, card: Card) -> str | None:
    """Fit the card's recalibration again on its cases."""
    if "file" not in card.data or not (path.parent / str(card.data["file"])).is_file():
        return None
    check_like(path, card.data, FILE_LIKE, "data")
    if problem := _beside(path, card.data):
        return problem
    cases = read_again(path, card.data, card.law)
    if "like" in card.data:
        about = card.data["like"]
        check_like(path, about, {"file?": str, "sha256?": str}, "like")
        if "file" not in about or not (path.parent / about["file"]).is_file():
            return Unknown("the predictions of the new site are not beside it")
        if problem := _beside(path, about):
            return problem
        cases = all_like([cases], new_again(path, about, card.data), card.recipe)[0]
    stored = card.to_dict()["recalibration"]
    chosen = choose(stored["name"], card.recipe)
    names = set(plugins.options("recalibrate", chosen.module))
    options = {key: stored[key] for key in names & set(stored)}
    if "by" in names:  # of conformal
        options["by"] = "all" if stored["groups"] is None else "group"
    again = calibrate(cases, (stored["name"], options), recipe=card.recipe).to_dict()["recalibration"]
    if card.unit != cases.unit:
        return f"the card is in {card.unit or 'no unit'}, its cases in {cases.unit or 'no unit'}"
    if card.refer is not None and (problem := _refers(card, cases)):
        return problem
    if _alike(stored, again):
        return ""
    unsaid = sorted(names - set(options) - set(chosen.settings) - {"error"})
    if unsaid:
        return Unknown(
            f"{stored['name']} fitted with the usual {', '.join(unsaid)} is another; the card does not say which were "
            "chosen"
        )
    return f"{stored['name']} fitted again gives {again!r:.200}"


def _refers(card: Card, cases: Cases) -> str:
    """Find the threshold of the referral again."""
    assert card.refer is not None
    said = card.refer.to_dict()
    again = referral(
        cases, card.recipe, {name: said[name] for name in ("tolerance", "risk", "delta")}
    ).to_dict()
    return "" if _alike(said, again) else f"the referral found again is {again!r:.200}"


def _scores(path: Path, calibration: Cases, test: Any, chosen: list[str]) -> str:
    """Score again, and compare row by row; a user's own file is code, and not run."""
    said = read_json(path)
    ours = [label for label in chosen if label.partition(":")[0] in plugins.names("recalibrate")]
    made = evaluate(calibration, test, recalibrations=ours, metrics="all", recipe=said["recipe"])
    again = json.loads(json_text({"rows": made.rows, "questions": made.questions}))
    for kind, keys, values in (
        ("rows", ("part", "metric", "level"), ("value",)),
        ("questions", ("question", "output", "group"), ("verdict", "estimate", "low", "high")),
    ):
        computed = [(_picked(one, keys), _picked(one, values)) for one in again[kind]]
        for row in said.get(kind, ()):
            key, value = _picked(row, keys), _picked(row, values)
            found = [other for same, other in computed if same == key]
            if key[0] in ours and not any(_alike(value, other) for other in found):
                return f"{path}: {key[1:]} of {key[0]} is {value}, computed again {found[:1]}"
    other = [label for label in chosen if label not in ours]
    return Unknown(f"{', '.join(other)}: not one of ours, and not run here") if other else ""


def _picked(row: Mapping[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Pick the recalibration of a row, and some of its values."""
    label = row.get("label", row["recalibration"])  # questions name it by its label
    return [label, *(row.get(name) for name in names)]


def _predictions(folder: Path, test: Cases) -> str:
    """Compare the table of the test cases with the card's predictions, by their number and their scale."""
    rows = read_table(folder / "predictions.csv", need=["id"], exact=True)[1]
    made = read_card(folder / "card.json")(test)
    if [row["id"] for row in rows] != [str(one) for one in test.id]:
        return f"predictions.csv has {len(rows)} rows, test.npz {len(test)} cases, and they are not the same"
    if "scale" not in rows[0] or test.unit == "scaled":
        return ""
    scale = np.array([float(row["scale"]) for row in rows])
    with suppress(ValueError):
        if not np.allclose(scale, np.asarray(made.scale).reshape(len(rows), -1)[:, 0], rtol=1e-5):
            return "the scales of predictions.csv are not those of the card"
    return ""


def _page(path: Path) -> Iterator[Check]:
    """Check a report: the files that it names, by their hashes."""
    with reading(path):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    named = re.findall(r"([\d,]{1,20}) cases, file ([^<]{0,1500}?), SHA-256 ([0-9a-f]{64})", text)
    if not named:
        yield Check(f"{path.name}", None, "it does not name the files that it was made from")
    for count, name, mark in named:
        about = {"file": name, "sha256": mark}
        yield _checked(f"{path.name} was made from {name}, {count} cases", partial(_beside, path, about))


def _onnx(path: Path) -> Iterator[Check]:
    """Check an exported model: its graph and metadata by their hash, its card, and that it runs."""
    from ..imaging.export.graph import content_hash, need_onnx

    need_onnx()
    import onnx

    with reading(path):
        model: Any = onnx.load(path)
        onnx.checker.check_model(model)
        said = {one.key: one.value for one in model.metadata_props}
        networks = json.loads(said.get("network", "[]"))
        marks = [(str(one["seed"]), str(one["weights"])) for one in networks]
        content = content_hash(model)
    same = content == said.get("sha256")
    yield Check(f"{path.name} is whole", same, "" if same else "its graph or its metadata has changed")
    for seed, weights in marks:
        found = [p for p in path.parent.rglob("best.safetensors") if fingerprint(p) == weights]
        words = str(found[0]) if found else "its weights are not beside it"
        yield Check(f"it holds the network of seed {seed}", True if found else None, words)


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
