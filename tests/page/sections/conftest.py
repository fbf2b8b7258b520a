"""Subjects of a report: plain, weighted, with several outputs, with patients."""

import numpy as np
import pytest
from report_samples import make, subject_of


@pytest.fixture(params=["plain", "weighted", "outputs", "patients"])
def subject(request):
    rng = np.random.default_rng(0)
    tests = {
        "plain": lambda: make(),
        "weighted": lambda: make(weight=np.where(rng.uniform(size=300) < 0.1, 0, rng.uniform(0.2, 2, 300))),
        "outputs": lambda: make(outputs=3),
        "patients": lambda: make(groups=tuple(f"p{k}" for k in range(40))),
    }
    return subject_of(tests[request.param]())
