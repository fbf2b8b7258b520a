"""Draws folded into passes that fit into memory, behind a prefix that runs once."""

import numpy as np
import pytest
import torch
from dropout_networks import convolutional

from truesigma.imaging.sampling import fold as folding
from truesigma.imaging.sampling.draws import dropout_draws


def test_chunks_follow_the_memory(net, images, monkeypatch):
    sizes = []
    one_pass = folding.Sampler._one_pass

    def watched(sampler, pieces, rest, handed, seeds, masks):
        sizes.append(len(seeds))
        return one_pass(sampler, pieces, rest, handed, seeds, masks)

    monkeypatch.setattr(folding.Sampler, "_one_pass", watched)
    whole = dropout_draws(net, [images], draws=10, seed=0)
    assert sizes == [10]
    sizes.clear()
    monkeypatch.setattr(folding, "_CPU_BYTES", 1)
    small = dropout_draws(net, [images], draws=8, seed=0)
    assert sizes == [3, 3, 2]  # passes of at least 16 cases: smaller ones are slower
    np.testing.assert_allclose(small.mean, whole.mean[:8], rtol=1e-5, atol=1e-6)


def test_running_out_of_memory_halves_the_chunk(net, images, monkeypatch):
    one_pass = folding.Sampler._one_pass

    def short(sampler, pieces, rest, handed, seeds, masks):
        if len(seeds) > 3:
            raise torch.OutOfMemoryError("on purpose")
        return one_pass(sampler, pieces, rest, handed, seeds, masks)

    monkeypatch.setattr(folding.Sampler, "_one_pass", short)
    with pytest.warns(UserWarning, match="out of memory"):
        draws = dropout_draws(net, [images], draws=10, seed=3)
    expected = dropout_draws(net, [images], draws=10, seed=3, chunk=1)
    np.testing.assert_allclose(draws.mean, expected.mean, rtol=1e-5, atol=1e-6)


def test_the_prefix_runs_once_for_all_draws(images):
    """Counted by a layer before the dropout that notes every call through a custom operation's stand-in."""
    net = convolutional()
    calls = []
    sampler = folding.Sampler(net, "fp32", "", 2)
    pieces, prefix, rest, masked = sampler._prepare(images)
    counted = type(prefix)(prefix.body, prefix.weights, lambda *x: (calls.append(1), prefix.body(*x))[1])
    sampler.prepared[images.shape[1:], images.dtype, images.device] = pieces, counted, rest, masked
    found = []
    sampler.draw(images, 0, 6, lambda count, outputs: found.append(count))
    assert found == [2, 2, 2]
    assert len(calls) == 1
