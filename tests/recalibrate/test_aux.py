"""Aux scaling: what it reduces to, what it must not depend on, its large-data path, its stored form."""

import json
import math
import warnings

import numpy as np
import pytest
import torch
from samples import draw

import truesigma as ts
from truesigma import Laplace, Prediction, load_recalibration, metrics
from truesigma.cli import main
from truesigma.page import report
from truesigma.recalibrate import aux, sigma


def bent(m: int, seed: int = 0, law: str = "normal") -> tuple[Prediction, np.ndarray]:
    """Data whose true variance is a power of the predicted one: one factor cannot repair it."""
    rng = np.random.default_rng(seed)
    v = np.exp(rng.normal(size=m))
    z = rng.normal(size=m) if law == "normal" else rng.laplace(size=m) / math.sqrt(2)
    p = (
        Prediction(0 * v, aleatoric=0.7 * v, epistemic=0.3 * v, law=Laplace())
        if law == "laplace"
        else Prediction(0 * v, aleatoric=0.7 * v, epistemic=0.3 * v)
    )
    return p, 1.5 * v**0.25 * z


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("outputs", ["separate", "mean"])
@pytest.mark.parametrize("cases", [40, 2000])
def test_nothing_hidden_is_sigma_scaling(law, outputs, cases):
    sample = draw(0, law=law, mask=True, weight=True, cases=cases)
    given = sample.prediction(), sample.target
    found = aux.fit(*given, weight=sample.weight, outputs=outputs, hidden=0)
    expected = sigma.fit(*given, weight=sample.weight, outputs=outputs)
    np.testing.assert_allclose(found(given[0]).scale, expected(given[0]).scale, rtol=1e-12)


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_the_training_is_that_of_torch(law, standardise):
    """Its layers, its distributions, its gradients, Adam and plateau schedule, from the same start."""
    hidden, steps, rate = 4, 500, 0.2  # a rate that is too high: it must fall
    p, y = bent(60, law=law)
    x = torch.tensor(np.log(p.total))
    shift, divisor = (x.mean(), x.std(correction=0)) if standardise else (0.0, 1.0)
    offset = shift + 2 * math.log(sigma.fit(p, y).factor) if standardise else 0.0
    net = torch.nn.Sequential(
        torch.nn.Linear(1, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1)
    ).double()
    rng, half = np.random.default_rng(0), 1 / math.sqrt(hidden)
    with torch.no_grad():
        for tensor, limit in zip(net.parameters(), (1.0, 1.0, half, half)):
            tensor.copy_(torch.tensor(rng.uniform(-limit, limit, tensor.numel())).reshape(tensor.shape))
    adam = torch.optim.Adam(net.parameters(), lr=rate)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        adam, factor=0.1, patience=100, threshold=1e-12, threshold_mode="abs", eps=0.0
    )
    best, expected = math.inf, None
    for _ in range(steps):
        log_v = net(((x - shift) / divisor)[:, None])[:, 0] + offset
        scale = torch.exp(log_v / 2) / math.sqrt(p.law.unit)
        kind = torch.distributions.Normal if law == "normal" else torch.distributions.Laplace
        loss = -kind(torch.zeros_like(scale), scale).log_prob(torch.tensor(y)).mean()
        if loss.item() < best:
            best, expected = loss.item(), log_v.detach().numpy()
        adam.zero_grad()
        loss.backward()
        plateau.step(loss.item())
        adam.step()
    assert adam.param_groups[0]["lr"] < 0.2 * rate
    found = aux.fit(p, y, hidden=hidden, steps=steps, rate=rate, standardise=standardise)
    np.testing.assert_allclose(found.new_log_variance(np.log(p.total)), expected, atol=1e-6)


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_it_repairs_what_one_factor_cannot(law):
    p, y = bent(30_000, law=law)
    q, z = bent(30_000, seed=1, law=law)
    scores = [metrics.nll.score(f(q), z) for f in (sigma.fit(p, y), aux.fit(p, y))]
    truth = Prediction(q.location, aleatoric=2.25 * q.total**0.5, law=q.law)
    best = metrics.nll.score(truth, z)
    assert best < scores[1] < scores[0]
    assert scores[1] - best < 0.15 * (scores[0] - best)
    assert metrics.ence.score(aux.fit(p, y)(q), z) < metrics.ence.score(sigma.fit(p, y)(q), z) / 3


