"""Rejection by threshold and by share against loops, and what is drawn."""

import numpy as np
import pytest

from truesigma import Laplace, Prediction
from truesigma.diagrams import rejection
from truesigma.metrics import ause


@pytest.mark.parametrize("by", ["case", "element"])
def test_thresholds_equal_a_slow_loop(simulated, by):
    (p,), y = simulated(cases=80)
    found = rejection.table(p, y, by=by)
    e, v = (p.location - y) ** 2, p.total
    e, v = (e.mean(1), v.mean(1)) if by == "case" else (e.ravel(), v.ravel())
    assert found.threshold[0] == v.max()
    assert found.threshold[-1] == v.min()
    assert len(found.threshold) == 100
    for threshold, rejected, mse in zip(found.threshold, found.rejected, found.mse):
        kept = [err for err, var in zip(e, v) if var <= threshold]
        assert rejected == pytest.approx(1 - len(kept) / len(e), abs=1e-12)
        assert mse == pytest.approx(sum(kept) / len(kept), rel=1e-10)


def test_shares_equal_removing_one_by_one(simulated):
    (p,), y = simulated(cases=100, outputs=1)
    found = rejection.table(p, y)
    e, v = ((p.location - y) ** 2).ravel(), p.total.ravel()
    for k in range(100):  # 100 cases and 100 shares: each share removes whole cases
        for curve, key in ((found.by_variance, v), (found.oracle, e)):
            kept = np.argsort(key)[: 100 - k]
            assert curve[k] == pytest.approx(e[kept].mean(), rel=1e-9)
    assert found.random == pytest.approx(np.full(100, e.mean()))
    assert found.ause == pytest.approx(ause.score(p, y), rel=1e-12)
    assert (found.oracle <= found.by_variance + 1e-12).all()


def test_a_laplace_threshold_is_a_variance():
    p = Prediction([0.0, 0.0], aleatoric=[2.0, 8.0], law=Laplace())
    assert rejection.table(p, [1.0, 1.0]).threshold[0] == 8.0


def test_weight_two_equals_the_case_twice(simulated):
    (p,), y = simulated(cases=30)
    weight = np.ones(30)
    weight[:10] = 2
    index = np.concatenate([np.arange(30), np.arange(10)])
    left, right = rejection.table(p, y, weight=weight), rejection.table(p[index], y[index])
    for name in ("rejected", "mse", "by_variance", "oracle"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-9, atol=1e-12)
    assert left.ause == pytest.approx(right.ause)


@pytest.mark.parametrize("over", ["share", "threshold"])
def test_the_drawing_shows_the_tables(simulated, over):
    (p,), y = simulated()
    found = rejection.table(p, y)
    ax = rejection.draw({"none": found, "other": found}, over=over, unit="mm")
    x, height = (found.share, found.by_variance) if over == "share" else (found.threshold, found.mse)
    for line in ax.lines[:2]:
        np.testing.assert_array_equal(line.get_xdata(), x)
        np.testing.assert_array_equal(line.get_ydata(), height)
    if over == "share":
        np.testing.assert_array_equal(ax.lines[3].get_ydata(), found.oracle)
    assert "mm²" in ax.get_ylabel()


@pytest.mark.parametrize("over", ["share", "threshold"])
def test_degenerate_sets_can_be_drawn(over):
    one = rejection.table(Prediction([0.0], aleatoric=[1.0]), [2.0])
    right = rejection.table(Prediction([1.0, 2.0], aleatoric=[1.0, 1.0]), [1.0, 2.0])
    assert right.ause is None
    assert one.columns["rejected"] == [0.0] * 100
    for found in (one, right):
        rejection.draw(found, over=over).figure.canvas.draw()


def test_unknown_axis(simulated):
    with pytest.raises(ValueError, match="over is 'time'"):
        rejection.draw(rejection.table(Prediction([0.0], aleatoric=[1.0]), [2.0]), over="time")


@pytest.mark.parametrize("sign", [1, -1])
def test_the_legend_hides_no_curve(sign):
    """A sigma that knows the hard cases lets the error fall; one that has it the wrong way round lets it rise."""
    sigma = np.linspace(0.2, 3, 200)
    found = rejection.table(
        Prediction(np.zeros(200), aleatoric=sigma**2), sigma[::sign] * np.tile([1.0, -1.0], 100)
    )
    ax = rejection.draw(found)
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    for line in ax.lines:
        assert not any(box.contains(*point) for point in ax.transData.transform(line.get_xydata()))
