"""docs/benchmarks.md from the results that the benchmarks wrote: python benchmarks/page.py"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
HEAD = """# Benchmarks

`python -m benchmarks` (or `make bench`) wrote every number on this page, from runs in which all packages took turns on
the same machine. Ratios carry over to other machines better than milliseconds.
"""
SCORES = """
## All scores in one pass

One `Tally` computes MSE, MAE, NLL, CRPS, coverage, width and Winkler score at four levels, the PIT and the
miscalibration area, sharpness, UCE, ENCE and the factors of sigma scaling. Its time includes everything a user calls:
the checks of `Prediction`, `Tally.add` and `summary`.

- *passes*: its time over that of {yardstick}.
- *MB*: memory taken in addition to the three arrays.
"""
BESIDE = """- *by cores*: the passes by the time of all cores together. Other work on the machine changes it less,
  and a second thread does not make it smaller.
- *all of theirs*: the peer's own set of scores at its defaults, over ours. For uncertainty-toolbox that is what
  `get_all_metrics` computes besides accuracy and adversarial groups: its scoring rules (NLL, CRPS, check and interval
  score at 99 levels), its average calibration and its sharpness. For netcal it is UCE and ENCE, and NLL, QCE and
  pinball loss at 9 levels, as its documentation computes them.
- *same settings*: those of its scores that a tally has, too, at our settings (intervals at four levels), so that both
  compute the same numbers. We still compute all of ours.

A peer is left out if it would take many minutes or tens of GB.
"""
TARGETS = """
## Aims, and whether they are met

This table takes the worst of float32 and float64, numpy and torch, from the tables below. *On the wall* is clock time,
which the aims are about. On a busy machine it is unsteady, most of all relative to a sum that takes a millisecond. *By
cores* is the time of all cores together, in which our two threads have no advantage over a `sum` on one; if other work
was running, *met* requires that, too. The aims are for *all of theirs*. At the *same settings*, with four levels
instead of a peer's 9 or 99, the peer computes less and the ratios are much smaller: {same} at 1e6.

Which of netcal's scores count as all of them was settled after a first run, and it decides whether that aim is met.
With QCE at our four levels and no pinball loss, that run's worst row was {wall} on the wall and {cores} by cores, at a
load of {load}. With the scores of its documentation, as here, the aim is met. GPUs are measured, on the wall, by
`python benchmarks/metrics.py --device cuda --sizes 1e4,1e5,1e6,1e7,1e8,1e9`.
"""
EVALUATE = """
## `evaluate` compared with a `Tally`

The table gives the time of `evaluate` as a multiple of one `Tally` (`add` and `summary`) of the same arrays, float64 in
numpy. `python benchmarks/evaluate.py --older SRC` runs both versions in turn; *before* is version 0.1.0. Plain sums are
the eleven scores without ENCE and AUSE. Those two need the variances in order, so two `argsort`s of them are subtracted
from the time of all thirteen. Measured on {hardware}{others}.
"""
SAME = """
### Do they agree?

