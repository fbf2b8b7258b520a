"""RESULTS.md: the tables, the claims, what was learned and every figure, written from the committed results."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..claims import Claim, judge_all, rule
from ..claims.verdict import WORDS, Verdict
from ..drawing import lacking, read_figures
from ..drawing import title as run_title
from ..paper import FULL, SHORT, Paper
from ..plan import FILE
from ..rows import read_table, rows
from ..text import grid, number, table_text
from . import learned
from .answer import answer_text
from .seen import seen

Judged = tuple[Claim, Verdict, Verdict]  # on the full-length runs, and on the short ones

TEMPLATE = Path(__file__).with_name("results.md")  # the words of the page; what is in braces is computed


def run_lines(paper: Paper) -> str:
    """One line for each run: how long it was trained, and what it reached."""
    body = []
    for one, run in paper.finished():
        about, schedule = run.about, run.schedule
        reduced = ("cosine", "") if run.annealed else (schedule.get("patience", ""), about["plateaus"])
        body.append(
            [
                one.name, str(about["epochs"]), str(run.best), *map(str, reduced), run.regime.partition(",")[0],
                run.kept_by, f"{about.get('seconds', 0) / 60:.0f}", str(about.get("hardware", "")),
                "with dropout" if run.validated_with_dropout else "one pass",
                *(number(run.kept(f"{split}_mse"), "mse") for split in ("train", "valid", "test")),
                f"{run.kept('test_factor'):.2f}",
            ]
        )  # fmt: skip
    head = [
        "run", "epochs", "kept", "patience", "rate reductions", "training", "kept by", "minutes", "hardware",
        "validation", "train MSE", "valid MSE", "test MSE", "test s",
    ]  # fmt: skip
    return grid(head, body) if body else "No run yet."


def missing_lines(paper: Paper) -> str:
    """What is planned and has no result, and results that nothing is planned with."""
    by_reason: dict[str, list[str]] = {}
    for one in paper.plan.everything:
        reason = paper.reason(one)
        if reason is not None:
            by_reason.setdefault(reason, []).append(one.name)
    if strange := paper.unplanned():
        by_reason[f"in results/, but not planned in {FILE}; not used"] = strange
    found = [f"- {', '.join(names)}: {reason}" for reason, names in by_reason.items()]
    return "\n".join(found) or "Everything that is planned has been run."


def tables_text(paper: Paper) -> str:
    """Both tables."""
    parts = []
    for name, called in (("table1", "Table 1"), ("table2", "Table 2")):
        table = read_table(paper.root, name)
        parts += [f"## {called}: {table.title}", table.caption]
        for data_set, text in table_text(paper, table, rows(paper, table)).items():
            parts += [f"### {paper.plan.data_sets[data_set]}", text]
    return "\n\n".join(parts)


def judged_claims(paper: Paper) -> list[Judged]:
    """Every claim with its verdicts, on the full-length runs and on the short ones."""
    both = zip(judge_all(paper), judge_all(replace(paper, regime=SHORT)))
    return [(claim, full, short) for (claim, full), (_, short) in both]


def tally(judged: list[Judged]) -> str:
    """How many claims of the text hold, in a sentence."""
    words = [full.word for claim, full, _ in judged if not claim.says.startswith("Ours: ")]
    counts = ", ".join(f"{word} {words.count(word)}" for word in WORDS if word in words)
    return (
        f"**Is the paper right?** We looked at {len(words)} claims of its text: {counts}. Few networks, each a run of "
        "one seed, tell little of others; *The claims of the text*, below, has each of them."
    )


def claims_text(judged: list[Judged]) -> str:
    """Every claim with its verdict; the evidence below the table."""
    body, evidence = [], []
    for k, (claim, full, other) in enumerate(judged, 1):
        body.append([str(k), claim.says, claim.where, full.word, other.word])
        apart = "" if other == full else f" Short runs: {other.word}. {other.evidence}"
        evidence.append(f"{k}. **{full.word}.** {full.evidence}{apart} *Rule: {rule(claim)}*")
    return grid(["", "claim", "where", FULL, SHORT], body) + "\n\n" + "\n".join(evidence)


def _planned(paper: Paper) -> int:
    """How many networks Table 1 has, without ensembles."""
    table = read_table(paper.root, "table1")
    return len(table.data_sets) * len(table.networks)


def figures_text(paper: Paper) -> str:
    """Every figure with what the paper says of it; those that could not be drawn say why."""
    parts = []
    for figure in read_figures(paper.root):
        head = f"### Figure {figure.id}: {figure.title}\n\n{figure.caption}"
        missing = lacking(paper, figure)
        if figure.runs and len(missing) == len(figure.runs):
            parts.append(head + "\n\nNot drawn: " + _reasons(paper, missing) + ".")
            continue
        shown = seen(paper, figure, [name for name in figure.runs if name not in missing])
        text = "\n\n".join(filter(None, (head, shown, f"![{figure.title}](figures/{figure.stem}.png)")))
        parts.append(text + (f"\n\nNot in it: {_reasons(paper, missing)}." if missing else ""))
    return "\n\n".join(parts)


def _reasons(paper: Paper, missing: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for name, reason in missing.items():
        by_reason.setdefault(reason, []).append(run_title(paper, name))
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())


def results_text(paper: Paper) -> str:
    """The whole file."""
    judged = judged_claims(paper)
    return TEMPLATE.read_text(encoding="utf-8").format(
        tally=tally(judged),
        answer=answer_text(paper),
        runs=run_lines(paper),
        plan=FILE,
        missing=missing_lines(paper),
        tables=tables_text(paper),
        run=len(paper.judged()),
        all=_planned(paper),
        short=len(replace(paper, regime=SHORT).judged()),
        claims=claims_text(judged),
        figures=figures_text(paper),
        **{name: text(paper) for name, text in learned.SECTIONS.items()},
    )
