"""AUROC, AUPR and FPR95 against scikit-learn and against loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truesigma.evaluation import detection

sklearn_metrics = pytest.importorskip("sklearn.metrics")


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), unshifted=st.integers(1, 40), shifted=st.integers(1, 40), ties=st.booleans()
)
def test_equals_scikit_learn(seed, unshifted, shifted, ties):
    rng = np.random.default_rng(seed)
    low, high = rng.gamma(2.0, 1.0, unshifted), rng.gamma(3.0, 1.0, shifted)
    if ties:
        low, high = np.round(low), np.round(high)
    label, value = np.repeat([0, 1], [unshifted, shifted]), np.concatenate([low, high])
    assert detection.auroc(low, high) == pytest.approx(sklearn_metrics.roc_auc_score(label, value), rel=1e-12)
    expected = sklearn_metrics.average_precision_score(label, value)
    assert detection.aupr(low, high) == pytest.approx(expected, rel=1e-12)
    alarms, hits, _ = sklearn_metrics.roc_curve(label, value, drop_intermediate=False)
    assert detection.fpr95(low, high) == pytest.approx(alarms[np.argmax(hits >= 0.95)])


def test_what_cannot_and_what_can_be_told_apart():
    same = np.ones(10)
    assert detection.auroc(same, same) == 0.5
    assert detection.aupr(same, same) == 0.5
    assert detection.fpr95(same, same) == 1.0
    assert detection.auroc(same, same + 1) == detection.aupr(same, same + 1) == 1.0
    assert detection.fpr95(same, same + 1) == 0.0


def test_bad_input():
    with pytest.raises(ValueError, match="shifted holds 0"):
        detection.auroc([1.0], [])
    with pytest.raises(ValueError, match="unshifted holds 1 uncertainties, or some not finite"):
        detection.aupr([np.nan], [1.0])
    with pytest.raises(ValueError, match="recall is 95"):
        detection.fpr95([1.0], [1.0], recall=95)
