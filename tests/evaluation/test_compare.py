"""The comparison of recalibrations: against slow loops, known answers, groups, leaks, and what it refuses."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from select_cases import make

import truesigma as ts
from truesigma.core import plugins
from truesigma.core.values import changed
from truesigma.evaluation import compare as module
from truesigma.evaluation.compare import _choice, candidates, fold_of, remedy, remedy_words
from truesigma.files.store import write

PROPER = [n for n in plugins.names("metrics") if getattr(plugins.load("metrics", n), "PROPER", False)]

compare = partial(module.compare, metric="nll")


def rows_of(found):
    return {row["recalibration"]: SimpleNamespace(**row) for row in found.rows}


def nll_loop(cases, fold, recalibrate):
    """Sum of w * NLL and of w of each case, by a recalibration fitted on the other folds: loops over the equation."""
    p = cases.prediction
    v, error = p.aleatoric + p.epistemic, (cases.target - p.location) ** 2
    mask = np.ones(v.shape, bool) if p.mask is None else p.mask
    weight = np.ones(len(cases)) if cases.weight is None else cases.weight
    found = []
    for i in range(len(cases)):
        above = below = 0.0
        for k in range(len(cases)):
            for j in range(v.shape[1]):
                if fold[k] != fold[i] and mask[k, j]:
                    above += weight[k] * error[k, j] / v[k, j]
                    below += weight[k]
        s2 = above / below if recalibrate else 1.0
        total, count = 0.0, 0.0
        for j in range(v.shape[1]):
            if mask[i, j]:
                new = s2 * v[i, j]
                total += weight[i] * 0.5 * (math.log(2 * math.pi * new) + error[i, j] / new)
                count += weight[i]
        found.append((count, total))
    return np.array(found)


@pytest.mark.parametrize("kind", ["plain", "masked and weighted", "grouped"])
def test_scores_are_those_of_a_slow_loop(kind):
    cases = make(40, 1.6, outputs=(2,))
    rng = np.random.default_rng(1)
    if kind == "grouped":
        cases = changed(make(40, 1.6, outputs=(2,)), patient=rng.integers(0, 12, 40))
    elif kind != "plain":
        mask = rng.uniform(size=(40, 2)) < 0.8
        p = cases.prediction
        cases = ts.Cases(
            ts.Prediction(p.location, aleatoric=p.aleatoric, epistemic=p.epistemic, mask=mask),
            np.where(mask, cases.target, np.nan),
            weight=rng.uniform(0.5, 2.0, 40),
        )
    found = rows_of(compare(cases, recalibrations=["sigma"], folds=5, replicates=4000, seed=3))
    fold = fold_of(cases, folds=5, seed=3)
    none, sigma = (nll_loop(cases, fold, recalibrate) for recalibrate in (False, True))
    for row, sums in ((found["none"], none), (found["sigma"], sigma)):
        assert row.score == pytest.approx(sums[:, 1].sum() / sums[:, 0].sum(), rel=1e-10)
    # The standard error of the difference, by cluster, from the variance of a ratio.
    code = np.arange(40) if cases.patient is None else np.unique(cases.patient, return_inverse=True)[1]
    change = found["sigma"].score - found["none"].score
    total, weight = sigma[:, 1] - none[:, 1], none[:, 0]
    u = np.array([(total - change * weight)[code == c].sum() for c in range(code.max() + 1)])
    expected = math.sqrt((u**2).sum()) / weight.sum()
    worse = max(found.values(), key=lambda row: row.behind)
    assert worse.behind == pytest.approx(abs(change), rel=1e-9)
    assert worse.standard_error == pytest.approx(expected, rel=0.15)
    assert found["sigma"].change == pytest.approx(change, rel=1e-9)
    assert found["sigma"].low < change < found["sigma"].high


@pytest.mark.parametrize("seed", range(8))
def test_a_model_that_is_right_is_left_alone(seed):
    assert compare(make(150, seed=seed), recalibrations=["none", "sigma"]).choice == "none"


@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
@pytest.mark.parametrize("metric", ["nll", "crps", "winkler"])
def test_half_the_sigma_is_scaled(law, metric):
    found = compare(make(300, 2.0, law=law), recalibrations=["none", "sigma"], metric=metric)
    assert found.choice == found.best == "sigma"
    cases = make(300, 2.0, law=law)
    whole = ts.recalibrate.sigma.fit(cases.prediction, cases.target)
    assert found.recalibration == found.recalibrations["sigma"] == whole  # fitted on all cases
    assert rows_of(found)["sigma"].high < 0


@pytest.mark.parametrize("seed", range(3))
def test_a_network_is_not_chosen_on_thirty_cases(seed):
    found = compare(make(30, 2.0, seed=seed), recalibrations=["sigma", "aux:steps=400"])
    assert found.choice == "sigma"


def test_the_simplest_has_the_fewest_numbers():
    cases = make(60, 1.5)
    found = compare(
        cases, recalibrations=["none", "sigma", "aux:hidden=0", "aux:hidden=1,steps=20", "isotonic"]
    )
    numbers = {row["recalibration"]: row["numbers"] for row in found.rows}
    assert (numbers["none"], numbers["sigma"]) == (0, 1)  # a stored standard error makes nothing less simple
    assert numbers["sigma"] < numbers["aux:hidden=1,steps=20"] < numbers["isotonic"]
    assert found.choice in ("sigma", "aux:hidden=0")  # the same factor


def test_groups_stay_together_and_folds_are_even():
    group = np.random.default_rng(0).integers(0, 23, 200)
    fold = fold_of(make(200, group=group), folds=5, seed=7)
    for name in np.unique(group):
        assert len(set(fold[group == name])) == 1
    sizes = [len(set(group[fold == k])) for k in range(5)]
    assert max(sizes) - min(sizes) <= 1
    alone = np.bincount(fold_of(make(103), folds=10))
    assert alone.min() == 10
    assert alone.max() == 11
    assert not np.array_equal(fold_of(make(103), seed=0), fold_of(make(103), seed=1))


def test_the_interval_counts_patients():
    cases = make(60, 1.3, outputs=())
    p = cases.prediction
    again = ts.Prediction(
        np.tile(p.location, 9), aleatoric=np.tile(p.aleatoric, 9), epistemic=np.tile(p.epistemic, 9)
    )
    target, patient = np.tile(cases.target, 9), np.tile(np.arange(60), 9)
    one = rows_of(compare(cases, recalibrations=["sigma"], folds=6))["sigma"]
    nine = rows_of(compare(ts.Cases(again, target, group=patient), recalibrations=["sigma"], folds=6))[
        "sigma"
    ]
    naive = rows_of(compare(ts.Cases(again, target), recalibrations=["sigma"], folds=6))["sigma"]
    assert nine.change == pytest.approx(one.change, rel=1e-9)
    assert nine.high - nine.low == pytest.approx(one.high - one.low, rel=1e-6)
    assert naive.high - naive.low < 0.5 * (one.high - one.low)


SPY = """
from truesigma import Prediction
class Spy:
    def __init__(self, seen, groups):
        self.seen, self.groups = seen, groups
    def __call__(self, prediction, *, group=None):
        assert not self.seen & set(prediction.location.tolist()), "scored on what it was fitted on"
        assert not self.groups & set(group.tolist()), "a patient is on both sides"
        return Prediction(prediction.location, aleatoric=4 * prediction.aleatoric, epistemic=4 * prediction.epistemic)
    def to_dict(self):
        return {"name": "spy", "factor": 4.0}
