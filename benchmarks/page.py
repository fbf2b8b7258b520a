"""docs/benchmarks.md from the results that the benchmarks wrote: python benchmarks/page.py"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
HEAD = """# Benchmarks

Every number on this page was written by `python -m benchmarks` (or `make bench`), from runs in which all ways took
turns on the same machine. Ratios travel better than milliseconds.
"""
SCORES = """
## All scores in one pass

One `Tally` holds MSE, MAE, NLL, CRPS, coverage, width and Winkler score at four levels, the PIT, sharpness, UCE, ENCE
and the factors of sigma scaling. *Passes* is its time over that of {yardstick}. *Same scores* are those that both
have, at the same settings; *all of theirs* is what the peer offers, at its defaults. The last column is the memory
taken beside the three arrays.
"""
SAME = """
### Do they agree?

{n} scores beside each other, on 100,000 simulated cases.
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown: so many columns of words, then numbers to the right.

    >>> print(table(["a", "b"], [["x", "1"]]))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    lines = [head, ["---"] * left + ["---:"] * (len(head) - left), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(value: Any) -> str:
    """A number with three digits, other things as they are."""
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def about(result: dict[str, Any]) -> str:
    """What it ran on."""
    used = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    hardware = result["hardware"].replace("2 CPU", "two CPU")
    return f"\nMeasured on {hardware}, with {used}.\n"


def scores(result: dict[str, Any]) -> str:
    """The section of one run of benchmarks/metrics.py."""
    on_gpu = "copy" in result["rows"][0]["seconds"]
    yardstick = "a copy of the three arrays" if on_gpu else "one pass of `sum` over the three arrays"
    ours = sorted({name for row in result["rows"] for name in row["passes"]})
    peers = sorted({name for row in result["rows"] for name in row["faster"]}, reverse=True)
    words = {"same": "same scores", "all": "all of theirs"}
    head = ["elements", "type", "library", *(f"{name}: ms | passes" for name in ours)]
    head += [f"faster than {name.split(', ')[0]}, {words[name.split(', ')[1]]}" for name in peers] + ["MB"]
    lines = []
    for row in result["rows"]:
        cells = [f"{row['n']:.0e}".replace("e+0", "e"), row["dtype"], row["library"]]
        for name in ours:
            seconds, passes = row["seconds"].get(name), row["passes"].get(name)
            cells += ["", ""] if seconds is None else [short(1e3 * seconds), short(passes)]
        cells += [f"{short(row['faster'][name])}x" if name in row["faster"] else "" for name in peers]
        lines.append([*cells, short(row["memory"])])
    flat = " | ".join(head).split(" | ")
    return about(result) + SCORES.format(yardstick=yardstick) + "\n" + table(flat, lines, 3) + "\n"


def timed(result: dict[str, Any]) -> str:
    """What each score of a peer took at the largest size it was run for."""
    found = []
    rows = [row for row in result["rows"] if row["faster"] and row["dtype"] == "float64"]
    for row in rows[-1:] + [r for r in rows[:-1] if len(r["faster"]) > len(rows[-1]["faster"])][-1:]:
        for name, seconds in row["seconds"].items():
            if ": " in name:
                peer, score = name.split(": ")
                found.append((peer, score, f"{row['n']:.0e}".replace("e+0", "e"), short(1e3 * seconds)))
    seen: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    for line in found:
        seen.setdefault(line[:2], line)
    head = ["peer", "score", "elements", "ms"]
    return "\n### What was timed\n\n" + table(head, sorted(seen.values(), reverse=True), 2) + "\n"


def same(result: dict[str, Any]) -> str:
    """The table of scores beside the peers'."""
    rows = result["agreement"]
    lines = []
    for row in rows:
        gap = abs(row["ours"] - row["theirs"]) / abs(row["theirs"])
        verdict = row["reason"] or ("equal to 1e-6" if gap < 1e-6 else "**differs**")
        numbers = [f"{row['ours']:.8g}", f"{row['theirs']:.8g}", f"{gap:.0e}"]
        lines.append([row["score"], row["peer"], verdict, *numbers])
    head = ["score", "peer", "why", "ours", "theirs", "relative difference"]
    return SAME.format(n=len(rows)) + "\n" + table(head, lines, 3) + "\n"


def networks(name: str, result: dict[str, Any]) -> str:
    """The section of the benchmark of sampling or training."""
    rows = result.get("rows") or [{"network": key, **row} for key, row in result["networks"].items()]
    heads = list(rows[0])
    settings = ", ".join(f"{key} {value}" for key, value in result.get("settings", {}).items() if value)
    title = {"sampling": "Monte-Carlo dropout", "training": "Training steps"}.get(name.split("_")[0], name)
    body = table(heads, [[short(row.get(head)) for head in heads] for row in rows])
    return f"\n## {title}\n\n{settings}.\n\n{body}\n"


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page of all results, by the names of their files."""
    text = HEAD
    for name in ("metrics_cpu", "metrics_cuda"):
        if name in results:
            text += scores(results[name])
            if "agreement" in results[name]:
                text += timed(results[name]) + same(results[name])
    for name, result in sorted(results.items()):
        if name.startswith(("sampling", "training")):
            text += networks(name, result)
    return text


def main() -> None:
    """Write the page."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    (ROOT / "docs" / "benchmarks.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
