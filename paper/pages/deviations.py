"""DEVIATIONS.md: every choice that differs from the paper's text or its code, with its effect measured where it can be.

`deviations.toml` holds the choices. Those that act after training are measured here: the committed draws are scored
again with that one choice changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from truesigma import evaluate
from truesigma.evaluation.recipe import Recipe

from ..described import make, read_toml
from ..drawing import title
from ..paper import Paper
from ..text import SHORT, grid, number

FILE = "deviations.toml"


@dataclass(frozen=True)
class Deviation:
    """One choice: ours, the text's, the code's, why, and how its effect is found.

    `change` = {recipe, table, key, value} scores again with that choice; `beside` names a run to compare with another;
    else `effect` says what is known.
    """

    choice: str
    ours: str
    text: str
    code: str
    why: str
    effect: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[str, ...] = ()


def read_deviations(paper: Paper) -> list[Deviation]:
    """Read deviations.toml."""
    listed = read_toml(paper.root / FILE, "deviation")["deviation"]
    return [make(Deviation, one, f"{FILE}: {one.get('choice', '?')}: ") for one in listed]


def changed(recipe: Recipe, table: str, key: str, value: Any) -> Recipe:
    """The recipe with one choice changed."""
    tables = {name: dict(choices) for name, choices in recipe.tables.items()}
    if key not in tables[table]:
        raise ValueError(f"recipe {recipe.name!r} has no {table}.{key} to change.")
    tables[table][key] = value
    return Recipe(recipe.name, tables)


def effect(paper: Paper, deviation: Deviation) -> str:
    """The measured effect in words, over all networks of the tables that have been run."""
    if deviation.beside:
        return f"{deviation.effect} {beside(paper, deviation.beside)}".strip()
    if not deviation.change:
        return deviation.effect
    names = paper.networks()
    if not names:
        return "not measured yet: no run"
    lines = []
    chosen, *change = (deviation.change[key] for key in ("recipe", "table", "key", "value"))
    kind = "aux" if change[0] == "aux" else "sigma"
    for name in names:
        recipe = paper.scores(name, chosen).recipe
        before, after = (_numbers(paper, name, kind, one) for one in (recipe, changed(recipe, *change)))
        shown = (f"{a} → {b}" if a != b else f"{a}, the same" for a, b in zip(before, after))
        lines.append([title(paper, name), *shown])
    head = ["network", f"UCE x 100 {SHORT[kind]}", f"NLL {SHORT[kind]}"]
    if kind == "sigma":
        head[1:1] = ["s", "UCE x 100 none"]
    return f"{deviation.effect}\n\n{grid(head, lines)}"


def _numbers(paper: Paper, name: str, kind: str, recipe: Recipe) -> list[str]:
    """UCE and NLL after that recalibration; for sigma scaling its factor, and the UCE without, come first."""
    valid, test = paper.cases(name, "valid")[0], paper.cases(name, "test")
    found = evaluate(valid, test, recalibrations=("none", kind), metrics=("uce", "nll"), recipe=recipe)
    scores = [number(found.value(kind, m), m) for m in ("uce", "nll")]
    if kind == "sigma":
        fit: Any = found.recalibrations[kind]
        scores[:0] = [f"{fit.factor:.3f}", number(found.value("none", "uce"), "uce")]
    return scores


def beside(paper: Paper, names: Sequence[str]) -> str:
    """Runs beside each other in a table; which of them are missing, where they are."""
    missing = [name for name in names if not paper.has(name)]
    if missing:
        reasons = (f"{name}: {paper.reason(paper.about(name))}" for name in missing)
        return f"Not measured: {'; '.join(reasons)}."
    rows = []
    for name in names:
        run, asked = paper.result(name), (("none", "mse"), ("none", "uce"), ("sigma", "uce"))
        fit: Any = paper.fitted(name, "exact", "sigma")
        scores = (number(paper.score(name, "exact", kind, metric)["value"], metric) for kind, metric in asked)
        rows.append([name, str(run.about["epochs"]), *scores, f"{fit.factor:.2f}"])
    return "\n\n" + grid(["run", "epochs", "MSE", "UCE x 100 none", "UCE x 100 σ", "s"], rows)


def deviations_text(paper: Paper) -> str:
    """The whole file."""
    parts = [
        "# Deviations",
        "Every choice that differs from the paper's text or from its published code, and what it changes. This file is "
        "made by `python -m paper all` from `deviations.toml` and the committed results; no number is typed. Arrows "
        "show a score with our choice → with the other one, everything else unchanged.",
    ]
    for one in read_deviations(paper):
        parts += [
            f"## {one.choice}",
            grid(["ours", "the paper's text", "the published code"], [[one.ours, one.text, one.code]]),
            f"Why: {one.why}",
            f"Effect: {effect(paper, one)}".replace(": \n", ":\n"),
        ]
    return "\n\n".join(parts) + "\n"
