"""No file is written that would be wrong: models that disagree, other cards, bad input."""

import sys

import numpy as np
import pytest
import torch
from onnx_models import IMAGES, MONTHS, card_for, network
from torch import nn

import truesigma as ts
from truesigma.files.disk import BadFile
from truesigma.imaging import dropout_draws, ensemble_draws
from truesigma.imaging.export import module as calibrated
from truesigma.imaging.export.check import Disagreement
from truesigma.imaging.export.onnx import to_onnx


def test_a_file_that_is_wrong_is_never_put_in_place(tmp_path, monkeypatch):
    out = tmp_path / "m.onnx"
    out.write_text("the one before")

    def attempt(message, nets, **options):
        with pytest.raises(Disagreement, match=message):
            to_onnx(nets, out, example=IMAGES, **options)
        assert out.read_text() == "the one before"
        assert list(tmp_path.iterdir()) == [out]

    with monkeypatch.context() as patch:
        patch.setattr(calibrated, "bounded_exp", lambda exponent: 1.001 * exponent.exp())
        attempt("aleatoric of the exported model is off by 0.0005", [network()])
    with monkeypatch.context() as patch:
        patch.setattr(ts.recalibrate.sigma.Sigma, "variance_ratio", lambda self, total: 1.0)
        attempt("is off by", [network()], card=card_for(ensemble_draws([network()], [IMAGES])))


def test_cards_of_other_predictions_are_refused(tmp_path):
    net, out = network(), tmp_path / "m.onnx"
    single, many = ensemble_draws([net], [IMAGES]), dropout_draws(net, [IMAGES], draws=5, seed=0)

    def attempt(message, card, nets=net, **options):
        with pytest.raises(ValueError, match=message):
            to_onnx(nets, out, example=IMAGES, card=card, **{"draws": 5, **options})
        assert not out.exists()

    attempt("fitted on 1 draws of each case, the model would make 5", card_for(single))
    attempt("fitted on 5 draws of each case, the model would make 1", card_for(many), nets=[net], draws=None)
    attempt(
        "fitted on predictions in mm, this network predicts in months",
        card_for(many, unit="mm"),
        units=MONTHS,
    )
    attempt("the card was fitted for 'normal'", card_for(many), law=ts.Laplace())
    attempt("fitted on 1 outputs, the network has 2", card_for(many), nets=network(outputs=2))
    attempt("recipe 'code' clamps", card_for(many, recipe="code"))
    attempt(
        "0.99 interval of this recalibration is infinite", card_for(many, "conformal"), levels=(0.9, 0.99)
    )
    with pytest.warns(UserWarning, match="draws is 6, and the card was fitted on predictions with 5"):
        to_onnx(net, out, example=IMAGES, card=card_for(many), draws=6)


BAD = {
    "suffix": (dict(out="m.pt"), "m.pt should end in .onnx"),
    "folder": (dict(out="missing/m.onnx"), "does not exist; make it first"),
    "draws": (dict(draws=0), "draws is 0; expected a whole number, 1 or more"),
    "level": (dict(levels=(90,)), "level is 90"),
    "no network": (dict(nets=[]), "nets is empty"),
    "no randomness": (dict(nets=network(dropout=0.0)), "draws no random numbers"),
    "one output": (dict(nets=nn.Flatten()), "draws no random numbers"),
    "not two outputs": (dict(nets=[nn.Flatten()]), r"expected two tensors, \(mean, log-variance\)"),
    "no tensor": (dict(example=np.zeros((2, 1, 4, 4))), "example is a ndarray; expected a tensor of images"),
    "no cases": (dict(example=torch.zeros(0, 1, 4, 4)), r"example is \(0, 1, 4, 4\)"),
    "path of a card": (dict(card="card.json"), r"card is a str; expected a Card: read_card\(path\)"),
    "law": (dict(law=ts.Empirical([1.0])), r"expected Normal\(\) or Laplace\(\)"),
    "noise": (dict(nets=[nn.Sequential(nn.Flatten(), nn.Dropout(0.5))]), "expected two tensors"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, message = BAD[name]
    given = {"nets": network(), "out": "m.onnx", "example": IMAGES, **options}
    with pytest.raises(ValueError, match=message) as raised:
        to_onnx(given.pop("nets"), given.pop("out"), **given)
    assert isinstance(raised.value, BadFile) == (name in ("suffix", "folder"))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs onnxruntime.*pip install") as raised:
        to_onnx(network(), tmp_path / "m.onnx", example=IMAGES)
    assert raised.value.name == "onnxruntime"
    assert list(tmp_path.iterdir()) == []
