"""Single cases: the points of the scatter and the worst ones."""

import numpy as np
import pytest
from report_samples import make, subject_of

import truesigma as ts
from truesigma.page.sections import scatter, worst


def test_points_are_drawn_evenly_and_named():
    test = make(cases=4000, groups=("a", "b"))
    found = scatter.table(subject_of(test))
    assert len(found["case"]) == scatter.SHOWN == len(set(found["case"]))
    index = [int(name[1:]) for name in found["case"]]
    np.testing.assert_array_equal(found["target"], test.target[index])
    np.testing.assert_allclose(found["sigma none"], test.prediction.scale[index])
    assert found["group"] == test.group[index].tolist()
    assert np.mean(np.array(index) < 2000) == pytest.approx(0.5, abs=0.05)


def test_worst_cases():
    test = make(outputs=2)
    subject = subject_of(test)
    lists = worst.worst(subject)
    p = subject.after.prediction
    ratio = abs(test.target - p.location) / p.scale
    assert lists["surprise"][0]["ratio"] == pytest.approx(ratio.max())
    case, output = np.unravel_index(ratio.argmax(), ratio.shape)
    assert (lists["surprise"][0]["case"], lists["surprise"][0]["output"]) == (f"t{case}", f"output {output}")
    sizes = [abs(row["error"]) for row in lists["error"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == pytest.approx(abs(test.target - p.location).max())
    assert len({row["case"] for row in lists["error"]}) == worst.SHOWN


def test_masked_values_are_never_shown():
    plain = make(outputs=2)
    mask = np.random.default_rng(0).uniform(size=(300, 2)) > 0.5
    p = plain.prediction
    target = np.where(mask, plain.target, np.nan)
    test = ts.Cases(
        ts.Prediction(p.location, aleatoric=p.aleatoric, epistemic=p.epistemic, mask=mask),
        target,
        id=plain.id,
    )
    subject = subject_of(test)
    assert np.isfinite(scatter.table(subject)["target"]).all()
    for rows in worst.worst(subject).values():
        assert np.isfinite([row["error"] for row in rows]).all()
