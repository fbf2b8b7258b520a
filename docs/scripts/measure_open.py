"""The tables of the open benchmark's page: python docs/scripts/measure_open.py RESULTS

RESULTS is the folder that `python -m benchmarks.open` wrote. Writes `assets/open.csv`, a row for each set, method,
recalibration and size of the calibration set, averaged over seeds, and `assets/open-contrasts.csv`; with --level
`assets/open-level.csv`, how often differences are called where there are none.
"""

import sys
from pathlib import Path

from measured import ASSETS, Row, command, markdown, read, write

sys.path.insert(0, str(ASSETS.parents[1]))
from benchmarks.open import analysis

SIZE = 200
EFFECTS = (
    (0.05, 1.0, 1.0),
    (0.0, 1.0, 1.0),
    (0.1, 0.3, 1.0),
    (0.02, 0.0, 1.0),
)  # sd of seeds, cases, the rest
WORDS = ("set", "method", "recalibration", "question", "what", "against")
HEAD = (
    "| | RMSE | raw: 90 % intervals hold | raw: skill | AUSE | after: skill | after: Winkler | "
    "CRPS against `dropout`, % |"
)
RUNS = 2000
WAYS = ("crossed", "t over seeds", "t over cases", "all pooled")
ORDER = ("dropout", "two", "ensemble", "quantiles", "laplace", "residual", "distance", "constant")


def measure_level() -> list[Row]:
    """Shares of differences that are called where there is none, five seeds and 250 cases."""
    rows = []
    for seeds, cases in ((5, 250), (5, 2000)):
        for seed_sd, case_sd, rest_sd in EFFECTS:
            found = analysis.level(seeds, cases, RUNS, seed_sd=seed_sd, case_sd=case_sd, rest_sd=rest_sd)
            about = {
                "seeds": seeds,
                "cases": cases,
                "seed_sd": seed_sd,
                "case_sd": case_sd,
                "rest_sd": rest_sd,
            }
            rows.append({**about, **found})
    return rows


def level_table() -> str:
    """How often a difference is called where there is none."""
    rows = [
        [
            f"{r['seeds']:.0f} seeds, {r['cases']:,.0f} cases, sd {r['seed_sd']:g}, {r['case_sd']:g}, {r['rest_sd']:g}",
            *(f"{100 * r[way]:.1f}" for way in WAYS),
        ]
        for r in read("open-level.csv")
    ]
    return markdown(f"| effects of seeds, cases, the rest | {' | '.join(WAYS)} |", rows)


def methods_table(name: str) -> str:
    """A set's methods: before recalibration and after it, with their differences from dropout."""
    scores = [r for r in read("open.csv", words=WORDS) if r["set"] == name and r["n"] == SIZE]
    found = {(r["method"], r["recalibration"]): r for r in scores}
    differences = [r for r in read("open-contrasts.csv", words=WORDS) if r["question"] == "method"]
    called = {r["what"]: r for r in differences if r["set"] == name}
    rows = []
    for method in ORDER:
        raw, after = found[method, "none"], found[method, "cqr" if method == "quantiles" else "sigma"]
        before = [
            f"{raw['rmse']:.3f}",
            f"{100 * raw['held']:.0f}",
            number(raw["skill"]),
            f"{raw['ause']:.2f}",
        ]
        then = [number(after["skill"]), f"{after['winkler']:.2f}", verdict(called.get(method))]
        rows.append([f"`{method}`", *before, *then])
    return markdown(HEAD, rows)


def recalibrations_table() -> str:
    """Dropout's draws after each recalibration, by set and size: CRPS against sigma, in per cent."""
    some = [r for r in read("open-contrasts.csv", words=WORDS) if r["question"] != "method"]
    called = {(r["set"], r["question"], r["what"]): r for r in some}
    rows = []
    for name, question in dict.fromkeys((r["set"], r["question"]) for r in some):
        cells = [verdict(called.get((name, question, what))) for what in analysis.RECALIBRATIONS]
        rows.append([f"{name}, {int(question.rpartition(' ')[2]):,} cases", *cells])
    return markdown(f"| | {' | '.join(f'`{name}`' for name in analysis.RECALIBRATIONS)} |", rows)


def verdict(row: Row | None) -> str:
    """A difference with its interval; bold where it is called."""
    if row is None:
        return ""
    low, mean, high = (100 * row[key] for key in ("low", "difference", "high"))
    text = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"**{text}**" if row["holm"] < 1 - analysis.LEVEL else text


def number(value: float) -> str:
    """A number, or nothing where there is none."""
    return "" if value != value else f"{value:.3f}"


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--level", action="store_true")
    given = parser.parse_args()
    if given.level:
        write("open-level.csv", measure_level())
        print(level_table())
    if given.results:
        rows, cases = analysis.read(given.results)
        write("open.csv", analysis.means(rows))
        write("open-contrasts.csv", analysis.contrasts(cases))
    for name in dict.fromkeys(r["set"] for r in read("open.csv", words=WORDS)):
        print(f"\n{name}\n\n{methods_table(name)}")
    print(f"\n{recalibrations_table()}")


if __name__ == "__main__":
    main()
