"""DEVIATIONS.md: every choice that differs from the paper's text or its code, with its effect measured where it can be.

`deviations.toml` holds the choices. Those that act after training are measured here: the committed draws are scored
again with that one choice changed.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..evaluate import evaluate
from ..recipe import Recipe
from .figure import title
from .layout import grid, number
from .paper import Paper

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
    with (paper.root / FILE).open("rb") as file:
        listed = tomllib.load(file)["deviation"]
    known = {one.name for one in fields(Deviation)}
    for one in listed:
        if unknown := sorted(set(one) - known):
            raise ValueError(
                f"{FILE}: {one.get('choice')} sets {', '.join(unknown)}; expected {', '.join(known)}."
            )
    return [Deviation(**{**one, "beside": tuple(one.get("beside", ()))}) for one in listed]


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
        return _beside(paper, deviation)
    if not deviation.change:
        return deviation.effect
    names = paper.networks()
    if not names:
        return "not measured yet: no run"
    lines = []
    for name in names:
        before = _numbers(paper, name, paper.scores(name, deviation.change["recipe"]).recipe)
        recipe = changed(
            paper.scores(name, deviation.change["recipe"]).recipe,
            *(deviation.change[k] for k in ("table", "key", "value")),
        )
        after = _numbers(paper, name, recipe)
        lines.append(
            [
                title(paper, name),
                *(f"{a} → {b}" if a != b else f"{a}, the same" for a, b in zip(before, after)),
            ]
        )
    head = ["network", "s", "UCE x 100 none", "UCE x 100 σ", "NLL σ"]
    return (f"{deviation.effect} " if deviation.effect else "") + "\n\n" + grid(head, lines)


def _numbers(paper: Paper, name: str, recipe: Recipe) -> list[str]:
    valid, test = paper.cases(name, "valid")[0], paper.cases(name, "test")
    found = evaluate(valid, test, recalibrations=("none", "sigma"), metrics=("uce", "nll"), recipe=recipe)
    fit: Any = found.recalibrations["sigma"]
    scores = [(r, m) for r, m in (("none", "uce"), ("sigma", "uce"), ("sigma", "nll"))]
    return [f"{fit.factor:.3f}", *(number(found.value(r, m), m) for r, m in scores)]


def _beside(paper: Paper, deviation: Deviation) -> str:
    missing = [name for name in deviation.beside if not paper.has(name)]
    if missing:
        reasons = (f"{name}: {paper.reason(paper.about(name))}" for name in missing)
        return f"{deviation.effect} Not measured: {'; '.join(reasons)}.".strip()
    rows = []
    for name in deviation.beside:
        run, fit = paper.run(name), paper.fitted(name, "exact", "sigma")
        assert run is not None
        values = [
            paper.score(name, "exact", r, m)["value"]
            for r, m in (("none", "mse"), ("none", "uce"), ("sigma", "uce"))
        ]
        rows.append(
            [name, str(run.about["epochs"]), *(number(v, m) for v, m in zip(values, ("mse", "uce", "uce"))),
             f"{fit.factor:.2f}"]  # type: ignore[attr-defined]
        )  # fmt: skip
    head = ["run", "epochs", "MSE", "UCE x 100 none", "UCE x 100 σ", "s"]
    return (f"{deviation.effect} " if deviation.effect else "") + "\n\n" + grid(head, rows)


def deviations_text(paper: Paper) -> str:
    """The whole file."""
    parts = [
        "# Deviations",
        "Every choice that differs from the paper's text or from its published code, and what it changes. This file is "
        "made by `truesigma paper all` from `deviations.toml` and the committed results; no number is typed. Arrows "
        "show a score with our choice → with the other one, everything else unchanged.",
    ]
    for one in read_deviations(paper):
        parts += [
            f"## {one.choice}",
            grid(["ours", "the paper's text", "the published code"], [[one.ours, one.text, one.code]]),
            f"Why: {one.why}",
            f"Effect: {effect(paper, one)}",
        ]
    return "\n\n".join(parts) + "\n"
