"""Split conformal: the stated ranks, the coverage guarantee by simulation, infinite where it must be."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import draw

from truesigma import Prediction, evaluate, load_recalibration, metrics
from truesigma.core.cases import Cases
from truesigma.recalibrate import conformal
from truesigma.recalibrate._ranks import KEPT


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 99))
def test_half_width_is_the_stated_rank(n, level, seed):
    z = np.random.default_rng(seed).normal(size=n)
    made = conformal.fit(Prediction(0 * z, aleatoric=0 * z + 1), z)(Prediction([5.0], aleatoric=[4.0]))
    rank = math.ceil((n + 1) * level - 1e-9)
    expected = math.inf if rank > n else 2 * np.sort(abs(z))[rank - 1]
    bounds = made.interval(level)
    assert bounds.upper[0] - 5 == pytest.approx(expected, rel=1e-9)
    assert 5 - bounds.lower[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [9, 19, 99])
def test_levels_that_are_ranks_take_that_rank(n):
    """k / (n + 1) is rounded in floating point, and must be neither the neighbour's nor infinite."""
    z = np.arange(1.0, n + 1)
    made = conformal.fit(Prediction(0 * z, aleatoric=0 * z + 1), z)(Prediction([0.0], aleatoric=[1.0]))
    for k in range(1, n + 1):
        assert made.interval(k / (n + 1)).upper[0] == k
    assert made.interval((n + 0.5) / (n + 1)).upper[0] == math.inf


@pytest.mark.parametrize(("n", "level"), [(20, 0.9), (20, 0.5), (60, 0.95)])
def test_the_guarantee_by_simulation(n, level):
    """P(covered) = ceil((n + 1) level) / (n + 1) exactly, for any continuous law of the errors; here a heavy tail."""
    rng = np.random.default_rng(0)
    covered = 0
    repeats = 20_000
    z = rng.standard_t(2, size=(repeats, n + 1))
    size = np.sort(abs(z[:, :n]), axis=1)
    rank = math.ceil((n + 1) * level - 1e-9)
    covered = np.mean(abs(z[:, n]) <= size[:, rank - 1])
    promised = rank / (n + 1)
    assert promised >= level
    assert covered == pytest.approx(promised, abs=4 * math.sqrt(promised * (1 - promised) / repeats))
    found = []
    for row in z[:400]:
        made = conformal.fit(Prediction(np.zeros(n), aleatoric=np.ones(n)), row[:n])(
            Prediction([0.0], aleatoric=[1.0])
        )
        bounds = made.interval(level)
        found.append(bounds.lower[0] <= row[n] <= bounds.upper[0])
    expected = abs(z[:400, n]) <= size[:400, rank - 1]
    assert found == expected.tolist()


def test_heteroscedastic_cases_are_covered_with_sigma_as_the_yardstick():
    rng = np.random.default_rng(1)

    def make(m):
        v = rng.gamma(2.0, 0.5, size=m)
        return Prediction(np.zeros(m), aleatoric=v), 2.0 * np.sqrt(v) * rng.normal(size=m)

    (p, y), (q, new) = make(2000), make(20_000)
    made = conformal.fit(p, y)(q)
    assert metrics.coverage.score(made, new, level=0.9) == pytest.approx(0.9, abs=0.03)
    assert metrics.width.score(made, new, level=0.9) == pytest.approx(
        metrics.width.score(Prediction(q.location, aleatoric=4 * q.aleatoric), new, level=0.9), rel=0.1
    )


def test_many_cases_are_thinned_upwards():
    z = np.random.default_rng(2).permutation(np.arange(1.0, 20_001.0))
    fitted = conformal.fit(Prediction(0 * z, aleatoric=0 * z + 1), z)
    assert len(fitted.common["both"].scores) <= KEPT
    for level in (0.1, 0.5, 0.9, 0.999):
        rank = math.ceil(20_001 * level)
        width = fitted(Prediction([0.0], aleatoric=[1.0])).interval(level).upper[0]
        assert width == rank
    for level in (0.12345, 0.98765):  # levels that nobody asks for are rounded up
        width = fitted(Prediction([0.0], aleatoric=[1.0])).interval(level).upper[0]
        assert math.ceil(20_001 * level) <= width <= 20_001 * level + 2 * 20_000 / KEPT + 1
    apart = conformal.fit(Prediction(0 * z, aleatoric=0 * z + 1), z, tails="apart")(
        Prediction([0.0], aleatoric=[1.0])
    )
    assert apart.interval(0.9).upper[0] == math.ceil(20_001 * 0.95)


def test_weights_are_refused_with_the_remedy():
    sample = draw(3)
    with pytest.raises(ValueError, match=r"exchangeable.*Leave the weight out, or use isotonic"):
        conformal.fit(sample.prediction(), sample.target, weight=np.ones(40))


