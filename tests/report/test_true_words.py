"""Sentences of the page and rows of the JSON, on situations whose truth is known and on real predictions: all true."""

import html
import math
import re

import numpy as np
import pytest

import truesigma as ts
from truesigma.evaluation.questions import QUESTIONS
from truesigma.evaluation.verdicts import whole
from truesigma.report import report


def draw(seed, cases=2000, outputs=0, law="normal"):
    """Location, sigma and target of a model that is true."""
    rng = np.random.default_rng(seed)
    shape = (cases, outputs) if outputs else (cases,)
    mu, sigma = 4 * rng.normal(size=shape), np.exp(0.4 * rng.normal(size=shape))
    z = rng.normal(size=shape) if law == "normal" else rng.standard_t(5, size=shape) * math.sqrt(0.6)
    return mu, sigma, mu + sigma * z


def cases(mu, sigma, y, **more):
    return ts.Cases(ts.Prediction(mu, sigma**2), y, unit="mm", **more)


def both(change, outputs=0, law="normal", size=2000):
    """Calibration and test cases with the same fault."""
    return [cases(*change(*draw(seed, size, outputs, law))) for seed in (1, 3)]


def sites():
    calibration, (mu, sigma, y) = draw(1), draw(3)
    site = np.where(np.arange(2000) % 2 == 0, "Basel", "Porto")
    return cases(*calibration), cases(mu, np.where(site == "Porto", sigma / 1.6, sigma), y, group=site)


def frames():
    made = []
    for seed in (1, 2):
        mu, sigma, _ = draw(seed)
        common = np.repeat(np.random.default_rng(seed).normal(size=80), 25)
        made.append(cases(mu, sigma, mu + sigma * common))
    return made


def codes():
    calibration, (mu, sigma, y) = draw(1), draw(3)
    y[::125] = -999
    return cases(*calibration), cases(mu, sigma, y)


def differ():
    mu, sigma, y = draw(3)
    return cases(*draw(1)), cases(mu, sigma / 1.5, y)


# What is off before, what is off after sigma scaling, and words that the first screen must hold.
SITUATIONS = {
    "true": (lambda: both(lambda m, s, y: (m, s, y)), set(), set(), ["Sigma is the right size"]),
    "too sure": (
        lambda: both(lambda m, s, y: (m, s / 2, y)), {"size"}, set(), ["times too small", "the right size"]
    ),
    "biased per output": (
        lambda: both(lambda m, s, y: (m + np.array([0.5, -0.5]), s, y), outputs=2), {"centre"}, {"centre"},
        ["output 0: predictions are too high by", "output 1: predictions are too low by", "are biased"],
    ),
    "wrong law": (
        lambda: both(lambda m, s, y: (m, s, y), law="t5"), {"shape"}, {"shape"}, ["heavier tails than the Normal law"]
    ),
    "blind sigma": (
        lambda: both(lambda m, s, y: (m, np.roll(s, 7), y)), {"knowing"}, {"knowing"},
        ["sigma does not follow the errors"],
    ),
    "wrong-way sigma": (
        lambda: both(lambda m, s, y: (m, 1 / s, y)), {"knowing"}, {"knowing"}, ["sigma ranks the cases the wrong way"]
    ),
    "collapsed mean": (
        lambda: both(lambda m, s, y: (0 * m + 0.02 * np.roll(m, 3), 0 * s + y.std(), y)), {"skill"}, {"skill"},
        ["No better than a constant."],
    ),
    "two sites": (sites, {"size"}, {"size"}, ["Porto (size"]),
    "calibration differs": (differ, {"size"}, {"size"}, ["calibration and test disagree: they ask for"]),
    "correlated rows": (frames, set(), set(), ["hit or miss together", "name it in a column"]),
    "codes as values": (codes, {"size"}, {"size"}, ["16 of 2000 test targets are -999", "--missing -999"]),
    "few cases": (
        lambda: both(lambda m, s, y: (m, s, y), size=12), set(), set(), ["no sign that sigma is the wrong size"]
    ),
}  # fmt: skip
# What a fault brings with it: a bias of half a sigma is errors that are too large, most where sigma is small.
ALSO = {
    "biased per output": {"size", "knowing"},
    "blind sigma": {"size", "shape"},
    "wrong-way sigma": {"size", "shape"},
    "collapsed mean": {"shape", "knowing", "size"},
    "two sites": {"shape", "knowing"},
    "correlated rows": {"centre", "size", "knowing", "shape"},
    "codes as values": {"skill", "centre", "shape", "knowing"},
}
REMEDIES = ("remedy", "nearly true", "no sign that it is off, ", "take sigma_by_output")


