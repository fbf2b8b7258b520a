"""Markup, numbers as text, formulas and thumbnails."""

import base64
import io
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import HOSTILE

from truesigma.core.checks import per_cent
from truesigma.evaluation.bootstrap import Estimate
from truesigma.files.disk import BadFile
from truesigma.page.blocks import cell, table
from truesigma.page.markup import element, json_text
from truesigma.page.numbers import estimate_parts, number, percent
from truesigma.page.thumbnails import SIZE, find_images, picture


@given(st.text(), st.text())
def test_text_never_becomes_markup(first, second):
    made = element("p", {"title": first}, second, element("b", None, first))
    inner = made[made.index(">") + 1 :]
    assert "<" not in made[1 : made.index(">")]
    assert inner.count("<") == 3  # <b>, </b>, </p>
    assert made.count('"') == 2


@given(
    st.recursive(
        st.none() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_embedded_json_holds_no_markup(value):
    assert not set("<>&\u2028\u2029") & set(json_text(value))


def test_names_of_columns_are_escaped_too():
    made = table(
        [HOSTILE, HOSTILE],
        [[cell(HOSTILE, head=True), cell(HOSTILE, number=True)]],
        caption=HOSTILE,
        sort=True,
    )
    assert "<img" not in made
    assert made.count("<td") == 1
    ElementTree.fromstring(made)  # well formed


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (0.0, None, "0"), (12.345, None, "12.3"), (0.012345, None, "0.0123"), (98765.0, None, "98800"),
        (1.5e7, None, "1.50e7"), (-2e-5, None, "−0.0000200"), (13.3367, 0.2, "13.3"), (1.0, 1e-17, "1.00000"),
        (float("nan"), None, "–"), (None, None, "–"), (-3.21, 0.1, "−3.2"),
    ],
)  # fmt: skip
def test_numbers(value, step, text):
    assert number(value, step) == text


def test_a_share_that_is_neither_none_nor_all_is_not_rounded_to_that():
    assert [percent(share) for share in (0.0, 1 / 2000, 0.004, 0.006, 0.994, 1999 / 2000, 1.0)] == [
        f"{text}\xa0%" for text in ("0", "0.05", "0.4", "1", "99", "99.95", "100")
    ]
    assert estimate_parts(Estimate(1999 / 2000, 0.997, 1.0), share=True, digits=0) == (
        "99.95\xa0%",
        "[99.70, 100.00]",
    )
    assert estimate_parts(Estimate(0.9, 0.8, 0.95), share=True, digits=0)[0] == "90\xa0%"
    assert per_cent(1e-30) == "0." + 9 * "0"  # digits end somewhere
    assert per_cent(0.9995, 3, "g") == "99.95"


@pytest.fixture
def images(tmp_path):
    from PIL import Image

    folder = tmp_path / "images"
    (folder / "below").mkdir(parents=True)
    Image.fromarray(np.full((400, 200), 128, np.uint8)).save(folder / "t1.png")
    Image.new("RGB", (30, 30), (255, 0, 0)).save(folder / "below" / "t2.jpg")
    np.save(folder / "t3.npy", np.random.default_rng(0).normal(size=(20, 40, 50)))
    (folder / "t4.png").write_bytes(b"not an image")
    Image.new("L", (8, 8)).save(tmp_path / "secret.png")
    return folder


def test_images_are_found_by_id(images):
    names = [
        "t1", "t2.jpg", "below/t2", "t3", "t4", "t5", "../secret", "../secret.png", "/etc/passwd", HOSTILE,
        "",
    ]  # fmt: skip
    found = find_images(images, names)
    assert set(found) == {"t1", "t2.jpg", "below/t2", "t3", "t4"}
    assert found["t1"] == images / "t1.png"
    with pytest.raises(BadFile, match="there is no folder"):
        find_images(images / "none", names)


def test_thumbnails(images):
    from PIL import Image

    sizes = {"t1.png": (SIZE // 2, SIZE), "below/t2.jpg": (30, 30), "t3.npy": (50, 40)}
    for name, size in sizes.items():
        address = picture(images / name).address
        assert address.startswith("data:image/jpeg;base64,")
        shown = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
        assert shown.size == size
    assert picture(images / "t4.png") is None
