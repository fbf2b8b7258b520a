"""A sigma for a network that is trained already: each method, and what all of them promise."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import truesigma as ts
from truesigma import imaging
from truesigma.core import plugins
from truesigma.imaging.sampling.frozen import look
from truesigma.imaging.sigmas import distance, laplace, quantiles

ASKED = {
    "laplace": "laplace",
    "residual": "residual",
    "distance": "distance",
    "augment": "augment:flip=x,move=1",
    "quantiles": "quantiles",
}


class Plain(nn.Module):
    """A network with batch norm that was trained without dropout, and returns the mean alone."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.last = nn.Linear(8, outputs)

    def forward(self, x):
        return self.last(self.body(x))


class Two(nn.Module):
    """The same with a log-variance behind the mean, from one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Plain(2)

    def forward(self, x):
        return self.inner(x).chunk(2, dim=1)


def images(cases: int, seed: int) -> torch.Tensor:
    return torch.randn(cases, 1, 4, 4, generator=torch.Generator().manual_seed(seed))


def noisy(net: nn.Module, x: torch.Tensor, seed: int, sd: torch.Tensor | float = 0.5) -> torch.Tensor:
    """Targets around what the network says."""
    with torch.no_grad():
        mean = net.eval()(x)
    mean = mean[0] if isinstance(mean, tuple) else mean
    return mean + sd * torch.randn(mean.shape, generator=torch.Generator().manual_seed(seed))


def split(net: nn.Module, cases: int, seed: int, **how) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x = images(cases, seed)
    return [*zip(x.split(64), noisy(net, x, seed + 100, **how).split(64))]


@pytest.fixture
def net() -> Plain:
    torch.manual_seed(0)
    return Plain()


def test_every_method_is_tested():
    assert set(ASKED) == set(plugins.names("sigmas"))


@pytest.mark.parametrize("method", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("make", [Plain, Two, lambda: Plain(3)], ids=["one", "two heads", "three"])
def test_the_network_stays_and_its_mean_is_the_location(method, make):
    torch.manual_seed(0)
    net = make()
    train, held = split(net, 200, 1), split(net, 150, 2)
    net.train()  # as a training loop may leave it
    before, state = copy.deepcopy(net.state_dict()), torch.random.get_rng_state()
    sigma = imaging.fit_sigma(net, method, train=train, held=held)
    new = images(30, 3)
    made = sigma(new.split(16))
    prediction = made if isinstance(made, ts.Prediction) else ts.decompose(made)
    assert all(module.training for module in net.modules())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())
    with torch.no_grad():
        mean = net.eval()(new)
    mean = mean[0] if isinstance(mean, tuple) else mean
    if not method.startswith(("augment", "quantiles")):
        np.testing.assert_allclose(prediction.location, mean, rtol=1e-5, atol=1e-5)
    again = sigma([new[7:8]])  # a case has the same sigma in any batch
    again = again if isinstance(again, ts.Prediction) else ts.decompose(again)
    np.testing.assert_allclose(again.scale[0], prediction.scale[7], rtol=1e-4)


@pytest.mark.parametrize("method", ASKED.values(), ids=ASKED)
def test_what_was_learned_is_read_again(method, net, tmp_path):
    train, held = split(net, 200, 1), split(net, 150, 2)
    sigma, new = imaging.fit_sigma(net, method, train=train, held=held), [images(9, 3)]
    sigma.save(tmp_path / "sigma.npz")
    first, again = sigma(new), imaging.load_sigma(net, tmp_path / "sigma.npz")(new)
    for name, value in vars(first).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(again, name))


@pytest.mark.parametrize("method", ASKED.values(), ids=ASKED)
def test_raw_intervals_hold_nine_tenths_of_noise_that_is_alike(method, net):
    train, held, test = (split(net, cases, seed) for cases, seed in ((400, 1), (400, 2), (2000, 3)))
    made = imaging.fit_sigma(net, method, train=train, held=held)([x for x, _ in test])
    prediction = made if isinstance(made, ts.Prediction) else ts.decompose(made)
    target = torch.cat([y for _, y in test]).numpy()
    assert ts.metrics.coverage.score(prediction, target, level=0.9) == pytest.approx(0.9, abs=0.03)


def test_laplace_is_bayesian_linear_regression(net):
    """Slowly, from the equation: the variance of a linear model's mean, given penalty and noise."""
    train, held = split(net, 60, 1, sd=0.05), split(net, 50, 2, sd=0.05)
    learned, new = imaging.fit_sigma(net, "laplace", train=train, held=held).learned, [images(5, 3)]
    penalty, noise = learned["penalty"][0], learned["factor"][0]
    seen, there = look(net, train), look(net, new, labelled=False)
    precision = (penalty / noise) * np.eye(9)
    for features in seen.features:
        row = np.append(features, 1.0)
        precision += np.outer(row, row) / noise
    covariance = np.linalg.inv(precision)
    made = laplace.predict(net, new, learned)
    for case, features in enumerate(there.features):
        row = np.append(features, 1.0)
        assert made.epistemic[case, 0] == pytest.approx(row @ covariance @ row, rel=1e-4)
        assert made.aleatoric[case, 0] == pytest.approx(noise, rel=1e-5)
    own = look(net, held)
    rows = np.append(own.features, np.ones((50, 1)), axis=1)
    leverage = [row @ covariance @ row / noise for row in rows]
    assert noise == pytest.approx(np.mean(own.errors[:, 0] / (1 + np.array(leverage))), rel=1e-6)