def screen(page):
    shown = re.search(r'<section id="summary">(.*?)</section>', page, re.DOTALL)[1]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", shown)).replace("\xa0", " "))


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_page_says_what_is_true_and_leaves_nothing_out(name):
    make, before, after, words = SITUATIONS[name]
    made = report(*make(), replicates=30)
    said = screen(made.page)
    for label, expected in (("none", before), ("sigma", after)):
        rows = whole(made.questions, label)
        off = {question for question in QUESTIONS if rows[question]["verdict"] == "off"}
        assert expected <= off, (name, label, off)
        assert off - expected <= ALSO.get(name, set()), (label, off)
    for text in words:
        assert text in said, (name, text, said)
    for text in REMEDIES:
        assert text not in made.page
    # The first sentence is on the page, and every answer of the recalibration that is spoken of.
    assert made.headline.split(". ")[0] in said
    for row in whole(made.questions, "sigma").values():
        assert row["words"] in said


def real(folder, name):
    path = folder / "predictions" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with np.load(path) as file:
        f = {key: file[key].astype(np.float64) for key in file}
    found = []
    for split in ("calib", "test"):
        mu, y, sd = (
            f[k] if split == "calib" else f[k][0]
            for k in (f"mu_{split}", f"target_{split}", f"sd_{split}_total")
        )
        sd = np.broadcast_to(sd.reshape(len(sd), *[1] * (mu.ndim - 1)), mu.shape)
        found.append((mu, sd, y))
    return found


NAMES = [
    f"{net}_{data}"
    for net in ("resnet101", "densenet201", "efficientnetb4")
    for data in ("boneage", "endovis")
]


@pytest.mark.parametrize("name", NAMES)
def test_on_real_predictions_words_are_borne_out_by_the_numbers(real_data, name):
    calibration, test = real(real_data, name)
    made = report(
        *[ts.Cases(ts.Prediction(mu, sd**2), y) for mu, sd, y in (calibration, test)], replicates=20
    )
    mu, sd, y = test
    z = (y - mu) / sd
    size, before, after = (
        math.sqrt((z**2).mean()),
        whole(made.questions, "none"),
        whole(made.questions, "sigma"),
    )
    factor = math.sqrt((((calibration[2] - calibration[0]) / calibration[1]) ** 2).mean())
    assert before["size"]["estimate"] == pytest.approx(size)
    assert after["size"]["estimate"] == pytest.approx(size / factor)
    assert before["skill"]["verdict"] == "fine"
    side = "small" if size > 1 else "large"
    assert (f"times too {side}" in before["size"]["words"]) == (before["size"]["verdict"] == "off")
    differ = after["size"]["verdict"] == "off"
    assert ("disagree" in screen(made.page)) == differ
    worse = abs(math.log(size / factor)) > abs(math.log(size)) + 0.01
    assert ("made it worse" in screen(made.page)) <= worse
    for j in range(mu.shape[1]):
        output = j if mu.shape[1] > 1 else None  # a single one has no row of its own
        row = next(
            r
            for r in made.questions
            if r["question"] == "centre" and r["output"] == output and r["recalibration"] == "none"
        )
        assert row["estimate"] == pytest.approx((y - mu)[:, j].mean())


def test_endovis_sets_disagree_and_that_is_the_first_thing_said(real_data):
    calibration, test = real(real_data, "resnet101_endovis")
    made = report(
        *[ts.Cases(ts.Prediction(mu, sd**2), y) for mu, sd, y in (calibration, test)], replicates=20
    )
    assert made.headline.startswith(
        "Sigma is 1.49 times too small; after sigma scaling it is 1.65 times too small, worse"
    )
    assert "calibration and test disagree: they ask for factors of 0.901 and 1.49" in screen(made.page)
    assert "hit or miss together" in screen(made.page)  # consecutive frames
    assert "remedy" not in made.page
