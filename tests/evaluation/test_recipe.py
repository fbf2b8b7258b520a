"""Recipes: named choices, a file of one's own, and what is refused."""

import numpy as np
import pytest

from truesigma import Cases, Draws, Prediction, decompose
from truesigma.evaluation.recipe import load_recipe, recipe_names


def test_the_three_recipes_differ_as_documented():
    assert recipe_names() == ["code", "exact", "own", "paper"]
    exact, paper, code = (load_recipe(n).tables for n in ("exact", "paper", "code"))
    choice = {
        ("decompose", "aleatoric"): ("arithmetic", "arithmetic", "geometric"),
        ("decompose", "ddof"): (0, 0, 1),
        ("decompose", "clamp"): (False, False, True),
        ("elements", "outputs"): ("separate", "mean", "mean"),
        ("sigma", "error"): ("mean", "mean", "mean"),
        ("sigma", "solver"): ("closed", "closed", "gradient"),
        ("uce", "error"): ("mean", "draws", "draws"),
        ("uce", "error_aleatoric"): ("mean", "mean", "mean"),
        ("uce", "closed"): (True, True, False),
        ("nll", "units"): ("nats", "table", "table"),
        ("aux", "standardise"): (True, True, False),
    }
    for (table, key), expected in choice.items():
        assert (exact[table][key], paper[table][key], code[table][key]) == expected, (table, key)


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


@pytest.mark.parametrize("masked", [False, True])
def test_recipe_code_clamps_the_sigma_of_a_case(masked):
    """sqrt(mean_j A + mean_j E) is 1 at most; the aleatoric part alone, 1 at most already, stays."""
    rng = np.random.default_rng(1)
    mean, variance = rng.uniform(-1, 2, size=(4, 60, 3)), np.exp(rng.normal(0, 0.7, size=(4, 60, 1)))
    mask = rng.random((60, 3)) < 0.7 if masked else np.ones((60, 3), bool)
    draws = Draws(mean, variance, mask=mask if masked else None)
    target = rng.uniform(size=(60, 3))
    code = load_recipe("code").prediction(Cases(decompose(draws), target, draws=draws))
    clamped = 0
    for i in np.flatnonzero(mask.any(axis=1)):
        a = np.exp(np.log(np.minimum(variance[:, i, 0], 1)).mean())
        e = np.clip(mean[:, i], 0, 1).var(axis=0, ddof=1)[mask[i]].mean()
        clamped += a + e > 1
        sigma = min(np.sqrt(a + e), 1)
        assert np.sqrt(code.total[i][mask[i]].mean()) == pytest.approx(sigma, rel=1e-12)
        np.testing.assert_allclose(code.aleatoric[i], a, rtol=1e-12)
    assert 5 < clamped < 55
    np.testing.assert_array_equal(code.spread, decompose(Draws(np.clip(mean, 0, 1), variance)).spread)


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
