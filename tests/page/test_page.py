"""The page as a file: self-contained, the same every time, small, and safe whatever stands in the data."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from report_samples import HOSTILE, make

import truesigma as ts
from truesigma.core import plugins
from truesigma.page import report

QUICK = {"replicates": 60}


class Reader(HTMLParser):
    """Elements with their attributes, and the text outside of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self._inside = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.text.append(data)

    @property
    def words(self):
        return re.sub(r"\s+", " ", " ".join(self.text))


def data_of(page):
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    )


@pytest.fixture(scope="module")
def made():
    groups = ("Basel", "Oslo", "Porto")
    return report(
        make(seed=1),
        make(cases=400, groups=groups),
        recalibrations=["sigma", "aux:steps=50"],
        shifted=make(seed=3, factor=0.9).prediction,
        files={
            "test": {"file": "test.csv", "sha256": "ab" * 32},
            "calibration": {"file": "cal.csv", "sha256": "cd" * 32},
        },
        **QUICK,
    )


def test_it_is_written_where_a_path_is_given(tmp_path):
    page = ts.report(make(cases=40), make(seed=2, cases=40), tmp_path / "r.html", replicates=20)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page.page


def test_everything_the_reader_is_promised_is_there(made):
    page = Reader(made.page)
    anchors = [a["href"] for tag, a in page.elements if tag == "a" and "href" in a]
    ids = {a["id"] for _, a in page.elements if "id" in a}
    assert {a[1:] for a in anchors} <= ids  # every link leads to something in the page
    for section in (
        "summary", "agreement", "calibration", "intervals", "content", "pit", "breakdown", "rejection",
        "scatter", "shares", "shift", "worst",
    ):  # fmt: skip
        assert section in ids
    for metric in plugins.usual("metrics"):
        assert f"#definition-{metric}" in anchors
        assert f"definition-{metric}" in ids
    figures = [a["id"] for _, a in page.elements if a.get("class") == "figure"]
    assert len(figures) == 9
    csv = {a["data-csv"] for tag, a in page.elements if a.get("class") == "csv"}
    assert {name.removeprefix("figure-") for name in figures} <= csv
    assert csv == set(made.tables)
    for needed in (
        made.headline.split(".")[0],
        "ab" * 32,
        "cd" * 32,
        "recipe exact",
        "version of numpy",
        "60 replicates",
        "95 % bootstrap",
    ):
        assert needed in page.words.replace("\xa0", " "), needed


def test_nothing_is_asked_of_anybody(made):
    page = Reader(made.page)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "form", "base", "audio", "video")
        assert "style" not in attributes  # the policy would refuse it
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href"):
                assert value.startswith(("#", "data:image/"))
    code = "".join(re.findall(r"<script>(.*?)</script>", made.page, re.DOTALL))
    for word in (
        "fetch(", "XMLHttpRequest", "WebSocket", "import(", "innerHTML", "outerHTML", "insertAdjacent",
        "document.write", "eval(",
    ):  # fmt: skip
        assert word not in code
    assert "url(" not in re.search(r"<style>(.*?)</style>", made.page, re.DOTALL)[1]
    assert len(made.page.encode()) < 500_000


def test_the_policy_allows_this_script_alone(made):
    policy = next(
        a["content"] for tag, a in Reader(made.page).elements if tag == "meta" and "http-equiv" in a
    )
    assert policy.startswith("default-src 'none'; img-src data:;")
    for kind, text in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        content = re.search(text, made.page, re.DOTALL)[1]
        mark = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{mark}'" in policy


def test_the_same_data_gives_the_same_page(made, monkeypatch):
    again = []
    for threads in ("1", "3"):  # in which sections are made in another order
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        again.append(report(make(seed=1), make(), **QUICK).page)
    assert again[0] == again[1]
    assert report(make(seed=1), make(), **QUICK, seed=1).page != again[0]


def test_no_text_from_data_becomes_markup():
    plain = make(cases=90, groups=("a", "b"))
    rng = np.random.default_rng(0)
    sly = ts.Cases(
        plain.prediction,
        plain.target,
        group=rng.choice([HOSTILE + "1", HOSTILE + "2"], 90),
        id=[f"{HOSTILE}{i}" for i in range(90)],
        unit=HOSTILE,
    )
    files = {"test": {"file": HOSTILE, "sha256": HOSTILE}, "calibration": {"file": HOSTILE}}
    found = report(make(seed=1, unit=HOSTILE), sly, shifted=sly, files=files, **QUICK)
    honest = report(make(seed=1), plain, shifted=plain, files={"test": {"file": "x"}}, **QUICK)
    for page in (found.page, honest.page):
        assert page.count("<script") == 2
        assert page.count("</script") == 2
    kinds = [
        [tag for tag, _ in Reader(page).elements if tag in ("script", "img", "style", "body", "main")]
        for page in (found.page, honest.page)
    ]
    assert kinds[0] == kinds[1]
    assert "onerror=alert" in found.page  # it is there, as text
    assert "<img src=x" not in found.page
    assert "&lt;img src=x" in found.page
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', found.page, re.DOTALL)[
        1
    ]
    assert not set("<>&") & set(embedded)
    assert data_of(found.page)["unit"] == HOSTILE
    assert data_of(found.page)["sections"]["worst"]["table"]["case"][0].startswith(HOSTILE)
    assert found.page.count("const SVG = ") == 1  # a placeholder in the data is not filled in


def test_tables_in_the_page_are_those_of_the_report(made):
    shown = data_of(made.page)["sections"]
    for key, table in made.tables.items():
        assert set(shown[key]["table"]) == set(table)
        for name, column in table.items():
            for there, here in zip(shown[key]["table"][name], column):
                assert there == (pytest.approx(here, rel=1e-5) if isinstance(here, float) else here)


def test_a_report_needs_sets_of_the_same_outputs():
    with pytest.raises(ValueError, match=r"outputs of shape \(2,\)"):
        report(make(seed=1), make(outputs=2))
    with pytest.raises(ValueError, match="level is 90"):
        report(make(seed=1), make(), level=90)
    with pytest.raises(ValueError, match="shifted cases have outputs"):
        report(make(seed=1), make(), shifted=make(outputs=2), **QUICK)
