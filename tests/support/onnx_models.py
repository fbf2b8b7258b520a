"""A network, cards for it, and its exported file run by onnxruntime."""

import numpy as np
import onnxruntime
import torch
from torch import nn

import truesigma as ts
from truesigma.evaluation.card import calibrate
from truesigma.imaging import TwoHead
from truesigma.imaging.data.units import SCALED, Units

IMAGES = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
MONTHS = Units(("months",), np.array([12.0]), np.array([200.0]))
PLAIN = Units(("",), np.zeros(1), np.ones(1))


def network(seed=0, outputs=1, dropout=0.5):
    """Pixels to two heads, with variances that differ from case to case."""
    torch.manual_seed(seed)
    net = TwoHead(nn.Flatten(), 16, outputs, dropout=dropout).eval()
    nn.init.normal_(net.log_variance.weight, std=0.5)
    return net


def card_for(draws, recalibration="sigma", *, units=PLAIN, unit=None, recipe="exact"):
    """A card fitted on draws of a network, for targets made up around them."""
    unit = units.text if unit is None else unit
    given = draws if unit == SCALED else units.draws(draws)
    prediction = ts.decompose(given)
    rng = np.random.default_rng(0)
    target = prediction.location + 1.7 * prediction.scale * rng.standard_t(5, prediction.location.shape)
    return calibrate(ts.Cases(prediction, target, draws=given, unit=unit), recalibration, recipe=recipe)


def run(path, images):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"image": np.asarray(images)})))


def expect(found, prediction, levels=(0.9,)):
    """All outputs are those of the package."""
    for name in ("location", "aleatoric", "epistemic", "scale"):
        np.testing.assert_allclose(found[name], getattr(prediction, name), rtol=1e-4, atol=1e-7)
    for level in levels:
        for side in ("lower", "upper"):
            bound = getattr(prediction.interval(level), side)
            np.testing.assert_allclose(found[f"{side}_{100 * level:g}"], bound, rtol=1e-4, atol=1e-6)
