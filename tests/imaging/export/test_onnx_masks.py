"""Common masks in the exported file: it gives what `predict` gives, image by image, without random operators."""

import json

import numpy as np
import onnx
import pytest
from onnx_models import IMAGES, expect, network, run

import truesigma as ts
from truesigma.evaluation.card import calibrate
from truesigma.imaging import dropout_draws
from truesigma.imaging.data.units import Units
from truesigma.imaging.export.check import as_predicted
from truesigma.imaging.export.onnx import to_onnx

PLAIN = Units(("",), np.zeros(1), np.ones(1))


def fitted(net, **sampling):
    """A card of this network's draws, from a file that says how they were drawn."""
    drawn = dropout_draws(net, [IMAGES], **sampling)
    prediction = ts.decompose(drawn)
    target = prediction.location + 2 * prediction.scale * np.random.default_rng(0).normal(size=(60, 1))
    said = f"masks={sampling['masks']} seed={sampling['seed']} draws={sampling['draws']}"
    return calibrate(ts.Cases(prediction, target, sampling=said))


def test_the_file_has_the_masks_of_its_card(tmp_path):
    net, sampling = network(), {"draws": 7, "seed": 3, "masks": "common"}
    card = fitted(net, **sampling)
    assert {name: card.data[name] for name in sampling} == sampling
    made = to_onnx(net, tmp_path / "m.onnx", example=IMAGES, card=card)
    assert json.loads(made.metadata["sampling"]) == {"kind": "dropout", **sampling}
    assert not [node for node in onnx.load(made.path).graph.node if "Random" in node.op_type]
    expected = as_predicted(dropout_draws(net, [IMAGES], **sampling), card, PLAIN)
    expect(run(made.path, IMAGES), expected)
    for case in (0, 17):  # alone as in the batch
        expect(run(made.path, IMAGES[case : case + 1]), expected[case : case + 1])


def test_a_card_of_independent_masks_is_refused(tmp_path):
    net = network()
    card = fitted(net, draws=5, seed=0, masks="independent")
    with pytest.raises(ValueError, match="fitted on draws with independent masks"):
        to_onnx(net, tmp_path / "m.onnx", example=IMAGES, card=card)
    assert list(tmp_path.iterdir()) == []
