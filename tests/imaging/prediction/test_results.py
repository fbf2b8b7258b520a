"""Cards applied to predictions, and the tables that are written."""

from pathlib import Path

import numpy as np
import pytest
from hand_images import MONTHS, POSE

import truesigma as ts
from truesigma.evaluation.card import calibrate
from truesigma.imaging.prediction.write import names_of, needs_draws, recalibrated, write_predictions


class TestCards:
    @pytest.fixture
    def scaled(self):
        rng = np.random.default_rng(1)
        v = rng.gamma(3.0, 0.003, (300, 3))
        y = rng.uniform(size=(300, 3))
        return ts.Cases(
            ts.Prediction(y + 2 * np.sqrt(v) * rng.normal(size=v.shape), aleatoric=v, epistemic=0.1 * v),
            y,
            unit="scaled",
        )

    @pytest.mark.parametrize("choice", ["sigma", "aux", "conformal"])
    def test_a_card_is_applied_where_it_was_fitted(self, scaled, choice):
        posed = ts.Cases(POSE.prediction(scaled.prediction), POSE.location(scaled.target), unit=POSE.text)
        by_scaled, by_unit = (calibrate(c, choice) for c in (scaled, posed))
        one = recalibrated(by_scaled, scaled.prediction, POSE)
        np.testing.assert_allclose(one.scale, POSE.prediction(by_scaled(scaled.prediction)).scale)
        two = recalibrated(by_unit, scaled.prediction, POSE)
        np.testing.assert_allclose(two.scale, by_unit(posed.prediction).scale)
        if choice == "sigma":
            np.testing.assert_allclose(one.scale, two.scale, rtol=1e-6)

    def test_other_units(self, scaled):
        card = calibrate(ts.Cases(scaled.prediction, scaled.target, unit="months"))
        with pytest.raises(ValueError, match="fitted on predictions in months, this network predicts in mm"):
            recalibrated(card, scaled.prediction, POSE)
        bare = calibrate(ts.Cases(scaled.prediction, scaled.target))
        with pytest.warns(UserWarning, match="does not say its unit"):
            recalibrated(bare, scaled.prediction, POSE)

    def test_recipes_that_take_draws_apart_differently_get_the_draws(self, scaled):
        assert not needs_draws(calibrate(scaled))
        assert not needs_draws(calibrate(scaled, recipe="paper"))
        assert needs_draws(calibrate(scaled, recipe="code"))

    @pytest.mark.parametrize("choice", ["none", "conformal"])
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
    def test_tables_of_new_images(self, scaled, choice, suffix, tmp_path):
        made = recalibrated(calibrate(scaled, choice), scaled.prediction, POSE)
        files = [Path(f"{k}.png") for k in range(300)]
        out = tmp_path / f"new.{suffix}"
        write_predictions(names_of(files), made, POSE, [0.5, 0.9], out)
        if suffix == "npz":
            with np.load(out) as kept:
                columns = {name: kept[name] for name in kept}
            upper = columns["upper_90"][:, 2]
        else:
            import pandas as pd

            frame = getattr(pd, f"read_{suffix}")(out)
            assert {"id", "location_0", "scale_1", "aleatoric_2", "epistemic_0", "lower_50_2"} <= set(frame)
            upper = frame["upper_90_2"]
            assert frame["id"][3] == "3.png"
        np.testing.assert_allclose(upper, made.interval(0.9).upper[:, 2], rtol=1e-6)
        if not (choice == "conformal" and suffix == "csv"):  # a .csv holds no table of a law
            again = ts.read_prediction(out)
            np.testing.assert_allclose(again.scale, made.scale, rtol=1e-6)

    def test_one_output_has_plain_columns_and_short_numbers(self, tmp_path):
        p = ts.Prediction(
            np.float32([[0.1], [0.2]]),
            aleatoric=np.float32([[0.04], [0.09]]),
            epistemic=np.float32([[0.0], [0.0]]),
        )
        write_predictions(
            names_of([Path("a/x.png"), Path("b/x.png")]), p, MONTHS, [0.9], tmp_path / "new.csv"
        )
        head, first, _ = (tmp_path / "new.csv").read_text().splitlines()
        assert head == "id,location,scale,aleatoric,epistemic,unit,lower_90,upper_90"
        assert first.startswith("a/x.png,0.1,0.2,0.04,0.0,months,-0.2289707")