{n} scores side by side, on 100,000 simulated cases.
"""
ABSENT = "not measured yet"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown: `left` columns of words, then right-aligned numbers.

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
    others = (
        f" The machine's load over 15 minutes was {result['load']}, including our two threads."
        if busy(result)
        else ""
    )
    return f"\nMeasured on {hardware}, with {used}.{others}\n"


def busy(result: dict[str, Any]) -> bool:
    """Whether the load was more than our own two threads make."""
    return float(result.get("load") or 0) > 2


def scores(result: dict[str, Any]) -> str:
    """The section of one run of benchmarks/metrics.py."""
    on_gpu = "copy" in result["rows"][0]["seconds"]
    yardstick = "a copy of the three arrays" if on_gpu else "one pass of `sum` over the three arrays"
    ours = sorted({name for row in result["rows"] for name in row["passes"]})
    peers = sorted({name for row in result["rows"] for name in row["faster"]}, key=lambda n: (n[0] != "u", n))
    words = {"same": "same settings", "all": "all of theirs"}
    head = ["elements", "type", "library"]
    columns = ["ns an element", "passes", *([] if on_gpu else ["by cores"])]
    for name in ours:
        head += [f"{name}: ms", *columns]
    head += [f"faster than {name.split(', ')[0]}, {words[name.split(', ')[1]]}" for name in peers] + ["MB"]
    lines = []
    for row in result["rows"]:
        cells = [size(row["n"]), row["dtype"], row["library"]]
        for name in ours:
            seconds = row["seconds"].get(name)
            if seconds is None:
                cells += [""] * (1 + len(columns))
                continue
            numbers = [1e3 * seconds, 1e9 * seconds / row["n"], row["passes"][name]]
            # A processor that waits for a GPU says nothing.
            numbers += [] if on_gpu else [row["passes_by_cores"][name]]
            cells += [short(number) for number in numbers]
        cells += [f"{short(row['faster'][name])}x" if name in row["faster"] else "" for name in peers]
        lines.append([*cells, short(row["memory"])])
    return (
        SCORES.format(yardstick=yardstick) + ("" if on_gpu else BESIDE) + "\n" + table(head, lines, 3) + "\n"
    )


def targets(cpu: dict[str, Any], first: dict[str, Any], gpu: dict[str, Any] | None) -> str:
    """The aims, and what was measured: on the wall, and by the time of the cores.

    cpu, gpu: the runs that the page shows. first: the run before netcal's set of scores was changed.
    """
    rows, before = ([row for row in run["rows"] if row["n"] in (10**6, 10**7)] for run in (cpu, first))
    last = cpu["rows"][-1]["dtype"]
    plain = [row for row in cpu["rows"] if row["library"] == "numpy" and row["dtype"] == last]
    largest, middle = max(plain, key=lambda row: row["n"]), [row for row in plain if row["n"] == 10**6]
    on_gpu = [row for row in (gpu or {"rows": []})["rows"] if row["n"] == 10**9]

    def pair(
        pick: Callable[[Iterable[float]], float], found: list[Any], key: str, name: str
    ) -> list[float | None]:
        values = [
            [row[key + end][name] for row in found if name in row[key + end]] for end in ("", "_by_cores")
        ]
        return [pick(some) if some else None for some in values]

    def growth(key: str) -> float | None:
        return largest[key]["ours"] / largest["n"] / (middle[0][key]["ours"] / 1e6) if middle else None

    uct, netcal = (pair(min, rows, "faster", f"{name}, all") for name in ("uncertainty-toolbox", "netcal"))
    wall, cores = (short(value) for value in pair(min, before, "faster", "netcal, all"))
    alike = [v for row in rows if row["n"] == 10**6 for k, v in row["faster"].items() if k.endswith("same")]
    same = f"{min(alike):.0f} to {max(alike):.0f}" if alike else ABSENT
    said = TARGETS.format(wall=wall, cores=cores, load=first.get("load", "0"), same=same)
    lines: list[tuple[str, str, list[float | None], float]] = [
        ("times faster than all of uncertainty-toolbox's, 1e6", "300, at best 1000", uct, 300),
        ("times faster than all of netcal's, 1e6 and 1e7", "25", netcal, 25),
        ("passes of `sum`, 1e6 and 1e7", "100, at best 40", pair(max, rows, "passes", "ours"), -100),
        (
            f"time an element at {size(largest['n'])} over that at 1e6",
            "1: linear",
            [growth("seconds"), growth("core_seconds")],
            -1.5,
        ),
        (f"MB beside the arrays at {size(largest['n'])}", "flat", [largest["memory"], None], -100),
        ("GPU: copies of the arrays, 1e9", "30", pair(max, on_gpu, "passes", "ours")[:1], -30),
    ]
    body = []
    for words, aim, values, bound in lines:
        judged = values if busy(cpu) else values[:1]
        met = [
            "" if v is None else "yes" if (v >= bound if bound > 0 else v <= -bound) else "no" for v in judged
        ]
        cells = [ABSENT] if values[0] is None else [short(v) for v in values]
        verdict = "no" if "no" in met else "yes" if "yes" in met else ""
        body.append([words, aim, *cells, *[""] * (2 - len(cells)), verdict])
    return said + "\n" + table(["of what", "aim", "on the wall", "by cores", "met"], body, 2) + "\n"


def size(n: int) -> str:
    """1000000 as 1e6."""
    return f"{n:.0e}".replace("e+0", "e").replace("e+", "e")


def timed(result: dict[str, Any]) -> str:
    """What each score of a peer took at the largest size it was run for."""
    found = []
    rows = [row for row in result["rows"] if row["faster"]]
    rows = [row for row in rows if row["dtype"] == rows[0]["dtype"]]
    for row in rows[-1:] + [r for r in rows[:-1] if len(r["faster"]) > len(rows[-1]["faster"])][-1:]:
        for name, seconds in row["seconds"].items():
            if ": " in name:
                peer, score = name.split(": ")
                found.append((peer, score, size(row["n"]), short(1e3 * seconds)))
    seen: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    for line in found:
        seen.setdefault(line[:2], line)
    head = ["peer", "score", "elements", "ms"]
    return "\n### What was timed\n\n" + table(head, sorted(seen.values(), reverse=True), 2) + "\n"


def same(result: dict[str, Any]) -> str:
    """The table of our scores and the peers'."""
    rows = result["rows"]
    lines = []
    for row in rows:
        gap = abs(row["ours"] - row["theirs"]) / abs(row["theirs"])
        verdict = row["reason"] or ("equal to 1e-6" if gap < 1e-6 else "**differs**")
        numbers = [f"{row['ours']:.8g}", f"{row['theirs']:.8g}", f"{gap:.0e}"]
        lines.append([row["score"], row["peer"], verdict, *numbers])
    head = ["score", "peer", "why", "ours", "theirs", "relative difference"]
    return SAME.format(n=len(rows)) + "\n" + table(head, lines, 3) + "\n"


