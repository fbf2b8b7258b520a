"""The Monte-Carlo error of few draws: against loops, and against what happens when the draws are repeated."""

import numpy as np
import pytest
import torch
from dropout_networks import convolutional

from truesigma.core.values import Draws
from truesigma.imaging.sampling.draws import dropout_moments
from truesigma.imaging.sampling.moments import Moments, error_of


@pytest.mark.parametrize("sizes", [[6], [1, 2, 3], [1, 1, 1, 1, 1, 1]])
def test_errors_are_those_of_a_loop_over_draws(sizes):
    rng = np.random.default_rng(0)
    mean, variance = 50 + rng.normal(size=(6, 4, 2)), rng.uniform(0.5, 2, (6, 4, 1))
    moments = Moments()
    for part in np.split(np.arange(6), np.cumsum(sizes)[:-1]):
        moments.add(torch.from_numpy(mean[part]), torch.from_numpy(variance[part]))
    location, aleatoric, epistemic, of_location, of_scale = moments.on_host()
    for case in range(4):
        for output in range(2):
            y, v = mean[:, case, output], variance[:, case, 0]
            total = [v[n] + (y[n] - y.mean()) ** 2 for n in range(6)]
            at = case, output
            assert location[at] == pytest.approx(y.mean(), rel=1e-6)
            assert aleatoric[at] + epistemic[at] == pytest.approx(np.mean(total), rel=1e-5)
            assert of_location[at] == pytest.approx(np.std(y, ddof=1) / np.sqrt(6), rel=1e-5)
            slope = 1 / (2 * np.mean(total))  # of log sigma in the total variance
            assert of_scale[at] == pytest.approx(slope * np.std(total, ddof=1) / np.sqrt(6), rel=1e-4)
    kept = error_of(Draws(mean, variance))
    np.testing.assert_allclose(kept.location, of_location, rtol=1e-5)
    np.testing.assert_allclose(kept.relative_scale, of_scale, rtol=1e-4)


def test_repeated_draws_vary_as_the_error_says():
    net, x = convolutional().eval(), torch.randn(3, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    predictions, errors = [], []
    for seed in range(150):
        predictions.append(dropout_moments(net, [x], draws=40, seed=seed, note=errors.append))
    location = np.stack([prediction.location for prediction in predictions])
    scale = np.stack([np.log(prediction.scale) for prediction in predictions])
    said = np.sqrt(np.mean([error.location**2 for error in errors], axis=0))
    np.testing.assert_allclose(location.std(0), said, rtol=0.25)
    said = np.sqrt(np.mean([error.relative_scale**2 for error in errors], axis=0))
    np.testing.assert_allclose(scale.std(0), said, rtol=0.4)
