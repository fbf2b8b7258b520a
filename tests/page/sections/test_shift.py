"""A shifted set against the detection of shift."""

import numpy as np
import pytest
from report_samples import make, subject_of

from truesigma.core.ranking import auroc
from truesigma.page.sections import shift


def test_shift_numbers():
    subject = subject_of(make(), shifted=make(seed=5, factor=0.9).prediction)
    found = shift.table(subject)
    moved = subject.cards["sigma"](make(seed=5, factor=0.9).prediction)
    variances = subject.after.prediction.variance, moved.variance
    assert found.auroc.value == pytest.approx(auroc(*variances))
    rng = np.random.default_rng(0)
    drawn = [auroc(*(rng.choice(v, v.size) for v in variances)) for _ in range(400)]
    assert (found.auroc.high - found.auroc.low) / 2 == pytest.approx(1.96 * np.std(drawn), rel=0.12)
    assert found.coverage is None
    assert "AUROC" in shift.section(subject).html
    with_targets = shift.table(subject_of(make(), shifted=make(seed=5, factor=0.9)))
    assert with_targets.coverage.value > 0.95
