"""The page: sections put into the template, with their data, styles and scripts inside. No request leaves it."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.arrays import workers
from ..core.cases import Cases
from ..core.values import Draws, Prediction
from ..core.varying import known_at_levels
from ..evaluation.fit import Choice, each
from ..evaluation.leaks import warn_leaks
from ..evaluation.recipe import Recipe
from ..evaluation.replicates import By
from ..evaluation.sets import Given, open_set
from ..files.disk import plain, write_text
from .blocks import Section
from .markup import Html, element, join, json_text
from .sections import (
    agreement,
    breakdown,
    calibration,
    content,
    definitions,
    headline,
    intervals,
    origin,
    region,
    rejection,
    scatter,
    scores,
    shares,
    shift,
    worst,
)
from .subject import BEFORE, make_subject

FOLDER = Path(__file__).parent / "assets"
SCRIPTS = ("chart.js", "figures.js", "page.js")
SECTIONS = (
    agreement.section,
    calibration.section,
    intervals.section,
    content.section,
    content.shape_section,
    breakdown.section,
    region.section,
    rejection.section,
    scatter.section,
    shares.section,
    shift.section,
    worst.section,
)
FIGURES = 6  # significant figures of the numbers in the page


@dataclass(frozen=True, eq=False)
class Report:
    """The page, its first sentence, the tables behind its figures by section and column, and its words about shift.

    `advice`: which other recalibration would be chosen, if any.
    """

    page: str
    headline: str
    tables: Mapping[str, Mapping[str, list[Any]]]
    shift: str = ""
    questions: Sequence[Mapping[str, Any]] = ()  # answers, as `Evaluation.questions`
    advice: str = ""

    def write(self, path: str | Path) -> None:
        """Write the page to a file, atomically."""
        write_text(path, self.page)

    def __repr__(self) -> str:
        return f"Report({len(self.page) // 1000} kB, {', '.join(self.tables)})"


def report(
    calibration: Given,
    test: Given,
    path: str | Path | None = None,
    *,
    recalibrations: Iterable[Choice] | None = None,
    recipe: str | Recipe = "exact",
    shifted: Cases | Prediction | Draws | None = None,
    images: str | Path | None = None,
    level: float = 0.9,
    by: By = "auto",
    replicates: int = 1000,
    seed: int = 0,
    files: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Mapping[str, str] | None = None,
    title: str = "",
) -> Report:
    """Make the report, one HTML page, and write it where a path is given.

    Args:
        calibration: the cases the recalibration is fitted on, never the test cases: Cases, a path, a glob, a manifest
            of maps, or a list of these, which is pooled. Of more than five million elements some are drawn.
        test: the cases to report on, likewise; `patient`, `group` and `id` are used if they are there.
        path: of the page, an .html file; None writes none.
        recalibrations: names, with options as `"aux:hidden=4"`; the page is about the first (that is not none), the
            others appear only in the table of scores. By default `sigma`, and of stated quantiles `cqr`.
        recipe: "exact", "paper", "code", or the path of a TOML file.
        shifted: a second set, with or without targets, for the shift histograms.
        images: a folder with the cases' images, named by their ids, for thumbnails of the worst cases.
        level: of the intervals on the page.
        by: what the bootstrap draws: "case", "patient", or "auto": patients if they are named, otherwise groups if
            there are 20 or more.
        replicates: of the bootstrap.
        seed: of the bootstrap.
        files: what to say about the data: {"test": {"file": name, "sha256": hash}, ...}.
        notes: what else to say of where the page comes from, by what it is about.
        title: of the page, such as "bone age in months, ResNet-101"; by default target, unit, network and file.

    Returns:
        The report: `.page`, `.headline`, `.questions`, `.shift`, `.tables`, `.write(path)`. The same arguments give the
        same page, byte for byte.

    Example:
        >>> import numpy as np
        >>> y = np.random.default_rng(0).normal(size=400)
        >>> half = lambda y: Cases(Prediction(0 * y, scale=0 * y + 0.5), y)     # sigma is half of what it should be
        >>> report(half(y[:200]), half(y[200:]), replicates=50).headline.partition(";")[0]
        'Predictions are no better than a constant. Sigma is 2.06 times too small'
    """
    fitted_on = open_set(calibration, "the calibration set", recipe=recipe)
    judged = open_set(test, "the test set", recipe=recipe)
    warn_leaks(fitted_on, [judged])
    if recalibrations is None:
        recalibrations = ("cqr",) if known_at_levels(fitted_on.law) else ("sigma",)
    if files is None:
        files = {name: one.described() for name, one in (("calibration", fitted_on), ("test", judged))}
    subject = make_subject(
        fitted_on.sample(),
        judged.sample(),
        recalibrations=[c for c in each(recalibrations) if c != BEFORE],
        recipe=recipe,
        shifted=shifted,
        level=level,
        by=by,
        replicates=replicates,
        seed=seed,
        images=None if images is None else Path(images),
        files=files,
    )
    with ThreadPoolExecutor(workers(subject.before.target)) as pool:
        scoring = pool.submit(scores.table_of, subject)  # first, as it takes longest
        begun = [pool.submit(section, subject) for section in SECTIONS]
        scored = scoring.result()
        made = [one.result() for one in begun]
    advice = headline.advice_of(subject)
    shown = {one.key: one for one in made if one is not None}
    gain = rejection.gained(shown["rejection"], subject.unit)
    sections = [headline.section(subject, scored, advice, gain), *shown.values()]
    sections += [scores.section(subject, scored), origin.section(subject, notes or {}), definitions.section()]
    page = assemble(sections, title=title or headline.title_of(subject), unit=subject.unit)
    tables = {one.key: plain(one.table) for one in sections if one.table}
    moved = " ".join(shift.sentences(subject, shift.table(subject)))
    done = Report(page, headline.sentence(subject, scored), tables, moved, subject.answers, advice)
    if path is not None:
        done.write(path)
    return done


def assemble(sections: list[Section], *, title: str, unit: str) -> str:
    """Fill the template.

    The security policy names the page's own script by its hash and forbids all others and every connection: even if
    some text should turn into markup, it could neither run nor fetch anything.
    """
    script = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    styles = (FOLDER / "page.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_hash(script)}'; style-src '{_hash(styles)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    shown = {one.key: {"table": _short(one.table), **one.settings} for one in sections}
    links = [element("a", {"href": f"#{one.key}"}, one.link or one.title) for one in sections]
    filled = {
        "policy": element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        "title": join([f"truesigma: {title}"]),
        "name": join([title]),
        "styles": Html(styles),
        "script": Html(script),
        "data": json_text({"unit": unit, "sections": shown}),
        "links": join(links),
        "sections": join(one.html for one in sections),
    }
    template = (FOLDER / "page.html").read_text(encoding="utf-8")
    # In one pass, so that a name from the data that looks like a placeholder stays as it is.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: filled[mark[1]], template)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _short(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Round the numbers of columns to a few figures, which halves the page."""
    return {
        name: [float(f"{v:.{FIGURES}g}") if isinstance(v, float) else v for v in column]
        for name, column in table.items()
    }