def test_the_unit_does_not_matter():
    """Standardised log-variances: the same network for millimetres and metres, up to rounding."""
    p, y = bent(400)
    for k in (1e-6, 3.7, 1e3):
        scaled = Prediction(k * p.location, aleatoric=k * k * p.aleatoric, epistemic=k * k * p.epistemic)
        new = aux.fit(scaled, k * y, steps=300)(scaled).scale
        np.testing.assert_allclose(new, k * aux.fit(p, y, steps=300)(p).scale, rtol=1e-6)


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_many_cases_go_through_cells(law):
    p, y = bent(aux.MANY + 500, law=law)
    cells = aux.fit(p, y)
    many, kept = aux.MANY, aux.KEPT
    try:
        aux.KEPT = 100  # cells that do not know the mean
        streamed = aux.fit(p, y)
        aux.MANY = aux.KEPT = 10**9
        exact = aux.fit(p, y)
    finally:
        aux.MANY, aux.KEPT = many, kept
    inside = Prediction(np.zeros(40), aleatoric=np.geomspace(0.15, 6.0, 40), law=p.law)
    for found in (cells, streamed):
        np.testing.assert_allclose(found(inside).scale, exact(inside).scale, rtol=0.02)
        assert metrics.nll.score(found(p), y) == pytest.approx(metrics.nll.score(exact(p), y), abs=1e-3)


def test_outputs_mean_gives_one_ratio_for_each_case():
    sample = draw(1, cases=200)
    p = sample.prediction()
    new = aux.fit(p, sample.target, outputs="mean", steps=100)(p)
    ratio = new.total / p.total
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones((1, 3)), rtol=1e-12)
    one = Prediction(p.location[:, :1], aleatoric=p.total.mean(axis=1, keepdims=True))
    same = aux.fit(p, sample.target, outputs="mean", steps=100)(one)
    np.testing.assert_allclose((same.total / one.total)[:, 0], ratio[:, 0], rtol=1e-12)


def test_masked_outputs_are_left_out_of_the_mean_of_a_case():
    sample = draw(2, mask=True)
    mask = sample.mask.copy()
    mask[5] = False
    spoiled = np.where(mask, sample.aleatoric, np.nan)
    p = Prediction(sample.location, aleatoric=spoiled, epistemic=sample.epistemic, mask=mask)
    new = aux.fit(p, sample.target, outputs="mean", steps=50)(p)
    assert np.isfinite(new.scale[mask]).all()
    whole = np.where(mask, spoiled + sample.epistemic, 0.0).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
    alone = aux.fit(p, sample.target, outputs="mean", steps=50)(
        Prediction(np.zeros(39), aleatoric=whole[np.arange(40) != 5])
    )
    ratio = alone.total / whole[np.arange(40) != 5]
    found = (new.total / p.total)[np.arange(40) != 5]
    for row in range(39):
        kept = mask[np.arange(40) != 5][row]
        np.testing.assert_allclose(found[row][kept], ratio[row], rtol=1e-12)


def test_extreme_variances():
    rng = np.random.default_rng(3)
    log_v = rng.uniform(-80, 80, size=400)
    v = np.exp(log_v)
    y = 3 * np.sqrt(v) * rng.normal(size=400)
    new = aux.fit(Prediction(0 * v, aleatoric=v), y, steps=300)(Prediction(0 * v, aleatoric=v))
    assert np.isfinite(new.scale).all()
    assert np.median(new.scale / np.sqrt(v)) == pytest.approx(3.0, rel=0.3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden": -1}, "hidden is -1; expected a whole number, 0 or more"),
        ({"hidden": 2.5}, "hidden is 2.5"),
        ({"steps": 0}, "steps is 0; expected a whole number, 1 or more"),
        ({"rate": 0.0}, "rate is 0.0; expected a number above 0"),
        ({"part": "epistemic"}, "part is 'epistemic'"),
        ({"outputs": "each"}, "outputs is 'each'"),
    ],
)
def test_options_are_checked(options, words):
    sample = draw(4)
    with pytest.raises(ValueError, match=words):
        aux.fit(sample.prediction(), sample.target, **options)


def test_what_lies_far_beyond_the_calibration_cases_is_doubted_and_held():
    """Thirty cases with a sigma between 1 and 2 that is the wronger the larger it is; then one of 50."""
    v = np.geomspace(1.0, 4.0, 30)
    fitted = aux.fit(Prediction(0 * v, aleatoric=v), v**1.5)
    assert fitted.seen == pytest.approx((0.0, math.log(4.0)))
    with pytest.warns(UserWarning, match="1 of 3 lie beyond, 1 of them so far") as said:
        new = fitted(Prediction(np.zeros(3), aleatoric=np.array([1.0, 4.0, 2500.0]))).scale
    assert said[0].filename == __file__
    assert new[2] / 50 == pytest.approx(10 * new[1] / 2)
    again = load_recalibration(json.loads(json.dumps(fitted.to_dict())))
    assert again == fitted
    stored = {key: value for key, value in fitted.to_dict().items() if key != "seen"}  # of an earlier version
    assert load_recalibration(stored).seen is None


