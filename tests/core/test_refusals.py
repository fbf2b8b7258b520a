"""What is no number, no name and no value of ours is refused by name, not by an error from deep inside."""

import numpy as np
import pytest

from truesigma import Cases, Draws, Empirical, Normal, Prediction, Tally, load_recalibration, metrics
from truesigma.recalibrate import aux, sigma

Y = np.array([1.0, 2.0, 3.0, 4.0])
P = Prediction(0 * Y, aleatoric=0 * Y + 1, epistemic=0 * Y)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: Prediction(Y, aleatoric=Y, law=Normal), "law is .*Normal.*; expected a law such as Normal"),
        (lambda: Draws.concat([1, 2]), "not Draws"),
        (lambda: Cases(P, Y, group=5), "group is 5; expected one name for each of the 4 cases"),
        (lambda: Cases(P, Y, id="abcd"), "id is 'abcd'; expected one name for each"),
        (lambda: sigma.fit(P, Y, group="abcd"), "group is 'abcd'"),
        (lambda: metrics.uce.score(P, Y, bins=True), "bins is True; expected a whole number"),
        (lambda: aux.fit(P, Y, hidden=True), "hidden is True"),
        (lambda: aux.fit(P, Y, seed=-1), "seed is -1; expected a whole number, 0 or more"),
        (lambda: aux.fit(P, Y, seed="a"), "seed is 'a'"),
        (lambda: aux.fit(P, Y, rate="fast"), "rate is 'fast'; expected a number"),
        (lambda: aux.fit(P, Y, standardise="no"), "standardise is 'no'; expected true or false"),
        (lambda: Tally.empty().merge(3), "cannot merge a tally with a int"),
        (lambda: Empirical([1.0, 2.0], unit=0.0), "unit is 0.0 and moment 2; expected those of the law"),
        (lambda: Empirical([1.0, 2.0], moment=3), "moment 3"),
        (lambda: load_recalibration("sigma"), "a stored recalibration is a str; expected what to_dict"),
        (lambda: load_recalibration([1]), "a stored recalibration is a list"),
    ],
)
def test_refused(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def test_values_have_a_short_repr():
    assert repr(Tally.empty().add(P, Y, group=list("aabb"))) == (
        "Tally(4 elements, 2 groups, outputs='separate', error='mean')"
    )
    assert repr(aux.fit(P, Y, steps=1)) == "Aux(16 hidden, part='total', outputs='separate')"
    assert repr(aux.fit(P, Y, hidden=0)) == "Aux(0 hidden, part='total', outputs='separate')"


@pytest.mark.parametrize("size", [1e160, 1e-160])
def test_weights_whose_squares_no_number_holds(size):
    y = np.arange(5.0)
    with pytest.raises(ValueError, match=r"the largest weight is 5e.*divide them by the largest"):
        sigma.fit(Prediction(y, aleatoric=y + 1), 2 * y, weight=size * (1 + y))
    weighted = [sigma.fit(Prediction(y, aleatoric=y + 1), 2 * y, weight=w * (1 + y)) for w in (1, 1e100 / 5)]
    assert weighted[0].standard_error == pytest.approx(weighted[1].standard_error, rel=1e-12)
