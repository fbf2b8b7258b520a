"""RESULTS.md: the tables, the claims, what was learned and every figure, written from the committed results."""

from collections.abc import Mapping
from dataclasses import replace

from ..claims import Claim, judge, read_claims, rule
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

INTRO = """# The paper, reproduced

Laves, Ihler, Fast, Kahrs, Ortmaier: *Recalibration of Aleatoric and Epistemic Regression Uncertainty in Medical
Imaging*, MELBA 2021. This file is written by `python -m paper all` from the residual draws in `results/`: no number is
typed, and a test fails when one is stale. `python -m paper table1` prints the same tables in seconds, without data, GPU
or torch. `DEVIATIONS.md` lists what we do differently and what that changes."""

RUNS = """## The runs

Errors are those of the kept epoch. Training errors are with dropout; so are validation and test errors, as the network
is sampled, unless the column says one pass without. s is the factor of the aleatoric part on the test split. The
section on the claims defines full-length. *Kept by* says whether plateau and kept epoch looked at a mean over epochs or
at each epoch's own value (raw). *Two draws* means that they looked at the error of the mean of two draws, as recipe
`exact` does now, instead of the valid MSE, which estimates the error of the mean of many draws."""

TABLES = """Lines: the paper's printed value; the mean of the five repeats in its published logs; ours under recipe
`paper` (the text's definitions), mean ± standard deviation of five repeated test runs (for s its standard error); the
difference, with `!` where it is outside the tolerance of `tables/`; ours under `exact` (error of the mean, each output
on its own; NLL in nats). [fault]: a number whose computation is known to be wrong, see `expected/`. The log's MSE is
that of the mean prediction (see below)."""

OVERFITTING = """### Overfitting decides the factor

The variance that a network learns is the error it makes in training, with dropout on. On unseen cases the factor is
then about the root of test error over training error. It is above 1 if the network has overfitted, as the paper's had
after 500 epochs, and below 1 if dropout keeps the training error above that of the mean prediction. In that case
nothing is underestimated, and σ scaling shrinks the variance. Errors are those of the kept epoch, as in the table of
the runs."""

ERRORS = """### Two errors, two factors

The text's UCE compares the variance with the error of every draw, (mean error)² + spread; its factor is fitted on the
error of the mean. A factor can serve only one of them. The table gives UCE x 100, means over outputs, scored on the
error of the mean and of the draws, for s fitted on either."""

TAILS = """### The tails

How many targets the intervals hold after σ scaling. One factor sets the width; the shape stays normal."""

RARE = """### One draw among 25

The aleatoric part is the mean of the draws' variances, and a mean follows its largest term. Now and then one draw
leaves what the network has learned and predicts a variance tens of times that of the others, or larger by many orders
of magnitude; in a few cases most draws do. Such cases stretch the bins of equal width, and most of the UCE can come
from them. Sampling is not training: in sampling a batch norm uses running statistics, in training those of its own 16
images, and after many layers of dropout, as in DenseNet, the difference adds up. The table shows the share of draws
whose variance is over 20 times the median of their case, and of cases with such a draw; UCE x 100 (error of the mean,
means over outputs) with the mean of the variances, and with their median instead; and the mean variance of the kept
epoch in training and on the test split, both with dropout."""

EACH = """### One sigma for six outputs

The paper's networks predict one variance for all outputs of a case, and one factor is fitted for all of them. Position
and angles of a needle are not equally hard: after σ scaling the intervals of some outputs hold too much, those of
others too little, and only their average is right. A factor for each output (`sigma_by_output`) costs five more
numbers. The table shows NLL and CRPS under recipe `exact`, and the lowest and highest share that the 90 % intervals of
an output hold."""

WITHOUT = """### Without its dropout

Batch norm learns the mean and the variance of features with dropout. Without dropout the features differ, and each
layer adds to the difference (Li et al., CVPR 2019). It hardly matters for ResNet-101, with dropout after its four
stages, once it is trained to its end. DenseNet-201 has dropout in each of its 98 layers: while its training error with
dropout fell, the error of a pass without it rose, so a run that was validated in such passes
(`oct_densenet201_one_pass`) kept an early epoch.
Since then we validate with dropout, as the network is sampled. The paper's ensembles are DenseNet-201 without dropout
at test time; their UCE in Table 1 may be due to this, and members of ours are trained without dropout. The table gives
the test MSE of the kept epoch, from the draws and from one pass, and the errors of the last epoch."""

COLUMN = """### The MSE column of Table 1

The published logs have two errors; the printed column takes sometimes one, sometimes the other."""

DROPOUT = """### Stage dropout 0.2 and 0.5

The text says 0.5 after each of the four stages of ResNet-101, the published code has 0.2, and the published numbers
come from the code. Ours use 0.2, too; here is the same network with 0.5:"""