def fit(prediction, target, *, weight=None, group=None):
    return Spy(set(prediction.location.tolist()), set(group.tolist()))
"""


def test_no_case_and_no_patient_is_scored_by_a_fit_that_saw_it(tmp_path):
    (tmp_path / "spy.py").write_text(SPY)
    cases = make(90, 2.0, group=np.random.default_rng(2).integers(0, 30, 90))
    found = compare(cases, recalibrations=[str(tmp_path / "spy.py"), "sigma"])
    rows = rows_of(found)
    expected = ts.Prediction(cases.prediction.location, aleatoric=4 * cases.prediction.total)
    assert rows["spy"].score == pytest.approx(ts.metrics.nll.score(expected, cases.target), rel=1e-12)
    assert found.recalibrations["spy"].seen == set(cases.prediction.location.tolist())


def test_a_score_that_is_not_defined_has_a_reason_and_is_not_chosen():
    found = compare(make(100, 2.0), recalibrations=["sigma", "isotonic"])
    row = rows_of(found)["isotonic"]
    assert (row.score, row.behind, row.standard_error) == (None, None, None)
    assert "no density" in row.reason
    assert found.choice == "sigma"
    by_crps = rows_of(compare(make(100, 2.0), recalibrations=["isotonic"], metric="crps"))
    assert by_crps["isotonic"].score < by_crps["none"].score


def test_harm_is_named(tmp_path):
    # A recalibration that always doubles the sigma, of a model that was right.
    (tmp_path / "spy.py").write_text(SPY.replace("assert", "0 and"))
    cases = make(200, group=np.arange(200))
    found = compare(cases, recalibrations=[str(tmp_path / "spy.py")])
    assert found.choice == "none"
    assert found.warnings[0].startswith("spy worsens nll by")
    wide = SPY.replace("assert", "0 and").replace("4 *", "1.3 *")
    (tmp_path / "spy.py").write_text(wide)
    found = compare(make(30, 1.15, group=np.arange(30)), recalibrations=[str(tmp_path / "spy.py")])
    assert found.warnings == (
        "spy widens the 90% intervals by 14%, and nll is not clearly better for it; without it they hold 93 %.",
    )
    assert compare(make(200, 2.0), recalibrations=["sigma"]).warnings == ()


@pytest.mark.parametrize("name", PROPER)
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_a_metric_that_says_it_is_proper_is_best_at_the_truth(name, law):
    rng = np.random.default_rng(0)
    z = rng.normal(size=40_000) if law == "normal" else rng.laplace(size=40_000)
    v = 1.0 if law == "normal" else 2.0

    def score(factor):
        prediction = ts.Prediction(
            0 * z, aleatoric=0 * z + v * factor**2, law={"normal": ts.Normal(), "laplace": ts.Laplace()}[law]
        )
        return plugins.load("metrics", name).score(prediction, z)

    assert score(1.0) < min(score(0.85), score(1.18))


def test_proper_are_those_and_no_others():
    assert PROPER == ["crps", "nll", "quantile_score", "winkler"]


def sites(cases=600, seed=0, off=2.0):
    rng = np.random.default_rng(seed)
    site = np.where(np.arange(cases) % 3 == 0, "far", "near")
    y = rng.normal(size=cases) * np.where(site == "far", off, 1.0)
    return ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1), y, group=site)


def test_sites_that_are_repaired_are_in_every_fold():
    """Two sites cannot be ten folds; they are what is repaired, and cases what is divided."""
    found = compare(sites(), recalibrations=["sigma", "sigma_by_group"], metric="crps")
    assert (found.choice, found.plan["by"], found.plan["units"]) == ("sigma_by_group", "case", 600)
    patient = np.repeat(np.arange(60), 10)
    by_patient = compare(
        changed(sites(), patient=patient), recalibrations=["sigma", "sigma_by_group"], metric="crps"
    )
    assert (by_patient.plan["by"], by_patient.plan["units"]) == ("patient", 60)
    assert ts.compare(sites(), recalibrations=["sigma"]).plan["units"] == 600  # two sites are no patients


def test_what_cannot_be_fitted_stays_in_the_table_with_its_reason():
    found = compare(
        changed(sites(), group=None), recalibrations=["sigma", "sigma_by_group", "two_factor", "cqr"]
    )
    reasons = {row["recalibration"]: row["reason"] for row in found.rows}
    assert "was given no group" in reasons["sigma_by_group"]
    assert "have no bounds of their own" in reasons["cqr"]
    assert reasons["two_factor"] is not None
    assert found.choice == "sigma"
    assert "sigma_by_group has no nll: " in str(found)
    with pytest.raises(ValueError, match="was given no group"):
        compare(changed(sites(), group=None), recalibrations=["sigma_by_group"])


def test_the_remedy_is_what_the_cases_ask_for():
    found = remedy(sites())
    assert found.choice == "sigma_by_group"
    assert found.metric == "crps"
    row = next(r for r in found.rows if r["recalibration"] == "sigma_by_group")
    none = next(r for r in found.rows if r["recalibration"] == "none")
    gain = -100 * row["change"] / none["score"]
    assert f"sigma_by_group would be chosen: it lowers the error score CRPS by {gain:.2g} %" in remedy_words(
        found
    )
    said = []
    for seed in range(8):  # nothing is off
        y = np.random.default_rng(seed).normal(size=300)
        said.append(remedy_words(remedy(ts.Cases(ts.Prediction(0 * y, aleatoric=0 * y + 1), y))))
    quiet = ["no recalibration would be chosen" in words for words in said]
    assert sum(quiet) >= 4
    assert all(
        off or "which may be chance" in words or "lowers CRPS by 0." in words
        for off, words in zip(quiet, said)
    )
    assert remedy(sites(20)) is None
    assert candidates(ts.Cases(ts.Prediction([0.0], aleatoric=[1.0]), [0.0])) == ["none", "isotonic", "sigma"]


def test_outputs_in_large_numbers_do_not_decide_for_all():
    """The sigma of the output in small numbers is half of what it should be, that of the other is true."""
    rng = np.random.default_rng(0)
    size = np.array([1e-3, 1e3])
    sigma = rng.gamma(4, 0.5, (300, 2)) * size
    y = 2 * sigma * rng.normal(size=(300, 2)) / [1, 2]
    found = remedy(ts.Cases(ts.Prediction(0 * y, aleatoric=sigma**2), y))
    assert found.choice == "sigma_by_output"
    alike = remedy(ts.Cases(ts.Prediction(0 * y, aleatoric=(sigma / size) ** 2), y / size))
    assert [row["score"] for row in found.rows] == pytest.approx(
        [row["score"] for row in alike.rows], rel=1e-9
    )


def test_all_of_them(tmp_path, run):
    found = compare(sites(300), recalibrations="all", metric="crps", replicates=50)
    assert {row["recalibration"] for row in found.rows} == set(plugins.usual("recalibrate"))
    assert found.choice == "sigma_by_group"
    write(sites(120), tmp_path / "cases.csv")
    code, out, _ = run(
        "compare", "--calibration", tmp_path / "cases.csv", "--recalibrate", "all", "--metric", "crps"
    )
    assert (code, "two_factor has no crps" in out) == (0, True)


def test_none_has_no_benefit_of_the_doubt_against_one_factor_and_richer_ones_have_none():
    def row(name, numbers, behind, error):
        return {"recalibration": name, "numbers": numbers, "behind": behind, "standard_error": error}

    none, sigma = row("none", 0, 0.1, 0.5), row("sigma", 1, 0.05, 0.2)
    assert _choice([none, row("sigma", 1, 0.0, None)]) == "sigma"
    assert _choice([row("none", 0, 0.0, None), sigma]) == "none"
    assert _choice([none, sigma, row("aux", 54, 0.0, None)]) == "sigma"  # not ahead by its error
    sigma["standard_error"] = 0.01
    assert _choice([none, sigma, row("aux", 54, 0.0, None)]) == "aux"
    assert _choice([none, sigma, row("two", 2, 0.01, 0.02), row("aux", 54, 0.0, None)]) == "two"


def test_groups_are_compared_with_a_factor_each_unless_they_are_patients():
    rng = np.random.default_rng(0)
    z, site = rng.normal(size=300), rng.choice(["Basel", "Zurich"], size=300)
    sites = ts.Cases(
        ts.Prediction(0 * z, scale=0 * z + 1), z * np.where(site == "Basel", 1.4, 2.9), group=site
    )
    assert ts.compare(sites, replicates=50).choice == "sigma_by_group"
    patients = changed(sites, group=np.arange(300) % 30)
    assert set(ts.compare(patients, replicates=50).recalibrations) == {"none", "sigma", "aux"}
