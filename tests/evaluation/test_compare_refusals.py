"""The comparison of recalibrations: what it refuses, and how."""

import numpy as np
import pytest
from select_cases import make

import truesigma as ts
from truesigma.core.values import changed
from truesigma.evaluation.compare import compare

BAD = {
    "coverage": (
        dict(metric="coverage"),
        "coverage is not a proper score.*Expected crps, nll, quantile_score",
    ),
    "uce": (dict(metric="uce"), "uce is not a proper score"),
    "mse": (dict(metric="mse"), "mse is not a proper score"),
    "unknown metric": (dict(metric="elpd"), "no metrics plug-in is called 'elpd'"),
    "unknown recalibration": (dict(recalibrations=["magic"]), "no recalibrate plug-in is called 'magic'"),
    "one fold": (dict(folds=1), "folds is 1; expected a whole number, 2 or more"),
    "no number": (dict(folds=2.5), "folds is 2.5"),
    "more folds than cases": (dict(folds=60), "60 folds need 60 cases or more, 50 given.*folds=50"),
    "seed": (dict(seed=-1), "seed is -1"),
    "replicates": (dict(replicates=1), "replicates is 1"),
    "level": (dict(level=95), "level is 95"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        compare(make(50), **{"recalibrations": ["sigma"], **options})


def test_too_little_to_compare():
    with pytest.raises(ValueError, match=r"10 folds need 10 cases or more, 1 given.*give more"):
        compare(make(1))
    few = changed(make(50), patient=np.arange(50) % 4)
    with pytest.raises(ValueError, match=r"10 folds need 10 patients or more, 4 given.*folds=4"):
        compare(few)
    assert compare(few, recalibrations=["sigma"], folds=4).plan["units"] == 4
    with pytest.raises(ValueError, match="cases holds a Prediction"):
        compare(few.prediction)
    with pytest.raises(ValueError, match="one calibration case cannot show"):
        compare(make(2), recalibrations=["sigma"], folds=2)
    with pytest.raises(ts.Undefined, match="needs the aleatoric/epistemic split"):
        compare(
            ts.Cases(ts.Prediction(np.zeros(20), aleatoric=np.ones(20)), np.ones(20)),
            recalibrations=["sigma:part=aleatoric"],
        )
    empirical = make(30, law=ts.Empirical([-1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="these predictions have no nll: an empirical law has no density"):
        compare(empirical, recalibrations=["sigma"], metric="nll")
