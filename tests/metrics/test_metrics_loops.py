"""Every score against its slow loop, on inputs that hypothesis makes."""

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from samples import samples

from truesigma import Undefined, metrics

PLAIN = ["mse", "rmse", "mae", "crps", "sharpness", "miscalibration_area"]


@given(samples(), st.sampled_from(PLAIN))
def test_plain_scores(sample, name):
    found = getattr(metrics, name).score(sample.prediction(), sample.target, weight=sample.weight)
    assert found == pytest.approx(reference.score(name, sample.cases, sample.law), rel=1e-9, abs=1e-12)


@given(samples(), st.sampled_from(["coverage", "width", "winkler"]), st.floats(0.05, 0.99))
def test_scores_of_intervals(sample, name, level):
    found = getattr(metrics, name).score(
        sample.prediction(), sample.target, weight=sample.weight, level=level
    )
    assert found == pytest.approx(reference.score(name, sample.cases, sample.law, level=level), rel=1e-9)


@given(samples(), st.sampled_from(["separate", "mean"]), st.sampled_from(["nats", "table"]))
def test_nll(sample, outputs, units):
    if units == "table" and sample.law == "laplace":
        with pytest.raises(Undefined, match="table"):
            metrics.nll.score(sample.prediction(), sample.target, units=units)
        return
    found = metrics.nll.score(
        sample.prediction(), sample.target, weight=sample.weight, outputs=outputs, units=units
    )
    expected = reference.score("nll", sample.cases, sample.law, outputs=outputs, units=units)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    samples(), st.sampled_from(["separate", "mean"]), st.sampled_from(["mean", "draws"]), st.integers(1, 20)
)
def test_uce(sample, outputs, error, bins):
    found = metrics.uce.score(
        sample.prediction(), sample.target, weight=sample.weight, outputs=outputs, error=error, bins=bins
    )
    expected = reference.score("uce", sample.cases, sample.law, outputs=outputs, error=error, bins=bins)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(
    samples(weights=False),
    st.sampled_from(["separate", "mean"]),
    st.sampled_from(["mean", "draws"]),
    st.sampled_from(["width", "mass"]),
    st.integers(1, 20),
)
def test_ence_and_uce_in_both_spacings(sample, outputs, error, spacing, bins):
    options = {"outputs": outputs, "error": error, "spacing": spacing, "bins": bins}
    for name in ("ence", "uce"):
        found = getattr(metrics, name).score(sample.prediction(), sample.target, **options)
        expected = reference.score(name, sample.cases, sample.law, **options)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(samples(least=2, masks=False, weights=False), st.sampled_from(["separate", "mean"]))
def test_uce_with_left_open_bins_is_the_published_function(sample, outputs):
    """The smallest variance falls in no bin, and m still counts it."""
    pooled = reference.pool(sample.cases, outputs, "draws")
    errors, variances = [p.e for p in pooled], [p.v for p in pooled]
    options = {"outputs": outputs, "error": "draws", "closed": False}
    if len(set(variances)) == 1:
        with pytest.raises(Undefined, match="no case is in one"):
            metrics.uce.score(sample.prediction(), sample.target, **options)
        return
    found = metrics.uce.score(sample.prediction(), sample.target, **options)
    assert found == pytest.approx(reference.published_uce(errors, variances), rel=1e-9, abs=1e-15)