def test_the_penalty_has_the_evidence_of_bayesian_ridge(net):
    linear_model = pytest.importorskip("sklearn.linear_model")
    train, held = split(net, 80, 1, sd=0.05), split(net, 50, 2, sd=0.05)
    learned = imaging.fit_sigma(net, "laplace", train=train, held=held).learned
    seen = look(net, train)
    rows = np.append(seen.features, np.ones((80, 1)), axis=1)
    flat = dict.fromkeys(("alpha_1", "alpha_2", "lambda_1", "lambda_2"), 0.0)
    known = linear_model.BayesianRidge(fit_intercept=False, max_iter=10_000, tol=1e-12, **flat)
    known.fit(rows, seen.target[:, 0])
    assert learned["penalty"][0] == pytest.approx(known.lambda_ / known.alpha_, rel=1e-3)


def test_laplace_beside_laplace_torch(net):
    pytest.importorskip("laplace")
    from laplace import Laplace

    train, held = split(net, 64, 1, sd=0.05), split(net, 50, 2, sd=0.05)
    learned, new = imaging.fit_sigma(net, "laplace", train=train, held=held).learned, images(6, 3)
    penalty, noise = float(learned["penalty"][0]), float(learned["factor"][0])
    theirs = Laplace(
        net.eval(),
        "regression",
        subset_of_weights="last_layer",
        hessian_structure="full",
        sigma_noise=noise**0.5,
        prior_precision=penalty / noise,
    )
    theirs.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*train[0]), batch_size=16))
    variance = theirs(new)[1].detach().numpy().reshape(-1)
    ours = laplace.predict(net, [new], learned).epistemic[:, 0]
    np.testing.assert_allclose(ours, variance, rtol=1e-3)


def test_laplace_doubts_what_is_unlike_the_training_cases(net):
    train, held = split(net, 100, 1, sd=0.05), split(net, 100, 2, sd=0.05)
    sigma = imaging.fit_sigma(net, "laplace", train=train, held=held)
    usual, far = sigma([images(50, 3)]), sigma([20 * images(50, 3)])
    assert far.epistemic.mean() > 20 * usual.epistemic.mean()


