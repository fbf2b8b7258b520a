"""What the page says at its top: the verdict, the factor, and warnings."""

import pytest
from report_samples import make

import truesigma as ts
from truesigma.report import report
from truesigma.report.sections import headline
from truesigma.resample import Estimate


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((0.5, 0.48, 0.52), "Too sure."),
        ((0.89, 0.87, 0.91), "True."),
        ((0.885, 0.88, 0.89), "Nearly true."),
        ((0.97, 0.96, 0.98), "Not sure enough."),
        ((0.75, 0.0, 1.0), "Too few cases to tell."),
        ((0.9, None, None), "Not known."),
    ],
)
def test_verdicts(bounds, words):
    assert headline.verdict(Estimate(*bounds), 0.9) == words


def test_the_factor_has_the_interval_of_its_standard_error():
    test = make()
    fitted = ts.recalibrate.sigma.fit(make(seed=1).prediction, make(seed=1).target)
    low, high = fitted.factor - 1.96 * fitted.standard_error, fitted.factor + 1.96 * fitted.standard_error
    page = report(make(seed=1), test, replicates=20).page
    assert f"95\N{NO-BREAK SPACE}% confidence [{low:.2f},\N{NO-BREAK SPACE}{high:.2f}]; sigma was" in page


def test_infinite_intervals_are_said():
    for cases, said in ((5, True), (50, False)):
        page = report(make(seed=1)[:cases], make(), recalibrations=["conformal"], replicates=20).page
        assert ("intervals are infinite after conformal recalibration" in page) == said


def test_a_biased_location_is_said():
    plain = make()
    p = plain.prediction
    off = ts.Cases(ts.Prediction(p.location - 1.0, p.aleatoric, p.epistemic), plain.target, unit="mm")
    from truesigma.report import report

    page = report(make(seed=1), off, replicates=60).page.replace("\xa0", " ")
    assert "Predictions are too low by 1.0" in page
    assert "Predictions are too" not in report(make(seed=1), plain, replicates=60).page
