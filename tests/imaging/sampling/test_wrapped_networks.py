"""Networks as training leaves them: wrapped for several devices or by Fabric, or loaded in inference mode."""

import numpy as np
import pytest
import torch
from dropout_networks import convolutional
from torch import nn

from truesigma.imaging.sampling.draws import dropout_draws, ensemble_draws


def fabric(net):
    lightning = pytest.importorskip("lightning")
    return lightning.Fabric(accelerator="cpu", devices=1).setup(net)


@pytest.mark.parametrize("wrap", [nn.DataParallel, fabric, lambda net: torch.compile(nn.DataParallel(net))])
@pytest.mark.filterwarnings("error:torch.export cannot follow")
def test_a_wrapper_changes_nothing(net, images, wrap):
    wrapped = wrap(net)
    drawn, plain = (dropout_draws(one, [images], draws=3, seed=0) for one in (wrapped, net))
    assert np.array_equal(drawn.mean, plain.mean)
    assert np.array_equal(ensemble_draws([wrapped], [images]).mean, ensemble_draws([net], [images]).mean)


def test_a_network_that_was_loaded_in_inference_mode(net, images):
    with torch.inference_mode():
        loaded = convolutional()
        loaded.load_state_dict(net.state_dict())
    before = {name: value.clone() for name, value in loaded.state_dict().items()}
    with pytest.warns(UserWarning, match="the draws are right, only slower"):
        drawn = dropout_draws(loaded, [images], draws=3, seed=0)
    assert drawn.mean.std(axis=0).all()
    # Not to the last bit: weights that lie elsewhere in memory may be summed in another order.
    found, expected = (ensemble_draws([one], [images]).mean for one in (loaded, net))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(before[name], value) for name, value in loaded.state_dict().items())
