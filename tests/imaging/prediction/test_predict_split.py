"""A split predicted: what the sampler draws, with names, groups and targets, also where some are missing."""

import numpy as np
import pytest
import torch
from hand_images import MONTHS, POSE, hands, network

import truesigma as ts
from truesigma.imaging.data.dataset import batches
from truesigma.imaging.prediction.predict import predict_split
from truesigma.imaging.prediction.write import write_split
from truesigma.imaging.sampling.draws import dropout_draws
from truesigma.recalibrate import sigma


class TestSplit:
    def test_it_is_what_the_sampler_draws(self):
        net, data = network(3), hands(POSE)
        cases = predict_split(net, data, "test", draws=7, seed=3, batch=16, scaled=True)
        images = (b.images for b in batches(data.splits["test"], 16, prepare=data.prepare))
        draws = dropout_draws(net, images, draws=7, seed=3)
        np.testing.assert_array_equal(cases.draws.mean, draws.mean)
        np.testing.assert_array_equal(cases.draws.variance, draws.variance)
        assert list(cases.id) == list(data.splits["test"].name)

    def test_moments_are_those_of_the_draws(self):
        net, data = network(3), hands(POSE)
        kept, moments = (predict_split(net, data, draws=7, moments=m) for m in (False, True))
        assert moments.draws is None
        for name in ("location", "aleatoric", "epistemic"):
            one, two = (getattr(c.prediction, name) for c in (kept, moments))
            np.testing.assert_allclose(two, one, rtol=2e-4, atol=1e-6)

    def test_cases_without_targets_are_predicted_and_not_scored(self, tmp_path):
        none = torch.full((40, 1), float("nan"))
        data = hands(MONTHS, target=none)
        draws = predict_split(network(), data, draws=3)
        assert isinstance(draws, ts.Draws)
        write_split(draws, data.splits["test"], MONTHS, False, tmp_path / "d.npz")
        assert ts.read_draws(tmp_path / "d.npz").mean.shape[0] == 3
        with np.load(tmp_path / "d.npz") as kept:
            assert kept["id"][0] == "0.png"
            assert kept["unit"] == "months"
        some = torch.rand(40, 1)
        some[::2] = float("nan")
        for moments in (False, True):
            cases = predict_split(network(), hands(MONTHS, target=some), draws=3, moments=moments)
            whole = predict_split(
                network(), hands(MONTHS, target=some.nan_to_num(0.5)), draws=3, moments=moments
            )
            known = ~np.isnan(some.numpy()[:, 0])
            kept = whole[known]
            assert sigma.fit(cases.prediction, cases.target).factor == pytest.approx(
                sigma.fit(kept.prediction, kept.target).factor
            )
