"""The ablation is a calibration diagram for each number of hidden units of aux scaling."""

import numpy as np

from paper.drawing import ablation_diagram as ablation
from truesigma import Cases, Prediction
from truesigma.diagrams import calibration
from truesigma.recalibrate import aux


def test_each_panel_is_the_diagram_of_that_network():
    rng = np.random.default_rng(0)
    v = rng.gamma(3.0, 0.5, size=(150, 2))
    y = 5 + rng.normal(size=v.shape) * 2 * np.sqrt(v)
    p, q = (
        Prediction(5 + 0.1 * rng.normal(size=v.shape), aleatoric=0.7 * v, epistemic=0.3 * v) for _ in range(2)
    )
    found = ablation.table(Cases(p, y), [Cases(p, y), Cases(q, y)], hidden=(1, 3), seed=2)
    for count, one in zip(found.hidden, found.tables):
        fitted = aux.fit(p, y, hidden=count, seed=2)
        expected = calibration.table([fitted(p), fitted(q)], y)
        np.testing.assert_array_equal(one.error, expected.error)
        assert one.uce == expected.uce
    assert found.columns["hidden"] == [1] * 15 + [3] * 15
    axes = ablation.draw(found)
    assert [ax.get_title().split("\n")[0] for ax in axes.ravel()] == ["1 hidden unit", "3 hidden units"]
    solid = found.tables[1].count >= calibration.TRUST
    np.testing.assert_array_equal(axes.ravel()[1].lines[1].get_ydata(), found.tables[1].error[solid])
