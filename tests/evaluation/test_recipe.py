"""Recipes: named choices, a file of one's own, and what is refused."""

import numpy as np
import pytest

from truesigma import Cases, Draws, Prediction, decompose
from truesigma.evaluation.recipe import load_recipe


def test_options_for_a_metric_follow_the_part():
    paper = load_recipe("paper")
    assert paper.score_options("uce", "total") == {
        "outputs": "mean",
        "error": "draws",
        "bins": 15,
        "closed": True,
    }
    assert paper.score_options("uce", "aleatoric")["error"] == "mean"
    assert paper.fit_options("sigma") == {"outputs": "mean", "error": "mean", "solver": "closed"}


def test_predictions_are_made_from_the_draws_where_they_are_kept():
    rng = np.random.default_rng(0)
    draws = Draws(rng.uniform(-0.2, 1.2, size=(5, 8)), np.exp(rng.normal(-3, 1, size=(5, 8))))
    cases = Cases(decompose(draws), np.zeros(8), draws=draws)
    code = load_recipe("code").prediction(cases)
    clamped = Draws(np.clip(draws.mean, 0, 1), np.minimum(draws.variance, 1))
    expected = decompose(clamped, aleatoric="geometric", ddof=1)
    for part in ("location", "aleatoric", "epistemic", "spread"):
        np.testing.assert_array_equal(getattr(code, part), getattr(expected, part))
    np.testing.assert_array_equal(
        load_recipe("exact").prediction(cases).aleatoric, decompose(draws).aleatoric
    )
    alone = Cases(decompose(draws), np.zeros(8))
    assert load_recipe("code").prediction(alone) is alone.prediction


def test_a_recipe_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[uce]\nbins = 10\n\n[elements]\noutputs = "mean"\n')
    recipe = load_recipe(file)
    assert recipe.name == "mine"
    assert recipe.tables["uce"]["bins"] == 10
    assert recipe.tables["uce"]["error"] == "mean"  # what is not said is that of `exact`
    scale_only = Cases(Prediction([0.0], aleatoric=[1.0]), [0.0])
    assert recipe.prediction(scale_only) is scale_only.prediction


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[uce]\nbin = 10\n", "mine.toml: uce.bin is not known; did you mean 'bins'?"),
        ("[usce]\nbins = 10\n", "mine.toml: usce is not known; did you mean 'uce'?"),
        ("bins = 10\n", "mine.toml sets bins outside a table"),
        ("[uce\n", "mine.toml is not a TOML file"),
    ],
)
def test_bad_recipes_are_refused(tmp_path, text, words):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        load_recipe(file)


def test_missing_recipes_are_named():
    with pytest.raises(ValueError, match=r"no recipe 'papper'; expected one of code"):
        load_recipe("papper")
    with pytest.raises(ValueError, match="there is no recipe"):
        load_recipe("nowhere/mine.toml")
