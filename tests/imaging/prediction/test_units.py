"""Predictions in the units of the data, each output in its own."""

import numpy as np
import pytest
from hand_images import POSE, hands, network

import truesigma as ts
from truesigma.imaging import Units
from truesigma.imaging.datasets import table
from truesigma.imaging.prediction.predict import predict_split
from truesigma.recalibrate import sigma


class TestUnits:
    @pytest.mark.parametrize("variances", ["one", "each"])
    def test_each_output_has_its_own_unit(self, variances):
        net, data = network(3, variances), hands(POSE)
        scaled, posed = (predict_split(net, data, draws=5, scaled=s) for s in (True, False))
        assert posed.unit == "mm, mm, deg"
        factor = data.factor.numpy()
        np.testing.assert_allclose(
            posed.prediction.epistemic, scaled.prediction.epistemic * factor**2, rtol=1e-4
        )
        np.testing.assert_allclose(
            posed.prediction.aleatoric, scaled.prediction.aleatoric * factor**2, rtol=1e-5
        )
        np.testing.assert_allclose(posed.prediction.scale, scaled.prediction.scale * factor, rtol=1e-4)
        fitted = [sigma.fit(c.prediction, c.target) for c in (scaled, posed)]
        assert fitted[1].factor == pytest.approx(fitted[0].factor, rel=1e-5)
        assert fitted[1].standard_error == pytest.approx(fitted[0].standard_error, rel=1e-4)
        edges = [f(c.prediction).interval(0.9).upper for f, c in zip(fitted, (scaled, posed))]
        np.testing.assert_allclose(edges[1], POSE.location(edges[0]), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("base", [0.0, 2e4, -1e9])
    def test_targets_far_from_zero_keep_their_digits(self, tmp_path, base):
        values = base + np.arange(8) / 4
        rows = "".join(
            f"{k}.npy,{value!r},{split}\n"
            for k, (value, split) in enumerate(zip(values.tolist(), ["train", "valid", "test", "train"] * 2))
        )
        (tmp_path / "table.csv").write_text("image,target,split\n" + rows)
        for k in range(8):
            np.save(tmp_path / f"{k}.npy", np.random.default_rng(k).random((8, 8), dtype=np.float32))
        found = predict_split(network(), table.load(str(tmp_path)), draws=3)
        np.testing.assert_allclose(found.target[:, 0] - base, [0.5, 1.5], rtol=1e-6)
        assert found.prediction.location.dtype == (np.float32 if base == 0 else np.float64)


def test_units_take_what_a_training_loop_has():
    """Mean and standard deviation as tensors, targets that require a gradient or are whole numbers."""
    torch = pytest.importorskip("torch")
    mean, deviation = [0.25, -2.0], [3.0, 0.5]
    for kind in (np.array, torch.tensor, list):
        units = Units(["mm", "mm"], kind(mean), kind(deviation))
        assert units.location(np.ones((3, 2)))[0].tolist() == [3.25, -1.5]
        assert units.location(torch.ones(3, 2, requires_grad=True))[0].tolist() == [3.25, -1.5]
        assert units.location(torch.ones(3, 2, dtype=torch.int64))[0].tolist() == [3.25, -1.5]
        assert (
            units.prediction(ts.Prediction(np.ones((3, 2)), aleatoric=np.ones((3, 1)))).scale[0].tolist()
            == deviation
        )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("mm", [0.0], [1.0]), r"unit is 'mm'; expected one for each output, as \('mm',\)"),
        ((("mm", "mm"), [0.0], [1.0, 2.0]), "offset is .* expected a finite number for each output"),
        ((("mm",), [0.0], 1.0), "factor is 1.0 .* expected a finite number for each output"),
        ((("mm",), [0.0], [0.0]), "expected numbers above 0"),
        ((("mm",), [float("nan")], [1.0]), "offset is"),
    ],
)
def test_units_that_convert_nothing_are_refused(given, problem):
    with pytest.raises(ValueError, match=problem):
        Units(*given)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 2)])
def test_other_outputs_than_units_are_named(shape):
    with pytest.raises(ValueError, match=r"given for 3 outputs, in mm, mm, deg; expected \(\.\.\., 3\)"):
        POSE.location(np.zeros(shape))