def test_levels_out_of_reach_are_null_rows():
    small, test = draw(4, cases=8, outputs=(1,)), draw(5, outputs=(1,))
    cases = [Cases(s.prediction(), s.target) for s in (small, test)]
    result = evaluate(*cases, recalibrations=["conformal"], metrics=["coverage", "width", "nll"])
    assert result.value("conformal", "coverage", level=0.99) == 1.0
    assert result.value("conformal", "width", level=0.99) is None
    assert result.value("conformal", "width", level=0.5) is not None
    reasons = {r["metric"]: r["reason"] for r in result.rows if r["value"] is None}
    assert "it needs 99 calibration cases (patients, where named), and there are 8" in reasons["width"]
    assert "no density" in reasons["nll"]


def bounds(z, level, n=1, **options):
    """Ends of the interval of a new case with location 0 and scale 1."""
    given = {key: options.pop(key) for key in ("group", "new") if key in options}
    fitted = conformal.fit(Prediction(0 * z, aleatoric=0 * z + 1), z, group=given.get("group"), **options)
    found = fitted(Prediction(np.zeros(n), aleatoric=np.ones(n)), group=given.get("new")).interval(level)
    return found.lower, found.upper


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 99))
def test_tails_apart_and_bounds_alone_have_the_stated_ranks(n, level, seed):
    z = np.random.default_rng(seed).normal(size=n)

    def ranked(values, rank):
        return math.inf if rank > n else np.sort(values)[rank - 1]

    each, alone = math.ceil((n + 1) * (1 + level) / 2 - 1e-9), math.ceil((n + 1) * level - 1e-9)
    low, high = bounds(z, level, tails="apart")
    assert (low[0], high[0]) == pytest.approx((-ranked(-z, each), ranked(z, each)), rel=1e-9)
    low, high = bounds(z, level, tails="lower")
    assert (low[0], high[0]) == pytest.approx((-ranked(-z, alone), math.inf), rel=1e-9)
    low, high = bounds(z, level, tails="upper")
    assert (low[0], high[0]) == pytest.approx((-math.inf, ranked(z, alone)), rel=1e-9)


@pytest.mark.parametrize("tails", ["both", "apart", "lower", "upper"])
@pytest.mark.parametrize(
    "kind", [{}, {"patient": np.arange(60) // 7}, {"promise": "all", "patient": np.arange(60) // 7}]
)
def test_intervals_of_rising_levels_nest(tails, kind):
    z = np.random.default_rng(3).standard_t(3, size=60)
    levels = np.linspace(0.05, 0.99, 40)
    ends = np.array([np.concatenate(bounds(z, level, tails=tails, **kind)) for level in levels])
    lower, upper = (np.nan_to_num(column, posinf=1e9, neginf=-1e9) for column in ends.T)
    assert (np.diff(lower) <= 0).all()
    assert (np.diff(upper) >= 0).all()


def test_by_group_is_the_fit_of_the_group_alone():
    rng = np.random.default_rng(4)
    group = np.array(["a"] * 30 + ["b"] * 12 + ["c"] * 3)
    z = rng.normal(size=45) * np.repeat([1.0, 3.0, 1.0], [30, 12, 3])
    names = ["a", "b", "c"]
    for tails in ("both", "apart", "lower"):
        low, high = bounds(z, 0.8, n=3, group=group, new=names, by="group", tails=tails)
        for k, name in enumerate(names):
            alone = bounds(z[group == name], 0.8, tails=tails)
            assert (low[k], high[k]) == pytest.approx((alone[0][0], alone[1][0]), rel=1e-9)
    assert high[2] == math.inf  # three cases are too few for 80 %
    with pytest.warns(UserWarning, match="group d had no calibration cases.*promise nothing"):
        low, high = bounds(z, 0.8, n=1, group=group, new=["d"], by="group")
    assert high[0] == pytest.approx(bounds(z, 0.8)[1][0])


def slow_weighted(scores, patient, level):
    """The smallest score up to which the weights 1 / ((G + 1) n_g) add up to the level, one after the other."""
    count = dict.fromkeys(patient, 0)
    for p in patient:
        count[p] += 1
    held = 0.0
    for score, p in sorted(zip(scores, patient)):
        held += 1 / ((len(count) + 1) * count[p])
        if held >= level - 1e-9:
            return score
    return math.inf


@given(st.lists(st.integers(0, 6), min_size=8, max_size=40), st.floats(0.05, 0.95), st.integers(0, 99))
def test_patients_are_weighted_as_stated(patient, level, seed):
    patient = np.array(patient)
    if len(set(patient)) < 2:
        return
    z = np.random.default_rng(seed).normal(size=len(patient))
    assert bounds(z, level, patient=patient)[1][0] == pytest.approx(
        slow_weighted(abs(z), patient, level), rel=1e-9
    )
    largest = [max(abs(z[patient == p])) for p in set(patient)]
    rank = math.ceil((len(largest) + 1) * level - 1e-9)
    expected = math.inf if rank > len(largest) else sorted(largest)[rank - 1]
    assert bounds(z, level, patient=patient, promise="all")[1][0] == pytest.approx(expected, rel=1e-9)


def test_all_outputs_of_a_case_are_a_promise_of_their_own():
    rng = np.random.default_rng(7)
    y = rng.normal(size=(4000, 3)) @ np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]])
    prediction = Prediction(0 * y, aleatoric=0 * y + 1)
    held = {}
    for promise in ("one", "all"):
        low, high = conformal.fit(prediction[:2000], y[:2000], promise=promise)(prediction[2000:]).interval(
            0.9
        )
        inside = (low <= y[2000:]) & (y[2000:] <= high)
        held[promise] = inside.mean(), inside.all(axis=1).mean()
    assert held["one"][0] == pytest.approx(0.9, abs=0.02)
    assert held["all"][1] == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("options", "needed"), [({}, 19), ({"tails": "apart"}, 39), ({"tails": "lower"}, 19)]
)
def test_the_words_say_how_many_cases_a_level_needs(options, needed):
    from truesigma.core.law import too_few_for

    for n in (5, needed - 1, needed):
        z = np.random.default_rng(8).normal(size=n)
        law = conformal.fit(Prediction(0 * z, aleatoric=0 * z + 1), z, **options).law
        words = too_few_for(law, 0.95)
        if n == needed:
            assert words is None
        else:
            counted = f"it needs {needed} calibration cases (patients, where named), and there are {n}."
            assert words == f"the 0.95 interval is infinite: {counted}"