def evaluated(result: dict[str, Any]) -> str:
    """The section of one run of benchmarks/evaluate.py."""
    limits = {
        "none, plain sums": 1.5,
        "a further factor": 1.2,
        "none, all scores, less two argsorts": 1.5,
    }
    trees = [tree for tree in ("this", "older") if tree in result["rows"][0]["seconds"]]
    lines = []
    for row in result["rows"]:
        clocks = [row[f"tallies_by_{clock}"] for clock in ("seconds", "core_seconds")]
        for name, limit in limits.items():
            numbers = [clock[tree][name] for tree in trees for clock in clocks]
            lines.append([size(row["n"]), name, short(limit), *(f"{number:.2f}" for number in numbers)])
        if len(trees) == 2:
            both = [row[clock] for clock in ("seconds", "core_seconds")]
            ratios = [f"{clock['this']['tally'] / clock['older']['tally']:.2f}" for clock in both]
            lines.append([size(row["n"]), "the `Tally` itself, over that of before", "1", *ratios, "", ""])
    others = (
        f"; the machine's load over 15 minutes was {result['load']}, including our two threads"
        if busy(result)
        else ""
    )
    hardware = result["hardware"].replace("2 CPU", "two CPU")
    head = ["cases", "of what", "aim", "on the wall", "by cores", "before, on the wall", "before, by cores"]
    said = EVALUATE.format(hardware=hardware, others=others)
    return said + "\n" + table(head[: 3 + 2 * len(trees)], lines, 2) + "\n"


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page of all results, by the names of their files."""
    text = HEAD
    cpu, gpu = results.get("metrics_cpu"), results.get("metrics_cuda")
    if cpu:
        text += (
            about(cpu) + targets(cpu, results.get("metrics_cpu_first", cpu), gpu) + scores(cpu) + timed(cpu)
        )
    if "agreement" in results:
        text += same(results["agreement"])
    if "evaluate_cpu" in results:
        text += evaluated(results["evaluate_cpu"])
    if gpu:
        text += about(gpu) + scores(gpu).replace("## All scores in one pass", "## All scores on a GPU")
    return text


def stored() -> dict[str, dict[str, Any]]:
    """What the benchmarks wrote, by the names of their files."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "benchmarks.md").write_text(page(stored()), encoding="utf-8")


if __name__ == "__main__":
    main()
