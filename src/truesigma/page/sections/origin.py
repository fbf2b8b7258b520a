"""Where the numbers come from: data and their hashes, the recipe, the fitted recalibration, versions, resampling."""

from collections.abc import Mapping

from ...evaluation.text import factor_text
from ...files.provenance import versions
from ..blocks import Section, details, paragraph
from ..markup import Html, element
from ..numbers import percent
from ..subject import BEFORE, Subject


def section(subject: Subject, notes: Mapping[str, str]) -> Section:
    """Make the section; notes: further facts, by what they are about."""
    sizes = {"calibration": len(subject.calibration), "test": len(subject.before)}
    if subject.shifted is not None:
        sizes["shifted"] = len(subject.shifted)
    rows = {}
    for name, size in sizes.items():
        about = subject.files.get(name, {})
        named = {"file": about.get("file"), "SHA-256": about.get("sha256")}
        said = [f"{what} {text}" for what, text in named.items() if text is not None]
        rows[f"{name} data"] = ", ".join([f"{size:,} cases", *said])
    rows |= {"law": subject.before.prediction.law.name, "recipe": subject.recipe.name}
    for label, card in subject.cards.items():
        if label != BEFORE:
            rows[f"fitted: {label}"] = factor_text(card.recalibration) or repr(card.recalibration)
    plan = subject.plan
    what = "cases" if plan.by == "case" else f"{plan.by}s, whose cases are drawn together"
    rows["intervals"] = (
        f"{percent(plan.level)} bootstrap intervals (BCa for scores, percentiles for bands): {plan.replicates:,} "
        f"replicates of {plan.units:,} {what}, seed {plan.seed}; the fitted recalibration is held fixed"
    )
    rows |= notes
    rows |= {f"version of {name}": text for name, text in versions().items()}
    choices = {
        f"{table}.{key}": str(value)
        for table, chosen in subject.recipe.tables.items()
        if table not in ("network", "train")
        for key, value in chosen.items()
    }
    body = [
        paragraph("Everything that is needed to make this page again."),
        _list(rows),
        details("The choices of the recipe", _list(choices)),
    ]
    return Section("origin", "Where this comes from", body, "Origin")


def _list(rows: Mapping[str, str]) -> Html:
    pairs = [
        part for name, text in rows.items() for part in (element("dt", None, name), element("dd", None, text))
    ]
    return element("dl", {"class": "facts"}, *pairs)
