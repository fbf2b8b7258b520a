"""Runs joined into an ensemble, if they were trained on the same data."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.imaging.data.source import Source, recorded
from truesigma.imaging.network.two_head import build
from truesigma.imaging.prediction.predict import predict_split
from truesigma.imaging.prediction.runs import dropout_in, open_runs
from truesigma.imaging.recipe import TrainingRecipe
from truesigma.imaging.training.start import train_run


class TestEnsembles:
    def test_members_join(self, runs):
        members = open_runs([runs / "0", runs / "1"], device="cpu")
        data = recorded(members[0].about).load()
        joined = predict_split([m.net for m in members], data, scaled=True)
        apart = [predict_split([m.net], data, scaled=True).draws for m in members]
        np.testing.assert_array_equal(joined.draws.mean, ts.Draws.concat(apart).mean)

    def test_members_of_other_data_are_refused(self, runs, folder, tmp_path):
        source = Source("table", str(folder), {"unit": "months", "size": 40})
        train_run(
            source, tmp_path / "other", TrainingRecipe(epochs=1, batch=8), backbone="small", device="cpu"
        )
        with pytest.raises(ValueError, match=r"cannot be one ensemble: options is"):
            open_runs([runs / "0", tmp_path / "other"], device="cpu")
        source = Source("table", str(folder), {"unit": "years"})
        train_run(
            source, tmp_path / "years", TrainingRecipe(epochs=1, batch=8), backbone="small", device="cpu"
        )
        with pytest.raises(ValueError, match="cannot be one ensemble: unit"):
            open_runs([runs / "0", tmp_path / "years"], device="cpu")
        with pytest.raises(ValueError, match="no runs"):
            open_runs([])


@pytest.mark.parametrize(
    ("backbone", "said"),
    [
        ("small", {"in backbone": [0.2]}),
        (
            "densenet201",
            {"in backbone": [0.2]},
        ),  # a function that its layers call: there is no module to find
        ("densenet201:layer_dropout=0", {"in backbone": []}),
        ("efficientnet_lite2", {"in backbone": [], "drop-path": 4 / 21}),  # 0.2, less the last step to it
        ("timm:resnet10t", {"in backbone": []}),
    ],
)
def test_cards_say_the_dropout_of_the_backbone(backbone, said):
    if backbone != "small":
        pytest.importorskip("timm")
    assert dropout_in(build(backbone, 1, 1, TrainingRecipe(), seed=0).backbone) == said