def test_its_own_calibration_cases_do_not_lie_beyond():
    """A variance of two parts is summed in single precision, and the ends of what was seen are not."""
    aleatoric, epistemic = (np.random.default_rng(k).gamma(4, 1, 30).astype("f4") for k in (0, 1))
    cases = Prediction(np.zeros(30, "f4"), aleatoric=aleatoric, epistemic=epistemic)
    fitted = aux.fit(cases, np.sqrt(aleatoric + epistemic))
    with warnings.catch_warnings(action="error"):
        fitted(cases)
    with pytest.warns(UserWarning, match="; 1 of 3 lie beyond, 0 of them so far"):
        fitted(Prediction(np.zeros(3), aleatoric=np.array([8.0, 9.0, 50.0])))
    with pytest.warns(UserWarning, match=r"2 of 2 lie beyond.* Is the unit the same"):
        fitted(Prediction(np.zeros(2), aleatoric=np.array([50.0, 51.0])))


@pytest.mark.filterwarnings("ignore:aux scaling was fitted on sigmas")
@pytest.mark.parametrize("library", [np.asarray, torch.tensor])
def test_it_is_held_as_the_equation_says(library):
    """Element by element, from the network: sigma's ratio is within ten times that of the nearest case seen."""
    v = np.geomspace(1.0, 1.1, 12)
    fitted = aux.fit(Prediction(0 * v, aleatoric=v), v**8 * np.linspace(0.5, 2, 12))
    far = np.geomspace(1e-3, 1e3, 25)
    expected = []
    for log_v in np.log(far).tolist():
        nearest = min(max(log_v, fitted.seen[0]), fitted.seen[1])
        own, last = (float(fitted.new_log_variance(np.array([x]))[0] - x) for x in (log_v, nearest))
        expected.append(math.exp(min(max(own, last - 2 * math.log(10)), last + 2 * math.log(10))))
    total = library(far)
    np.testing.assert_allclose(fitted.variance_ratio(total), expected, rtol=1e-10)
    np.testing.assert_allclose(
        fitted(Prediction(0 * total, aleatoric=total)).total / total, expected, rtol=1e-10
    )


@pytest.mark.filterwarnings("ignore:aux scaling was fitted on sigmas")
def test_nearly_equal_sigmas_do_not_overflow():
    """Six cases whose log-variances differ by a millionth: standardised, one twice as large is a million away."""
    v = 1 + 1e-6 * np.arange(6)
    fitted = aux.fit(Prediction(0 * v, aleatoric=v), np.array([0.3, -1.0, 0.5, 2.0, -0.7, 1.5]))
    ratio = fitted(Prediction(np.zeros(2), aleatoric=np.array([0.5, 2.0]))).scale / np.sqrt([0.5, 2.0])
    assert (ratio > 0.005).all()
    assert (ratio < 50).all()


@pytest.mark.filterwarnings("error")
def test_what_is_masked_is_not_doubted():
    v = np.geomspace(100.0, 400.0, 30)
    fitted = aux.fit(Prediction(0 * v, aleatoric=v), v**1.5)
    far = Prediction(
        np.zeros((2, 2)),
        aleatoric=np.array([[100.0, 1e9], [200.0, 300.0]]),
        mask=[[True, False], [True, True]],
    )
    fitted(far)


def test_errors_of_exactly_0_leave_no_sigma_of_0(tmp_path, capsys):
    """All errors but one are 0, so that the likelihood grows without end as sigma falls: refused, and said."""
    sigma = np.random.default_rng(0).gamma(4, 0.5, 300)
    cases = ts.Cases(Prediction(np.zeros(300), aleatoric=sigma**2), np.where(np.arange(300) == 7, 1e3, 0.0))
    with pytest.raises(ValueError, match="calibration errors are exactly 0"):
        aux.fit(cases)
    ts.write(cases, tmp_path / "cases.csv")
    file = str(tmp_path / "cases.csv")
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "--calibration", file, "--test", file, "--metrics", "rmse,nll"])
    assert not ended.value.code
    assert "aux could not be fitted: " in capsys.readouterr().out
    page = tmp_path / "report.html"
    beside = ["report", "--calibration", file, "--test", file, "--recalibrate", "sigma,aux", "-o", str(page)]
    with pytest.raises(SystemExit) as ended:
        main(beside)
    assert not ended.value.code
    assert "warning: aux could not be fitted, and is left out: " in capsys.readouterr().err
    with pytest.raises(ValueError, match="calibration errors are exactly 0"):
        report(cases, cases, recalibrations=["aux", "sigma"])
