"""Tallies of samples, and how two of them are compared."""

import pytest
from samples import Sample

from truesigma import Tally


def tally_of(sample: Sample, start: Tally | None = None, **settings) -> Tally:
    return (start or Tally.empty(**settings)).add(sample.prediction(), sample.target, weight=sample.weight)


def plain(summary: dict) -> dict[str, float]:
    """The summary with one level of keys."""
    found = {}
    for name, value in summary.items():
        found.update(
            {f"{name} {k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
        )
    return found


def assert_equal(left: Tally, right: Tally, rel: float = 1e-10) -> None:
    found, expected = plain(left.summary()), plain(right.summary())
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=rel, abs=1e-13), name