def test_residual_learns_which_cases_are_hard(net):
    """The noise grows with one of the features, tenfold."""

    def hard(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.exp(net.eval().body(x)[:, :1] - 1)

    batches = []
    for cases, seed in ((600, 1), (600, 2)):
        x = images(cases, seed)
        batches.append([(x, noisy(net, x, seed + 100, hard(x)))])
    sigma, (x, y) = imaging.fit_sigma(net, "residual", held=batches[0]), batches[1][0]
    found = sigma([x])
    assert np.corrcoef(np.log(found.scale[:, 0]), np.log(hard(x)[:, 0].numpy()))[0, 1] > 0.9
    assert ts.metrics.coverage.score(found, y.numpy(), level=0.9) == pytest.approx(0.9, abs=0.03)
    constant = imaging.fit_sigma(net, "residual", held=split(net, 600, 5))  # noise that nothing tells
    assert not constant.learned["weight"].any()


def test_distance_scales_sigma_by_what_held_cases_show(net):
    """Errors grow with the distance where they do; elsewhere the distance says nothing."""
    train, x = split(net, 300, 1), torch.cat([images(400, 2), 6 * images(400, 3)])
    hard = torch.cat([torch.full((400, 1), 0.2), torch.full((400, 1), 1.2)])
    mixed = torch.randperm(800, generator=torch.Generator().manual_seed(0))
    held = [(x[mixed], noisy(net, x, 9, hard)[mixed])]
    sigma = imaging.fit_sigma(net, "distance", train=train, held=held)
    near, far = (sigma([times * images(200, 5)]).scale.mean() for times in (1, 6))
    assert 0.15 < near < 0.35  # the distances of both kinds overlap
    assert 0.9 < far < 1.6
    alike = imaging.fit_sigma(net, "distance", train=train, held=split(net, 400, 7))
    assert not alike.learned["weight"].any()


def test_sigma_stays_within_twice_that_of_held_cases(net):
    """An exponential of features far from all others would overflow."""
    x = images(600, 2)
    with torch.no_grad():
        hard = torch.exp(net.eval().body(x)[:, :1] - 1)
    held = [(x, noisy(net, x, 9, hard))]
    sigma = imaging.fit_sigma(net, "residual", held=held)
    usual, far = sigma([x]).scale, sigma([1e4 * images(50, 5)]).scale
    assert far.max() == pytest.approx(2 * usual.max(), rel=1e-4)
    assert far.min() >= 0.0999 * usual.min()


def test_distances_are_those_of_scikit_learn(net):
    covariance = pytest.importorskip("sklearn.covariance")
    train, held = split(net, 40, 1), split(net, 60, 2)
    known, new = look(net, train).features, look(net, held).features
    learned = imaging.fit_sigma(net, "distance", train=train, held=held).learned
    expected = np.log(covariance.LedoitWolf().fit(known).mahalanobis(new)) / 2
    np.testing.assert_allclose(distance._signs(new, learned)[:, 0], expected, rtol=1e-5)


def test_views_are_flips_turns_and_shifts(net):
    held, x = split(net, 100, 1), images(6, 2)
    sigma = imaging.fit_sigma(net, "augment:flip=xy,move=1,turn=true", held=held)
    drawn = sigma([x])
    assert drawn.mean.shape == (4 * 4 * 5, 6, 1)
    with torch.no_grad():
        seen = [
            net.eval()(view)[:, 0].numpy()
            for view in (x, x.flip(-1), torch.rot90(x.flip(-1, -2), 3, (-2, -1)))
        ]
    for view in seen:
        assert np.abs(drawn.mean[:, :, 0] - view).max(axis=1).min() < 1e-6
    shifted = torch.cat([x[..., 1:], x[..., -1:]], dim=-1)
    with torch.no_grad():
        assert np.abs(drawn.mean[:, :, 0] - net(shifted)[:, 0].numpy()).max(axis=1).min() < 1e-6
    means = sigma([x for x, _ in held])
    errors = np.square(means.mean.mean(axis=0) - torch.cat([y for _, y in held]).numpy()).mean()
    assert (sigma.learned["level"] + means.mean.var(axis=0).mean()).item() == pytest.approx(errors, rel=1e-4)
    with pytest.raises(ValueError, match="leave the target as it is"):
        imaging.fit_sigma(net, "augment", held=held)


def test_quantiles_never_cross_and_learn_skewed_errors(net):
    """Errors are exponential; their size grows with a feature."""

    def cases(count: int, seed: int):
        x = images(count, seed)
        with torch.no_grad():
            mean, size = net.eval()(x), torch.exp(net.body(x)[:, :1] - 1)
        generator = torch.Generator().manual_seed(seed)
        return x, mean + size * -torch.log(torch.rand(mean.shape, generator=generator)), size

    x, y, _ = cases(2000, 1)
    sigma = imaging.fit_sigma(net, "quantiles", held=[(x, y)])
    x, y, size = cases(2000, 2)
    found = sigma([x])
    with torch.no_grad():
        mean = net(x)
    for p in sigma.learned["probability"]:
        quantile = torch.as_tensor(found.quantile(p))
        assert (y <= quantile).float().mean().item() == pytest.approx(p, abs=0.03)
    upper = torch.as_tensor(found.quantile(0.95)) - mean
    assert np.corrcoef(upper[:, 0], size[:, 0])[0, 1] > 0.85
    bounds = np.stack([found.quantile(p) for p in sigma.learned["probability"]])
    assert (np.diff(bounds, axis=0) > 0).all()
    far = sigma([50 * x])
    assert (far.quantile(0.95) > far.quantile(0.75)).all()


def test_the_pinball_loss_is_as_small_as_that_of_scikit_learn(net, monkeypatch):
    linear_model = pytest.importorskip("sklearn.linear_model")
    monkeypatch.setattr(quantiles, "PENALTIES", (0.0,))
    monkeypatch.setattr(quantiles, "SURE", -1.0)
    monkeypatch.setattr(quantiles, "STEPS", 3000)
    held = split(net, 300, 1)
    sigma = imaging.fit_sigma(net, "quantiles", held=held)
    seen, found = look(net, held), sigma([x for x, _ in held])
    for p in (0.05, 0.5, 0.95):
        known = linear_model.QuantileRegressor(quantile=p, alpha=0)
        known.fit(seen.features, (seen.target - seen.mean)[:, 0])
        theirs = seen.mean[:, 0] + known.predict(seen.features)
        loss = [
            np.maximum(p * (seen.target[:, 0] - q), (p - 1) * (seen.target[:, 0] - q)).mean()
            for q in (np.asarray(found.quantile(p))[:, 0], theirs)
        ]
        assert loss[0] < 1.02 * loss[1]  # which knows straight lines alone


def test_quantiles_have_no_slopes_without_proof(net):
    assert not imaging.fit_sigma(net, "quantiles", held=split(net, 300, 5)).learned["weight"].any()


def test_any_network_of_timm_in_three_lines():
    timm = pytest.importorskip("timm")
    net = timm.create_model("resnet18", num_classes=1, in_chans=1)
    batches = [(torch.randn(8, 1, 32, 32), torch.randn(8)) for _ in range(4)]
    sigma = imaging.fit_sigma(net, "laplace", train=batches[:2], held=batches[2:])
    assert sigma([batches[0][0]]).location.shape == (8, 1)
    assert sigma.learned["root"].shape == (1, 513, 513)


def test_a_file_of_ones_own_works_by_its_path(net, tmp_path):
    file = tmp_path / "level.py"
    file.write_text(
        "import numpy as np\n"
        "from truesigma.imaging.sampling.frozen import look\n"
        "def fit(net, held, *, times: float = 1.0):\n"
        '    """The same sigma everywhere."""\n'
        "    return {'variance': times * look(net, held).errors.mean(axis=0)}\n"
        "def predict(net, batches, learned):\n"
        "    seen = look(net, batches, labelled=False)\n"
        "    return seen.prediction(learned['variance'] * seen.variance)\n"
    )
    held = split(net, 200, 1)
    sigma = imaging.fit_sigma(net, f"{file}:times=4", held=held)
    assert sigma([images(3, 2)]).scale[:, 0] == pytest.approx(1.0, rel=0.2)
    sigma.save(tmp_path / "sigma.npz")
    with pytest.raises(ValueError, match="not executed"):
        imaging.load_sigma(net, tmp_path / "sigma.npz")
    assert imaging.load_sigma(net, tmp_path / "sigma.npz", [file])([images(3, 2)])


def test_what_is_missing_is_said(net):
    with pytest.raises(ValueError, match="laplace needs held"):
        imaging.fit_sigma(net, "laplace", train=split(net, 20, 1))
    with pytest.raises(ValueError, match="no linear layer"):
        imaging.fit_sigma(
            nn.Sequential(nn.Linear(4, 2), nn.Softplus()),
            "residual",
            held=[(torch.ones(9, 4), torch.ones(9, 2))],
        )
    with pytest.raises(ValueError, match="has no target"):
        imaging.fit_sigma(net, "residual", held=[images(9, 1)])
    with pytest.raises(ValueError, match="no sigmas plug-in"):
        imaging.fit_sigma(net, "laplaec", held=[images(9, 1)])