def test_a_bound_alone_has_coverage_and_no_width():
    sample = draw(9, cases=200, outputs=(1,))
    cases = Cases(sample.prediction(), sample.target)
    choice = "conformal:tails=upper"
    result = evaluate(
        cases, cases, recalibrations=[choice], metrics=["coverage", "width", "winkler", "crps", "uce"]
    )
    rows = {(r["metric"], r["level"]): r for r in result.rows}
    assert rows["coverage", 0.9]["value"] == pytest.approx(0.905, abs=0.006)
    for metric in ("width", "winkler"):
        assert rows[metric, 0.9]["reason"] == "a bound on one side alone has no width."
    assert rows["crps", None]["reason"].startswith("an upper bound alone has no CRPS")
    assert (
        metrics.miscalibration_area.score(result.recalibrations[choice](sample.prediction()), sample.target)
        < 0.01
    )


@pytest.mark.parametrize(
    "options", [{"by": "group"}, {"tails": "apart"}, {"tails": "lower"}, {"promise": "all"}]
)
def test_every_kind_is_stored_and_read(options):
    import json

    sample, group = draw(10), np.arange(40) % 3
    fitted = conformal.fit(sample.prediction(), sample.target, group=group, **options)
    again = load_recalibration(json.loads(json.dumps(fitted.to_dict(), allow_nan=False)))
    assert again == fitted
    for new, old in zip(*(f(sample.prediction(), group=group).interval(0.7) for f in (again, fitted))):
        np.testing.assert_array_equal(new, old)


def test_refusals_of_options():
    z = np.random.default_rng(11).normal(size=20)
    prediction = Prediction(0 * z, aleatoric=0 * z + 1)
    with pytest.raises(ValueError, match=r"no group given.*column `group`"):
        conformal.fit(prediction, z, by="group")
    with pytest.raises(ValueError, match="tails is 'left'; expected one of both, apart, lower, upper"):
        conformal.fit(prediction, z, tails="left")
    fitted = conformal.fit(prediction, z, by="group", group=np.arange(20) % 2)
    with pytest.raises(ValueError, match="fitted by group, and no group is given"):
        fitted(prediction)
    with pytest.raises(ValueError, match="cannot be exported"):
        fitted.variance_ratio(1.0)
    with pytest.raises(ValueError, match="does not fit"):
        load_recalibration({**fitted.to_dict(), "tails": "lower"})


def test_a_promise_of_cases_holds_where_patients_with_many_cases_are_harder():
    held = {"patient": [], "case": []}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        sizes = np.where(rng.uniform(size=140) < 0.2, 10, 1)
        patient = np.repeat(np.arange(140), sizes)
        z = rng.normal(size=patient.size) * np.where(sizes[patient] > 1, 3.0, 1.0)
        old = patient < 40
        p = Prediction(0 * z, aleatoric=0 * z + 1)
        for of, found in held.items():
            fitted = conformal.fit(p[old], z[old], patient=patient[old], of=of, most=10)
            interval = fitted(p[~old]).interval(0.9)
            inside = (interval.lower <= z[~old]) & (z[~old] <= interval.upper)
            of_patients = [inside[patient[~old] == k].mean() for k in range(40, 140)]
            found.append([inside.mean(), np.mean(of_patients)])
    by_case, by_patient = np.mean(held["case"], axis=0), np.mean(held["patient"], axis=0)
    assert by_patient[1] > 0.89
    assert by_patient[0] < 0.85  # of all cases it holds fewer than promised
    assert by_case[0] > 0.895
    with pytest.raises(ValueError, match="needs most=, the number of cases"):
        conformal.fit(p[old], z[old], patient=patient[old], of="case")
