"""The card, the units and the shapes stand in the file."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import IMAGES, MONTHS, card_for, network

import truesigma as ts
from truesigma.evaluation.card import calibrate, read_card
from truesigma.imaging import dropout_draws
from truesigma.imaging.data.units import Units
from truesigma.imaging.export.onnx import to_onnx


def test_the_card_and_the_shapes_stand_in_the_file(tmp_path):
    net = network()
    draws = dropout_draws(net, [IMAGES], draws=4, seed=0)
    cases = ts.Cases(
        ts.decompose(MONTHS.draws(draws)), np.full((60, 1), 90.0), draws=MONTHS.draws(draws), unit="months"
    )
    card = calibrate(cases, data={"file": "valid.npz", "sha256": "ab" * 32})
    made = to_onnx(
        net, tmp_path / "m.onnx", example=IMAGES, card=card, draws=4, units=MONTHS, about={"site": "A"}
    )
    model = onnx.load(made.path)
    onnx.checker.check_model(model)
    found = {entry.key: entry.value for entry in model.metadata_props}
    assert found == dict(made.metadata)
    assert found["site"] == "A"
    stored = json.loads(found["card"])
    assert stored == json.loads(json.dumps(card.to_dict()))
    assert stored["recalibration"]["factor"] == card.recalibration.factor
    location = cases.prediction.location
    assert stored["data"].pop("range")["location"] == [[location.min(), location.max()]]
    assert stored["data"] == {"file": "valid.npz", "sha256": "ab" * 32, "cases": 60, "outputs": 1, "draws": 4}
    assert json.loads(found["input"]) == {"name": "image", "dtype": "float32", "shape": ["case", 1, 4, 4]}
    assert json.loads(found["outputs"])["aleatoric"] == "variance of the noise, in months squared"
    assert json.loads(found["outputs"])["upper_90"] == "upper bound of the 90 % interval, in months"
    assert {"python", "torch", "truesigma"} <= set(json.loads(found["versions"]))
    shape = model.graph.output[0].type.tensor_type.shape
    assert [d.dim_param or d.dim_value for d in shape.dim] == ["case", 1]
    content = made.path.read_bytes()
    for private in (b"site-packages", b"truesigma/imaging", b"stack_trace", str(Path.home()).encode() + b"/"):
        assert private not in content
    assert repr(made) == f"Exported(m.onnx, image ('case', 1, 4, 4) -> {', '.join(made.outputs)})"
    (tmp_path / "card.json").write_text(found["card"])  # and can be taken out again
    assert read_card(tmp_path / "card.json").to_dict() == card.to_dict()


def test_a_network_says_whether_its_outputs_are_in_the_unit_of_its_card(tmp_path):
    net = network()
    draws = dropout_draws(net, [IMAGES], draws=4, seed=0)
    card = card_for(draws, unit="months")
    with pytest.raises(ValueError, match=r"fitted in months, and nothing says .* units=Units"):
        to_onnx(net, tmp_path / "m.onnx", example=IMAGES, card=card)
    assert not (tmp_path / "m.onnx").exists()
    own = Units(("months",), [0.0], [1.0])
    made = to_onnx(net, tmp_path / "m.onnx", example=IMAGES, card=card, units=own)
    assert json.loads(made.metadata["outputs"])["location"].endswith("in months")
