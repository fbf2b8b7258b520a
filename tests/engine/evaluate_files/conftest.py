"""Chunks so small that every file has several."""

import pytest

from truesigma.files.chunks import chunks_of


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(
        "truesigma.evaluation.passes.chunks_of", lambda *a, **k: chunks_of(*a, elements=100, **k)
    )
