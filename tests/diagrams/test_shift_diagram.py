"""Shift histograms: counts by loops, scores against scikit-learn, and what is drawn."""

import numpy as np
import pytest

from truesigma import Prediction
from truesigma.diagrams import shift


def predictions(seed, factor, cases=300):
    v = np.random.default_rng(seed).gamma(4.0, factor, size=(cases, 2))
    return Prediction(0 * v, aleatoric=v, epistemic=0.5 * v)


def test_histograms_and_scores():
    roc_auc_score = pytest.importorskip("sklearn.metrics").roc_auc_score
    plain, far = predictions(0, 1.0), predictions(1, 2.0, cases=200)
    found = shift.table(plain, {"far": far}, bins=12)
    v = [p.total.mean(axis=1) for p in (plain, far)]
    for values, share in zip(v, found.share.values()):
        counts = [sum(found.edges[k] <= x < found.edges[k + 1] for x in values) for k in range(12)]
        counts[-1] += sum(np.isclose(values, found.edges[-1], rtol=1e-9) & (values >= found.edges[-1]))
        assert abs(np.array(counts) / len(values) - share).max() <= 1 / len(
            values
        )  # one value may sit on an edge
        assert share.sum() == pytest.approx(1)
    label = np.repeat([0, 1], [300, 200])
    assert found.auroc["far"] == pytest.approx(roc_auc_score(label, np.concatenate(v)), rel=1e-12)
    assert found.median["far"] == np.median(v[1])


def test_masked_outputs_do_not_count():
    v = np.array([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]])
    mask = np.array([[True, False]] * 3)
    hidden = Prediction(np.where(mask, 0.0, np.nan), aleatoric=v, mask=mask)
    assert shift.table(hidden, hidden).median["unshifted"] == 2.0


def test_the_drawing_shows_the_table():
    found = shift.table(predictions(0, 1.0), {"near": predictions(1, 1.1), "far": predictions(2, 3.0)})
    ax = shift.draw(found, unit="months")
    outlines = ax.patches[1::2]
    for stairs, share in zip(outlines, found.share.values()):
        np.testing.assert_array_equal(stairs.get_data().values, share)
        np.testing.assert_array_equal(stairs.get_data().edges, found.edges)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [
        "unshifted",
        f"near, AUROC {found.auroc['near']:.2f}",
        f"far, AUROC {found.auroc['far']:.2f}",
    ]
    assert list(found.columns) == ["low", "high", "unshifted", "near", "far"]


def test_constant_variance_can_be_drawn():
    p = Prediction([0.0, 1.0], aleatoric=[2.0, 2.0])
    found = shift.table(p, p)
    assert found.auroc["shifted"] == 0.5
    shift.draw(found).figure.canvas.draw()


def test_bad_sets():
    p = predictions(0, 1.0)
    with pytest.raises(ValueError, match="expected at least one"):
        shift.table(p, {})
    with pytest.raises(ValueError, match="none called 'unshifted'"):
        shift.table(p, {"unshifted": p})
