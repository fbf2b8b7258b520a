"""The joint region on the page: of two outputs, what it holds, and the cases furthest outside, on their images."""

import re

import numpy as np
import pytest

import truesigma as ts
from truesigma.page import report
from truesigma.recalibrate import region


def landmarks(cases=200, seed=0, outputs=2):
    rng = np.random.default_rng(seed)
    mu, sigma = rng.uniform(60, 140, size=(cases, outputs)), np.exp(1 + 0.3 * rng.normal(size=(cases, 1)))
    y = mu + sigma * rng.standard_t(5, size=(cases, outputs))
    y[:, 1:] += 0.8 * (y[:, :1] - mu[:, :1])
    variance = np.broadcast_to(sigma**2, mu.shape) + 0.0
    return ts.Cases(
        ts.Prediction(mu, aleatoric=variance), y, id=[f"{seed}-{k}" for k in range(cases)], unit="px"
    )


def shown(page):
    found = re.search(r'<section id="region">.*?</section>', page, re.DOTALL)
    return None if found is None else found[0]


def test_what_the_region_holds_is_said_and_drawn():
    old, new = landmarks(), landmarks(seed=1)
    page = report(old, new, replicates=50)
    fitted = region.fit(old.prediction, old.target)
    inside = fitted.contains(new.prediction, new.target)
    text = shown(page.page)
    assert f"holds both outputs of {100 * inside.mean():.1f} % of 200 test cases at once" in text.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    score = fitted.score(new.prediction, new.target)
    worst = [f"1-{k}" for k in np.argsort(-score)[:6]]
    assert re.findall(r"<figcaption>(1-\d+): outside", text) == worst
    assert text.count("<svg") == 6
    assert page.tables["region"]["case"][:6] == worst
    assert sum(page.tables["region"]["inside"]) == inside.sum()


def test_a_region_of_more_outputs_is_said_where_it_is_asked_for():
    old, new = landmarks(outputs=3), landmarks(seed=1, outputs=3)
    found = report(old, new, recalibrations=["region:shape=box"], replicates=20)
    inside = region.fit(old.prediction, old.target, shape="box").contains(new.prediction, new.target)
    text = shown(found.page).replace("\N{NO-BREAK SPACE}", " ")
    assert f"holds all 3 outputs of {100 * inside.mean():.1f} % of 200 test cases at once" in text
    assert "<svg" not in text
    assert sum(found.tables["region"]["inside"]) == inside.sum()
    # A region leaves sigma as it is: what is said of sigma is what was said before.
    said = {
        name: [row["words"] for row in found.questions if row["recalibration"] == name]
        for name in ("none", "region:shape=box")
    }
    assert said["none"] == said["region:shape=box"]


def test_on_images_whose_pixels_the_outputs_are(tmp_path):
    image = pytest.importorskip("PIL.Image")
    old, new = landmarks(), landmarks(seed=1)
    for name in new.id:
        image.fromarray(np.zeros((180, 220), np.uint8)).save(tmp_path / f"{name}.png")
    text = shown(report(old, new, replicates=50, images=tmp_path).page)
    assert text.count("<image") == text.count('viewBox="0 0 220 180"') > 0
