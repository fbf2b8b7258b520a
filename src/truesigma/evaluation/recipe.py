"""Recipes: the choices on which the paper's text, its published code and sound statistics differ, as named data.

`exact` is the default, `paper` follows the text, `code` the published repository, and `own` is `exact` with a training
that suits your own images; any TOML file with the same tables is a recipe. It is recorded with every result.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.arrays import namespace
from ..core.cases import Cases, case_means
from ..core.decompose import decompose
from ..core.elements import Part
from ..core.law import Undefined
from ..core.typed import check_keys
from ..core.values import Draws, Prediction, changed
from ..files.disk import read_toml

FOLDER = Path(__file__).parent / "recipes"


def recipe_names() -> list[str]:
    """The recipes that come with the package.

    >>> recipe_names()
    ['code', 'exact', 'own', 'paper']
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@dataclass(frozen=True, eq=False)
class Recipe:
    """A name and its tables of choices."""

    name: str
    tables: Mapping[str, Mapping[str, Any]]

    def prediction(self, cases: Cases) -> Prediction:
        """The prediction as this recipe makes it: from the draws if they are kept, otherwise as it was given."""
        choice = self.tables["decompose"]
        if cases.draws is not None:
            draws = _clamp(cases) if choice["clamp"] else cases.draws
            made = decompose(draws, aleatoric=choice["aleatoric"], ddof=choice["ddof"])
            return _clamp_sigma(made) if choice["clamp"] else made
        if cases.prediction.epistemic is None and self.tables["uce"]["error"] == "draws":
            raise Undefined(
                f"recipe {self.name!r} needs the aleatoric/epistemic split, and these predictions hold only their "
                "scale. Use recipe 'exact', or give aleatoric and epistemic (variances), or the draws."
            )
        return cases.prediction

    def applied(self, cases: Cases) -> Cases:
        """The cases with the prediction that this recipe makes, in place of their draws."""
        return changed(cases, prediction=self.prediction(cases), draws=None)

    def fit_options(self, name: str) -> dict[str, Any]:
        """The options that this recipe gives a recalibration."""
        return {"outputs": self.tables["elements"]["outputs"], **self.tables.get(name, {})}

    def score_options(self, name: str, part: Part) -> dict[str, Any]:
        """The options that this recipe gives a metric, for a prediction of that part of the uncertainty."""
        chosen = {"outputs": self.tables["elements"]["outputs"], **self.tables.get(name, {})}
        aleatoric = chosen.pop("error_aleatoric", None)
        if part == "aleatoric" and aleatoric is not None:
            chosen["error"] = aleatoric
        return chosen


def load_recipe(name: str | Path | Recipe) -> Recipe:
    """Load a recipe by its name, or from a TOML file; one that is already loaded is returned as it is.

    >>> load_recipe("paper").tables["uce"]["error"]
    'draws'
    """
    if isinstance(name, Recipe):
        return name
    path = Path(name) if str(name).endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise ValueError(
            f"there is no recipe {str(name)!r}; expected one of {', '.join(recipe_names())}, or a .toml file."
        )
    tables, defaults = read_toml(path), read_toml(FOLDER / "exact.toml")
    merged = {table: dict(choices) for table, choices in defaults.items()}
    for table, choices in tables.items():
        if not isinstance(choices, Mapping):
            raise ValueError(f"{path.name} sets {table} outside a table; expected tables such as [uce].")
        check_keys([table], defaults, f"{path.name}: ")
        check_keys(choices, defaults[table], f"{path.name}: {table}.")
        merged[table] |= choices
    return Recipe(path.stem, merged)


def check_choices(recipe: Recipe) -> None:
    """Raise an error if a recipe from elsewhere lacks a choice, or has one of another type."""
    for table, choices in read_toml(FOLDER / "exact.toml").items():
        for key, usual in choices.items() if table in ("decompose", "elements", "uce") else ():
            choice = recipe.tables.get(table, {}).get(key)
            if choice is None:
                raise ValueError(f"choices lacks {table}.{key}")
            if type(choice) is not type(usual):
                raise ValueError(f"choices has {table}.{key} = {choice!r}; expected something like {usual!r}")


def _clamp(cases: Cases) -> Draws:
    """Clamp outputs as the published code does: means to [0, 1], log-variances to 0 at most."""
    draws = cases.draws
    assert draws is not None
    xp = namespace(draws.mean)
    inside = (cases.target >= 0) & (cases.target <= 1)
    if not bool(xp.all(inside if draws.mask is None else inside | ~draws.mask)):
        warnings.warn(
            "this recipe clamps predictions to [0, 1], and some targets lie outside: its scores mean little. Scale "
            "targets and draws to [0, 1] as the paper does, or use recipe 'exact' or 'paper'.",
            stacklevel=4,
        )
    return Draws(xp.clip(draws.mean, 0, 1), xp.clip(draws.variance, None, 1), mask=draws.mask, law=draws.law)


def _clamp_sigma(prediction: Prediction) -> Prediction:
    """Clamp the sigma of a case to 1 at most, as the published code does; its aleatoric part already is."""
    xp, mask = namespace(prediction.location), prediction.mask
    aleatoric, epistemic = (case_means(a, mask) for a in (prediction.aleatoric, prediction.epistemic))
    beyond = aleatoric + epistemic > 1
    if not bool(xp.any(beyond)):
        return prediction
    some = xp.where(beyond, epistemic, xp.ones_like(epistemic))
    share = xp.where(beyond, (1 - aleatoric) / some, xp.ones_like(some))
    return replace(prediction, epistemic=prediction.epistemic * share)