CLAIMS = """## The claims of the text

Verdicts are based on the full-length runs of the networks of Table 1, {run} of {all} so far. Full-length means trained
on the paper's schedule, a plateau with a patience of 20 epochs, until the rate was reduced at least twice and the best
epoch was 20 or more epochs ago, or until a plateau at the lowest rate ended the run. We also give what the same rule
says about the {short} short runs. This definition was fixed before the runs were scored, except for those that the
first table calls "seen when the rule was fixed". A claim about all networks holds if every one of them agrees, holds in
part if some do, and does not hold if none does. The numbers are below the table, each with the rule of its verdict. The
bounds in the rules are ours. A network is one run of one seed, and a rule allows for the noise of the test cases only
if it says so. Ensembles are compared with the network that was trained as their members were, for fewer epochs than the
full-length ones; those claims have one verdict."""

LAPLACE = """### The Laplace likelihood

The appendix derives it and leaves it to future work."""


FIGURES = """## The figures

What the paper says that its figure shows comes first, then what ours shows. Vector files of the same name lie beside
the images."""


def run_lines(paper: Paper) -> str:
    """One line for each run: how long it was trained, and what it reached."""
    body = []
    for one, run in paper.finished():
        about, best = run.about, int(run.about["best_epoch"])
        errors = [number(run.column(f"{split}_mse")[best - 1], "mse") for split in ("train", "valid", "test")]
        schedule = about["recipe"].get("train", {})
        how = "with dropout" if run.validated_with_dropout else "one pass"
        patience, reduced = (
            ("cosine", "") if run.annealed else (schedule.get("patience", ""), about["plateaus"])
        )
        body.append(
            [
                one.name, str(about["epochs"]), str(best), str(patience), str(reduced),
                run.regime.partition(",")[0], run.kept_by,
                f"{about.get('seconds', 0) / 60:.0f}", str(about.get("hardware", "")), how, *errors,
                f"{run.column('test_factor')[best - 1]:.2f}",
            ]
        )  # fmt: skip
    head = [
        "run",
        "epochs",
        "kept",
        "patience",
        "rate reductions",
        "training",
        "kept by",
        "minutes",
        "hardware",
        "validation",
    ]
    head += ["train MSE", "valid MSE", "test MSE", "test s"]
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
    parts = [TABLES]
    for name, called in (("table1", "Table 1"), ("table2", "Table 2")):
        table = read_table(paper.root, name)
        parts += [f"## {called}: {table.title}", table.caption]
        for data_set, text in table_text(paper, table, rows(paper, table)).items():
            parts += [f"### {paper.plan.data_sets[data_set]}", text]
    return "\n\n".join(parts)


def judged_claims(paper: Paper) -> list[Judged]:
    """Every claim with its verdicts, on the full-length runs and on the short ones."""
    short = replace(paper, regime=SHORT)
    return [(claim, judge(paper, claim), judge(short, claim)) for claim in read_claims(paper)]


def tally(judged: list[Judged]) -> str:
    """How many claims of the text hold, in a sentence."""
    words = [full.word for claim, full, _ in judged if not claim.says.startswith("Ours: ")]
    counts = ", ".join(f"{word} {words.count(word)}" for word in WORDS if word in words)
    return (
        f"**Is the paper right?** We looked at {len(words)} claims of its text: {counts}. In part means for some "
        "networks and not for others, or for part of what is said; *The claims of the text*, below, has each of them."
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


def learned_text(paper: Paper) -> str:
    """What the reproduction taught."""
    parts = [
        *(OVERFITTING, learned.overfitting(paper)),
        *(ERRORS, learned.two_errors(paper)),
        *(TAILS, learned.tails(paper)),
        *(RARE, learned.rare_draws(paper)),
        *(EACH, learned.by_output(paper)),
        *(WITHOUT, learned.without_dropout(paper)),
        *(DROPOUT, learned.stage_dropout(paper).strip()),
        *(COLUMN, learned.mixed_column(paper.expected, paper.plan)),
        *(LAPLACE, learned.laplace(paper)),
    ]
    return "\n\n".join(parts)


def results_text(paper: Paper) -> str:
    """The whole file."""
    judged = judged_claims(paper)
    return (
        "\n\n".join(
            [
                INTRO,
                tally(judged),
                answer_text(paper),
                RUNS,
                run_lines(paper),
                f"### Not run\n\nIn the order of `{FILE}`.\n\n" + missing_lines(paper),
                tables_text(paper),
                CLAIMS.format(
                    run=len(paper.judged()),
                    all=_planned(paper),
                    short=len(replace(paper, regime=SHORT).judged()),
                ),
                claims_text(judged),
                "## What we learned",
                learned_text(paper),
                FIGURES,
                figures_text(paper),
            ]
        )
        + "\n"
    )
