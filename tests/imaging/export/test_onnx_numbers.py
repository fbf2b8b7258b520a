"""What onnxruntime gives is what the package gives: for every recalibration, recipe and kind of draws."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx_models import IMAGES, MONTHS, PLAIN, card_for, expect, network, run

import truesigma as ts
from truesigma.imaging import ensemble_draws
from truesigma.imaging.data.prepare import Normalise
from truesigma.imaging.data.units import SCALED, Units
from truesigma.imaging.export.check import as_predicted
from truesigma.imaging.export.onnx import to_onnx
from truesigma.recalibrate._referral import Referral, sigma_of

KINDS = {
    "none": dict(recalibration="none"),
    "sigma in months": dict(recalibration="sigma", units=MONTHS),
    "sigma, scaled": dict(recalibration="sigma", units=MONTHS, unit=SCALED),
    "aleatoric": dict(recalibration="sigma:part=aleatoric"),
    "aux in months": dict(recalibration="aux:hidden=4,steps=200", units=MONTHS),
    "aux, scaled": dict(recalibration="aux:hidden=4,steps=200", units=MONTHS, unit=SCALED),
    "isotonic": dict(recalibration="isotonic"),
    "conformal": dict(recalibration="conformal", units=MONTHS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_pass_gives_the_numbers_of_the_package(kind, tmp_path):
    net, options = network(), KINDS[kind]
    units = options.get("units", PLAIN)
    draws = ensemble_draws([net], [IMAGES])
    card = card_for(draws, **options)
    made = to_onnx([net], tmp_path / "m.onnx", example=IMAGES, card=card, levels=(0.5, 0.9), units=units)
    assert made.difference < 1e-4
    assert made.outputs == (
        "location", "aleatoric", "epistemic", "scale", "lower_50", "upper_50", "lower_90", "upper_90"
    )  # fmt: skip
    expect(run(made.path, IMAGES), as_predicted(draws, card, units), levels=(0.5, 0.9))


@pytest.mark.parametrize(
    ("recipe", "law"), [("exact", ts.Laplace()), ("paper", ts.Normal()), ("own.toml", ts.Normal())]
)
def test_an_ensemble_of_several_outputs_in_every_recipe(recipe, law, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text('[decompose]\naleatoric = "geometric"\nddof = 1\n')
    nets = [network(seed, outputs=2) for seed in range(3)]
    draws = ensemble_draws(nets, [IMAGES], law=law)
    card = card_for(draws, "aux:hidden=3,steps=100", recipe=recipe)  # paper: one ratio for both outputs
    made = to_onnx(nets, "m.onnx", example=IMAGES, card=card, law=law)
    assert json.loads(made.metadata["sampling"]) == {"kind": "ensemble", "draws": 3}
    expect(run("m.onnx", IMAGES), as_predicted(draws, card, PLAIN))


def test_a_factor_for_each_output(tmp_path):
    net = network(outputs=2)
    draws = ensemble_draws([net], [IMAGES])
    card = card_for(draws, "sigma_by_output")
    assert len(set(card.recalibration.factors)) == 2
    made = to_onnx([net], tmp_path / "m.onnx", example=IMAGES, card=card)
    expect(run(made.path, IMAGES), as_predicted(draws, card, PLAIN))


@pytest.mark.parametrize("unit", ["months", SCALED])
def test_a_referral_is_in_the_file(unit, tmp_path):
    net = network(outputs=2)
    units = Units(("months", "months"), np.array([12.0, 0.0]), np.array([200.0, 50.0]))
    draws = ensemble_draws([net], [IMAGES])
    card = card_for(draws, units=units, unit=unit)
    given = ts.decompose(draws if unit == SCALED else units.draws(draws))
    middle = float(np.median(sigma_of(given)))
    for threshold in (middle * 1.001, None):
        refer = Referral(10.0, 0.05, 0.05, threshold, 30, 0.01, 60, 60)
        made = to_onnx(
            [net], tmp_path / "m.onnx", example=IMAGES, card=replace(card, refer=refer), units=units
        )
        found = run(made.path, IMAGES)["refer"]
        assert (found.dtype, found.shape) == (np.dtype(bool), (60,))
        assert (found == refer(given)).all()
        assert refer.words in json.loads(made.metadata["outputs"])["refer"]
    assert found.all()


def test_the_images_are_prepared_inside(tmp_path):
    net, prepare = network(), Normalise((0.3,), (0.2,))
    made = to_onnx([net], tmp_path / "m.onnx", example=255 * IMAGES, prepare=prepare)
    expect(run(made.path, 255 * IMAGES), ts.decompose(ensemble_draws([net], [prepare(255 * IMAGES)])))
    assert prepare(torch.zeros(1, 1, 2, 2)).mean().item() == pytest.approx(-1.5)  # and still works outside


OWN = """
from truesigma import Prediction
class Double:
    def __call__(self, prediction, *, group=None):
        return Prediction(prediction.location, aleatoric=4 * prediction.aleatoric, epistemic=4 * prediction.epistemic)
    def to_dict(self):
        return {"name": "double"}
def fit(prediction, target, *, weight=None, group=None):
    return Double()
"""


def test_recalibrations_of_ones_own(tmp_path):
    (tmp_path / "double.py").write_text(OWN)
    draws = ensemble_draws([network()], [IMAGES])
    with pytest.raises(ValueError, match=r"'double' cannot be exported.*variance_ratio.*Add the method"):
        to_onnx(
            [network()],
            tmp_path / "m.onnx",
            example=IMAGES,
            card=card_for(draws, str(tmp_path / "double.py")),
        )
    (tmp_path / "able.py").write_text(
        OWN.replace(
            "    def to_dict", "    def variance_ratio(self, total):\n        return 4.0\n    def to_dict"
        )
    )
    card = card_for(draws, str(tmp_path / "able.py"))
    to_onnx([network()], tmp_path / "m.onnx", example=IMAGES, card=card)
    expect(run(tmp_path / "m.onnx", IMAGES), as_predicted(draws, card, PLAIN))
