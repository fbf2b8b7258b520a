"""Recalibrations x metrics -> a table of rows: what the paper's tables are made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ..core import plugins
from ..core.law import Undefined
from ..core.recalibration import Recalibration
from ..core.scores import measure
from ..core.values import Cases, Prediction
from .recipe import Recipe, load_recipe
from .text import evaluation_table, plain_text

LEVELS = (0.5, 0.9, 0.95, 0.99)
Choice = str | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Rows of scores, with the recipe, the fitted recalibrations and the sizes of the data they came from.

    A row is a dict: `recalibration`, `part`, `metric`, `level` (None where it has none), `value` (None where undefined,
    then `reason` says why), `sd` over repeats (None for one test set), `options` that were asked for.
    """

    recipe: Recipe
    rows: tuple[dict[str, Any], ...]
    recalibrations: Mapping[str, Recalibration]
    cases: Mapping[str, int]
    unit: str = ""

    def value(
        self, recalibration: str, metric: str, level: float | None = None, part: str | None = None
    ) -> float | None:
        """The value of the first row with that recalibration, metric, level and part; None for the last two: any."""
        wanted = {"recalibration": recalibration, "metric": metric, "level": level, "part": part}
        for row in self.rows:
            if all(value in (None, row[key]) for key, value in wanted.items()):
                return row["value"]
        raise KeyError(
            ", ".join(f"{k} {v!r}" for k, v in wanted.items() if v is not None) + ": there is no such row"
        )

    def by_label(self) -> dict[str, tuple[dict[str, Any], ...]]:
        """The rows of each recalibration by its label, such as "sigma:part=aleatoric": as many each, in one order."""
        size = len(self.rows) // max(len(self.recalibrations), 1)
        return {label: self.rows[k * size : (k + 1) * size] for k, label in enumerate(self.recalibrations)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as written to JSON; a recalibration goes by its bare name where that is unique."""
        bare = [label.partition(":")[0] for label in self.recalibrations]
        names = [name if bare.count(name) == 1 else label for name, label in zip(bare, self.recalibrations)]
        return {
            "recipe": self.recipe.name,
            "choices": {table: dict(choices) for table, choices in self.recipe.tables.items()},
            "rows": [dict(row) for row in self.rows],
            "recalibrations": {n: fitted.to_dict() for n, fitted in zip(names, self.recalibrations.values())},
            "cases": dict(self.cases),
            "unit": self.unit,
            "versions": versions(),
        }

    def __repr__(self) -> str:
        return f"Evaluation({len(self.rows)} rows, recipe {self.recipe.name!r})"

    def __str__(self) -> str:
        """The table that the command line prints."""
        return plain_text(evaluation_table(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows of it."""
        printer.text(str(self))


def versions() -> dict[str, str]:
    """Versions of what computed a result."""
    import platform  # these two are slow to import, and only results that are written need them
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("truesigma", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a source tree that is not installed
            found[name] = "unknown"
    return found


def evaluate(
    calibration: Cases,
    test: Cases | Sequence[Cases],
    *,
    recalibrations: Iterable[Choice] = ("none", "sigma", "aux"),
    metrics: Iterable[Choice] | None = None,
    recipe: str | Recipe = "exact",
) -> Evaluation:
    """Fit each recalibration on the calibration cases and score it on the test cases.

    Args:
        calibration: the cases the recalibrations are fitted on, never the test cases.
        test: the cases to score, or a list of repeated test runs: rows then hold mean and standard deviation.
        recalibrations: names, with options as `"aux:hidden=4"` or `("aux", {"hidden": 4})`.
        metrics: names likewise; None for all. Metrics with a level are scored at 50, 90, 95 and 99 % unless told.
        recipe: "exact", "paper", "code", or the path of a TOML file.

    Returns:
        The evaluation: `print` it, `.rows` (for a data frame), `.value("sigma", "uce")`, `.to_dict()`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=2000)
        >>> half = lambda y: Cases(Prediction(0 * y, 0 * y + 0.25, 0 * y), y)   # sigma is half of what it should be
        >>> result = evaluate(half(y[:1000]), half(y[1000:]), recalibrations=["none", "sigma"], metrics=["coverage"])
        >>> [round(result.value(name, "coverage", level=0.9), 2) for name in ("none", "sigma")]
        [0.57, 0.89]

    Reference: Laves et al., MELBA 2021, Tables 1 and 2.
    """
    chosen = load_recipe(recipe)
    repeats: list[Any] = list(test) if isinstance(test, list | tuple) else [test]
    _check_alike(calibration, repeats)
    fitted_on = chosen.prediction(calibration)
    tested = [chosen.prediction(cases) for cases in repeats]
    asked = [
        plugins.parse("metrics", m) for m in each(plugins.names("metrics") if metrics is None else metrics)
    ]
    rows: list[dict[str, Any]] = []
    fitted: dict[str, Recalibration] = {}
    for label, (name, module, options) in by_label(recalibrations).items():
        settings = {**plugins.accepted(module.fit, chosen.fit_options(name)), **options}
        recalibration = module.fit(
            fitted_on, calibration.target, weight=calibration.weight, group=calibration.group, **settings
        )
        fitted[label] = recalibration
        part = settings.get("part", "total")
        requests = requests_of(asked, chosen, part)
        columns = [
            _scores(recalibration(p, group=cases.group), cases, requests) for p, cases in zip(tested, repeats)
        ]
        rows += [row_of(name, part, options, *one) for one in zip(requests, zip(*columns))]
    sizes = {"calibration": len(calibration), "test": len(repeats[0]), "repeats": len(repeats)}
    return Evaluation(chosen, tuple(rows), fitted, sizes, calibration.unit)


@dataclass(frozen=True, eq=False)
class Request:
    """One number to compute: the name of its row, the metric, all options, and those the user gave."""

    name: str
    metric: ModuleType
    options: Mapping[str, Any]
    asked: Mapping[str, Any]


def requests_of(
    asked: Iterable[tuple[str, ModuleType, dict[str, Any]]], recipe: Recipe, part: Any
) -> list[Request]:
    """The numbers that metrics with their options ask for, under a recipe."""
    found = []
    for name, metric, given in asked:
        known = plugins.options("metrics", metric)
        settings = {k: v for k, v in recipe.score_options(name, part).items() if k in known}
        options = {**settings, **given}
        levels = [given["level"]] if "level" in given else LEVELS if "level" in known else [None]
        plain = {k: v for k, v in given.items() if k != "level"}
        for level in levels:
            chosen = options if level is None else {**options, "level": level}
            found.append(Request(name, metric, chosen, plain))
        if name == "uce" and "error" not in given:
            # The two conventions really differ, so both are always shown, the recipe's under the plain name.
            other = "draws" if options.get("error", "mean") == "mean" else "mean"
            found.append(Request(f"uce_{other}", metric, {**options, "error": other}, plain))
    return found


def _scores(prediction: Prediction, cases: Cases, requests: list[Request]) -> list[float | Undefined]:
    """Sum-like metrics together in one pass, the others one by one."""
    together = [r for r in requests if hasattr(r.metric, "OVER")]
    values = iter(
        measure(prediction, cases.target, [(r.metric, r.options) for r in together], weight=cases.weight)
    )
    found: list[float | Undefined] = []
    for request in requests:
        if hasattr(request.metric, "OVER"):
            found.append(next(values))
            continue
        try:
            found.append(
                request.metric.score(prediction, cases.target, weight=cases.weight, **request.options)
            )
        except Undefined as reason:
            found.append(reason)
    return found


def row_of(
    recalibration: str,
    part: str,
    options: Mapping[str, Any],
    request: Request,
    values: tuple[float | Undefined, ...],
) -> dict[str, Any]:
    """The row of a request, from the recalibration with its options and the value in each repeat."""
    undefined = [v for v in values if isinstance(v, Undefined)]
    if undefined and request.asked.get("error") == "draws":
        raise undefined[0]  # asked for by name; a row that is shown by default may stay empty
    reasons = [str(v) for v in undefined]
    numbers = [v for v in values if not isinstance(v, Undefined)]
    defined = not reasons and bool(np.isfinite(numbers).all())
    extra = {k: v for k, v in options.items() if k != "part"}
    return {
        "recalibration": recalibration,
        "part": part,
        "metric": request.name,
        "level": request.options.get("level"),
        "value": float(np.mean(numbers)) if defined else None,
        "sd": float(np.std(numbers, ddof=1)) if defined and len(numbers) > 1 else None,
        "reason": reasons[0] if reasons else None if defined else "not finite",
        "options": {**extra, **request.asked},
    }


def each(choices: Any) -> Iterable[Any]:
    """What was chosen, one by one: a name alone is a list of one, and so is a pair of a name and its options.

    >>> each("sigma"), each(("aux", {"hidden": 4})), each(["none", "sigma"])
    (['sigma'], [('aux', {'hidden': 4})], ['none', 'sigma'])
    """
    pair = isinstance(choices, tuple) and len(choices) == 2 and isinstance(choices[1], Mapping)
    return [choices] if pair or isinstance(choices, str) or callable(choices) else choices


def by_label(recalibrations: Iterable[Choice]) -> dict[str, tuple[str, ModuleType, dict[str, Any]]]:
    """Name, module and options of each recalibration by its label; what is chosen again counts once.

    >>> list(by_label(["none", "sigma:part=aleatoric", "none"]))
    ['none', 'sigma:part=aleatoric']
    """
    found: dict[str, tuple[str, ModuleType, dict[str, Any]]] = {}
    for choice in each(recalibrations):
        name, module, options = plugins.parse("recalibrate", choice)
        first = found.setdefault(label_of(name, options), (name, module, options))[1]
        if first.__file__ != module.__file__:
            raise ValueError(
                f"{first.__file__} and {module.__file__} are both called {name!r}, so that nobody could tell them "
                "apart; rename your own."
            )
    return found


def label_of(name: str, options: Mapping[str, Any]) -> str:
    """A recalibration with its options, as the command line writes it."""
    return name + (":" + ",".join(f"{k}={v}" for k, v in options.items()) if options else "")


def _check_alike(calibration: Cases, repeats: list[Cases]) -> None:
    if not repeats:
        raise ValueError("test is empty; expected Cases, or a list with at least one.")
    for name, cases in [("calibration", calibration), *[("test", cases) for cases in repeats]]:
        if not isinstance(cases, Cases):
            raise ValueError(
                f"{name} holds a {type(cases).__name__}; expected Cases, predictions with their targets. From draws: "
                "Cases(decompose(draws), target, draws=draws)."
            )
    for number, cases in enumerate(repeats):
        shapes = [tuple(c.prediction.location.shape[1:]) for c in (calibration, cases)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"test set {number + 1} has outputs of shape {shapes[1]}, the calibration set {shapes[0]}; "
                "expected the same."
            )
        laws = [c.prediction.law.name for c in (calibration, cases)]
        if laws[0] != laws[1]:
            raise ValueError(
                f"test set {number + 1} has law {laws[1]!r}, the calibration set {laws[0]!r}; expected the same."
            )
        if calibration.unit and cases.unit and calibration.unit != cases.unit:
            raise ValueError(
                f"test set {number + 1} has targets in {cases.unit}, the calibration set in {calibration.unit}; "
                "expected the same."
            )
