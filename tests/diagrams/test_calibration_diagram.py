"""The calibration diagram against slow loops, and the drawn lines against the table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truesigma import Cases, Prediction
from truesigma.diagrams import _style, calibration
from truesigma.metrics import uce


def slow_bins(v, e, w, edges, case=None):
    """Count, mean variance, mean error and its standard error by case of each bin, one element at a time."""
    last = len(edges) - 2
    held = [[] for _ in range(last + 1)]
    for one in zip(v, e, w, range(len(v)) if case is None else case):
        k = last
        for j in range(last):
            if one[0] < edges[j + 1]:
                k = j
                break
        held[k].append(one)
    rows = []
    for bin in held:
        total = sum(w for _, _, w, _ in bin)
        if total == 0:
            rows.append((0.0, np.nan, np.nan, np.nan))
            continue
        mean_v, mean_e = (sum(x[k] * x[2] for x in bin) / total for k in (0, 1))
        cases = {x[3] for x in bin}
        off = sum(sum(w * (e - mean_e) for _, e, w, c in bin if c == one) ** 2 for one in cases)
        several = len(cases) > 1
        error = np.sqrt(len(cases) / (len(cases) - 1) * off) / total if several else np.nan
        rows.append((total, mean_v, mean_e, error))
    return np.array(rows).T


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cases=st.integers(2, 60),
    bins=st.integers(1, 20),
    spacing=st.sampled_from(["width", "mass"]),
    error=st.sampled_from(["mean", "draws"]),
    outputs=st.sampled_from(["separate", "mean"]),
    weighted=st.booleans(),
)
def test_bins_equal_a_slow_loop(seed, cases, bins, spacing, error, outputs, weighted):
    rng = np.random.default_rng(seed)
    mu, y = rng.normal(10, 3, (2, cases, 2))
    a, e = rng.gamma(2.0, 1.0, (2, cases, 2))
    w = rng.uniform(0.5, 2, cases) if weighted else None
    p = Prediction(mu, aleatoric=a, epistemic=e)
    found = calibration.table(p, y, weight=w, error=error, outputs=outputs, bins=bins, spacing=spacing)
    v, err = a + e, (mu - y) ** 2 + (e if error == "draws" else 0)
    wide = np.repeat(np.ones(cases) if w is None else w, 2).reshape(cases, 2)
    if outputs == "mean":
        v, err = (x.mean(1) for x in (v, err))
        wide = wide[:, 0]
    # An edge may be one of the values, which belongs above it, whatever its last digit in another order of adding up.
    below = found.edges * (1 - 1e-14)
    case = np.repeat(np.arange(cases), v.size // cases)
    count, variance, observed, deviation = slow_bins(v.ravel(), err.ravel(), wide.ravel(), below, case)
    np.testing.assert_allclose(found.count, count, rtol=1e-12)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-12)
    np.testing.assert_allclose(found.error, observed, rtol=1e-12)
    np.testing.assert_allclose(found.deviation, deviation, rtol=1e-5, atol=1e-7)
    assert found.uce == uce.score(p, y, weight=w, error=error, outputs=outputs, bins=bins, spacing=spacing)
    # For one run the bins drawn are the bins scored: the UCE follows from the table.
    filled = found.count > 0
    gap = abs(found.error - found.variance)[filled]
    np.testing.assert_allclose((found.count[filled] * gap).sum() / found.count.sum(), found.uce, rtol=1e-10)


def test_repeats_share_their_bins(simulated):
    runs, y = simulated(repeats=3)
    found = calibration.table([Cases(one, y) for one in runs])
    variances = np.stack([p.total for p in runs])
    assert found.edges[0] == variances.min()
    assert found.edges[-1] == variances.max()
    single = [
        slow_bins(p.total.ravel(), ((p.location - y) ** 2).ravel(), np.ones(y.size), found.edges)
        for p in runs
    ]
    errors = np.stack([s[2] for s in single])
    np.testing.assert_allclose(found.error, np.nanmean(errors, axis=0), rtol=1e-12)
    both = np.isfinite(errors).sum(axis=0) > 1
    np.testing.assert_allclose(found.deviation[both], np.nanstd(errors[:, both], axis=0, ddof=1), rtol=1e-9)
    scores = [uce.score(p, y) for p in runs]
    assert found.uce == pytest.approx(np.mean(scores), rel=1e-12)
    assert found.uce_deviation == pytest.approx(np.std(scores, ddof=1), rel=1e-12)
    assert found.count.sum() == pytest.approx(y.size)


def test_the_band_of_outputs_that_err_together_covers_the_diagonal():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(40):
        v = np.broadcast_to(rng.gamma(6, 0.25, (500, 1)), (500, 6))
        y = np.sqrt(v) * (np.sqrt(0.7) * rng.normal(size=(500, 1)) + np.sqrt(0.3) * rng.normal(size=(500, 6)))
        found = calibration.table(Prediction(0 * y, aleatoric=v), y, bins=5, spacing="mass")
        covered.append(abs(found.error - found.variance) < 1.96 * found.deviation)
    assert 0.88 < np.mean(covered) < 0.98  # 0.7 where each output counts as a case


@pytest.mark.parametrize("log", [False, True])
def test_the_drawing_shows_the_table(simulated, log):
    runs, y = simulated(cases=2000, repeats=2)
    found = calibration.table([Cases(one, y) for one in runs], spacing="mass" if log else "width")
    ax = calibration.draw(found, unit="mm", title="none", log=log)
    diagonal, line, few = ax.lines
    solid = found.count >= calibration.TRUST
    np.testing.assert_array_equal(line.get_xdata(), found.variance[solid])
    np.testing.assert_array_equal(line.get_ydata(), found.error[solid])
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert set(few.get_ydata()) <= set(found.error[~solid])
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx((found.error + found.deviation)[solid].max())
    heights = [bar.get_height() for bar in ax.child_axes[0].patches]
    np.testing.assert_allclose(np.square(heights), found.count)
    assert ax.get_title().startswith("none\nUCE")
    assert "mm²" in ax.get_xlabel()
    assert ax.get_ylim()[1] > found.error[solid].max()


def test_a_row_of_panels_uses_the_look_of_each_name(simulated, tmp_path):
    (p,), y = simulated()
    tables = {"none": calibration.table(p, y), "sigma": calibration.table(p, y)}
    axes = calibration.draw_row(tables)
    assert [ax.lines[1].get_color() for ax in axes] == [_style.RED, _style.BLUE]
    assert axes[0].figure.get_figwidth() == pytest.approx(170 / 25.4)
    paths = _style.save(axes[0].figure, tmp_path / "deep" / "row")
    assert [path.suffix for path in paths] == [".pdf", ".png"]
    assert paths[0].read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in paths[0].parent.iterdir()) == ["row.pdf", "row.png"]
    before = [path.read_bytes() for path in paths]
    _style.save(calibration.draw_row(tables)[0].figure, paths[1])
    assert [path.read_bytes() for path in paths] == before


def test_constant_variance_is_one_bin_and_can_be_drawn():
    y = np.random.default_rng(0).normal(size=50)
    found = calibration.table(Prediction(0 * y, aleatoric=0 * y + 2.0), y)
    assert found.count.tolist() == [50]
    assert found.error[0] == pytest.approx(np.mean(y**2))
    calibration.draw(found).figure.canvas.draw()


def test_crowded_bins_say_what_to_do():
    """One variance of 1000 beside 99 around 1: with bins of equal width there is a single point to see."""
    rng = np.random.default_rng(0)
    one = Prediction(np.zeros(100), aleatoric=np.append(rng.uniform(0.5, 1.5, 99), 1000.0))
    target = rng.normal(size=100)
    with pytest.warns(UserWarning, match=r'99.0% of the elements are in one of 15 bins.*spacing="mass"'):
        assert calibration.table(one, target).crowded
    assert not calibration.table(one, target, spacing="mass").crowded


def test_one_case_can_be_drawn():
    found = calibration.table(Prediction([1.0], aleatoric=[2.0]), [4.0])
    assert found.columns == {
        "low": [2.0], "high": [2.0], "count": [1.0], "variance": [2.0], "error": [9.0], "deviation": [None],
    }  # fmt: skip
    calibration.draw(found).figure.canvas.draw()


def test_bad_input_says_what_to_do(simulated):
    (p,), y = simulated()
    with pytest.raises(ValueError, match="give it alone"):
        calibration.table([Cases(p, y)], y)
    for many in ([], [p]):
        with pytest.raises(ValueError, match="or a list of Cases"):
            calibration.table(many)
    with pytest.raises(ValueError, match="error is 'rmse'"):
        calibration.table(p, y, error="rmse")
    with pytest.raises(ValueError, match="no element is left"):
        calibration.table(p, y, weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="error='mean'"):
        calibration.table(Prediction(p.location, aleatoric=p.total), y, error="draws")
    with pytest.raises(ValueError, match=r"expected \.pdf or \.png"):
        _style.save(calibration.draw(calibration.table(p, y)).figure, "figure.jpg")


def test_settings_of_the_caller_stay(simulated):
    import matplotlib as mpl

    (p,), y = simulated()
    before = dict(mpl.rcParams)
    calibration.draw(calibration.table(p, y)).figure.canvas.draw()
    assert dict(mpl.rcParams) == before


def test_weights_of_any_size_count_elements(simulated):
    """Weights that add up to one are not one case: n, and what is believed, are of elements."""
    (p,), y = simulated(cases=400)
    w = np.random.default_rng(0).uniform(0, 2, y.shape[0])
    w[:40] = 0
    w /= w.sum()
    found, plain = calibration.table(p, y, weight=w), calibration.table(p[40:], y[40:])
    assert found.size.sum() == plain.count.sum()
    assert found.count.sum() == pytest.approx(y[0].size)
    np.testing.assert_array_equal(plain.size, plain.count)
    ax = calibration.draw(found)
    assert ax.child_axes[0].texts[0].get_text().startswith(f"n = {y[40:].size:,}")
    solid = found.size >= calibration.TRUST
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), found.error[solid])
    assert not solid.all()
