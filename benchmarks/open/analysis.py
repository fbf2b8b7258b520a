"""What the stored scores say: differences with their intervals, seeds and cases as crossed effects."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

PLAIN = "dropout"  # what methods are compared with
RECALIBRATIONS = ("none", "isotonic", "conformal")
USUAL, SIZE = (
    "sigma",
    200,
)  # what recalibrations are compared with, and the calibration cases of the first question
LEVEL = 0.95


@dataclass(frozen=True)
class Contrast:
    """A mean difference with its interval and p-value."""

    mean: float
    low: float
    high: float
    p: float


def crossed(difference: np.ndarray) -> Contrast:
    """The mean of differences (seed, case), for other seeds and other cases.

    The variance of the mean is that of the seeds' means, plus that of the cases' means, minus that of what is left,
    which both contain; degrees of freedom by Satterthwaite, at least those of the seeds.

    >>> crossed(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.5]])).mean
    2.0833333333333335
    """
    seeds, cases = difference.shape
    mean = float(difference.mean())
    by_seed, by_case = difference.mean(axis=1), difference.mean(axis=0)
    left = difference - by_seed[:, None] - by_case + mean
    parts = np.array([
        by_seed.var(ddof=1) / seeds,
        by_case.var(ddof=1) / cases,
        -np.square(left).sum() / ((seeds - 1) * (cases - 1)) / (seeds * cases),
    ])  # fmt: skip
    variance = max(float(parts.sum()), float(parts[:2].max()))
    freedom = np.array([seeds - 1, cases - 1, (seeds - 1) * (cases - 1)])
    degrees = max(variance**2 / float((parts**2 / freedom).sum()), seeds - 1.0) if variance else seeds - 1.0
    half = float(stats.t.ppf((1 + LEVEL) / 2, degrees)) * variance**0.5
    p = float(2 * stats.t.sf(abs(mean) / variance**0.5, degrees)) if variance else float(mean == 0)
    return Contrast(mean, mean - half, mean + half, p)


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected so that one false alarm among all has at most the level.

    >>> [round(float(one), 3) for one in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    raised = np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return [float(one) for one in raised[np.argsort(order)]]


def level(
    seeds: int, cases: int, runs: int, *, seed_sd: float, case_sd: float, rest_sd: float
) -> dict[str, float]:
    """How often a difference is called where there is none, by `crossed` and by three usual ways."""
    rng = np.random.default_rng(0)
    called = dict.fromkeys(("crossed", "t over seeds", "t over cases", "all pooled"), 0)
    for _ in range(runs):
        made = (
            seed_sd * rng.normal(size=(seeds, 1))
            + case_sd * rng.normal(size=cases)
            + rest_sd * rng.normal(size=(seeds, cases))
        )
        p = {
            "crossed": crossed(made).p,
            "t over seeds": stats.ttest_1samp(made.mean(axis=1), 0).pvalue,
            "t over cases": stats.ttest_1samp(made.mean(axis=0), 0).pvalue,
            "all pooled": stats.ttest_1samp(made.ravel(), 0).pvalue,
        }
        for name, value in p.items():
            called[name] += value < 1 - LEVEL
    return {name: count / runs for name, count in called.items()}


def read(folder: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, np.ndarray]]]:
    """All rows, and by set the CRPS (seed, case) of each method/recalibration/size."""
    rows: list[dict[str, Any]] = []
    cases: dict[str, dict[str, list[np.ndarray]]] = {}
    for file in sorted(folder.glob("*-*.npz")):
        with np.load(file, allow_pickle=False) as stored:
            rows += json.loads(str(stored["rows"]))
            kept = cases.setdefault(file.stem.rpartition("-")[0], {})
            for name in stored.files:
                if name != "rows":
                    kept.setdefault(name, []).append(stored[name].astype(float))
    return rows, {name: {key: np.stack(each) for key, each in kept.items()} for name, kept in cases.items()}


def contrasts(cases: dict[str, dict[str, np.ndarray]]) -> list[dict[str, Any]]:
    """Both questions of the page: methods against dropout, recalibrations against sigma; in shares of that CRPS."""
    found: list[dict[str, Any]] = []
    for name, kept in cases.items():
        sizes = sorted({int(key.split("/")[2]) for key in kept})
        methods = dict.fromkeys(key.split("/")[0] for key in kept)
        first = [
            ("method", one, PLAIN, f"{one}/{USUAL}/{SIZE}", f"{PLAIN}/{USUAL}/{SIZE}")
            for one in methods
            if one != PLAIN
        ]
        second = [
            (f"recalibration at {n}", other, USUAL, f"{PLAIN}/{other}/{n}", f"{PLAIN}/{USUAL}/{n}")
            for n in sizes
            for other in RECALIBRATIONS
        ]
        for question, one, other, left, right in [*first, *second]:
            if left not in kept or len(kept[left]) < 2 or not np.isfinite(kept[left]).all():
                continue  # one seed says nothing about others
            base = float(kept[right].mean())
            made = crossed((kept[left] - kept[right]) / base)
            about = {"set": name, "question": question, "what": one, "against": other}
            found.append({**about, "difference": made.mean, "low": made.low, "high": made.high, "p": made.p})
    for kind in ("method", "recalibration"):
        some = [row for row in found if row["question"].startswith(kind)]
        for row, p in zip(some, holm([row["p"] for row in some])):
            row["holm"] = p
    return found


def means(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows averaged over seeds."""
    alike = ("set", "method", "recalibration", "n")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in alike), []).append(row)
    scores = [key for key in next(iter(groups.values()))[0] if key not in (*alike, "seed")]
    return [
        {
            **{key: some[0][key] for key in alike},
            "seeds": len(some),
            **{key: float(np.mean([row[key] for row in some])) for key in scores},
        }
        for some in groups.values()
    ]


def write_table(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as a csv, numbers in five digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        out.writeheader()
        out.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
