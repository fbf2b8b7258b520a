"""The documentation holds: its commands run, print what it shows, its skeletons work, its links lead somewhere."""

import contextlib
import importlib
import io
import json
import math
import re
import tomllib
from pathlib import Path

import pytest
from pages import BLOCK, differs, run_page, script

import truesigma as ts
from truesigma.core import plugins

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
RUN = [
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in (
            "index",
            "gallery",
            "reading",
            "choosing",
            "cases",
            "limits",
            "guarantees",
            "from-your-model",
            "your-network",
        )
    ),
]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_what_the_page_shows_is_what_it_prints(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)  # nothing but the examples of the checkout: a page makes the files it reads
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert run_page(page)


def test_a_page_that_shows_something_else_is_found_out():
    printed = "read 3 files in 1.2 s\nfactor 2.06, held 61%\nwritten"
    assert differs(printed.replace("1.2 s", "40 ms"), printed) is None
    assert differs("read 3 files in 9 min\n...\nwritten", printed) is None
    assert differs("...\nfactor 2.06,\nheld 61%\n...", printed) is None
    assert differs("...\nfactor 2.00, held 60%\nwritten", printed, 0.1) is None
    for wrong in (
        "...\nfactor 2.00, held 60%\n...",
        "...\nfactor 2.06",
        "read 4 files\n...",
        "...\nwritten\n...\nfactor",
    ):
        assert differs(wrong, printed) is not None, wrong
    assert differs("...\nfactor 3.00, held 61%\n...", printed, 0.1) is not None


def test_every_page_with_code_is_run_by_a_test():
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        if BLOCK.search(page.read_text(encoding="utf-8")):
            named = re.search(rf'"{page.stem}(\.md)?"', tests)
            assert named, f"{page.name} has code that no test runs"


def test_the_tables_are_those_of_the_measured_numbers(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    text = (DOCS / "cases.md").read_text(encoding="utf-8")
    for name, table in script("measure_cases").tables().items():
        assert table in text, f"the table {name} of cases.md is not that of assets/*.csv"
    assert script("measure_own_law").table() in (DOCS / "choosing.md").read_text(encoding="utf-8")
    assert script("measure_peers").table() in (DOCS / "peers.md").read_text(encoding="utf-8")
    for package in ("ngboost", "xgboost"):
        pytest.importorskip(package)
    assert script("measure_models").table() in (DOCS / "from-your-model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["guarantees", "referral", "regions", "bands", "shelf", "nuclei"])
def test_the_tables_of_guarantees_are_those_of_the_measured_numbers(name, monkeypatch):
    if name == "nuclei":
        pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    table = script(f"measure_{name}").table()
    assert table in (DOCS / "guarantees.md").read_text(encoding="utf-8"), f"not that of assets/{name}.csv"


def test_the_tables_of_the_open_benchmark_are_those_of_the_measured_numbers(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    made, text = script("measure_open"), (DOCS / "benchmark.md").read_text(encoding="utf-8")
    for name in ("simulated", "aqsoldb", "nuclei"):
        assert made.methods_table(name) in text, name
    assert made.recalibrations_table() in text
    assert made.level_table() in text
    assert all(row["crossed"] < 0.06 for row in made.read("open-level.csv"))


def test_the_tables_of_verdicts_are_those_of_the_simulations(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    text = "".join(
        (DOCS / f"{page}.md").read_text(encoding="utf-8") for page in ("report", "guarantees", "choosing")
    )
    made = script("measure_verdicts").tables() | script("measure_promises").tables()
    made |= {name: script(f"measure_{name}").table() for name in ("averages", "questions")}
    for name, table in made.items():
        assert table in text or name in ("outliers", "named"), name


def test_what_must_hold_of_verdicts_was_measured(monkeypatch):
    """True models are called off in at most 5 %, within two Monte-Carlo errors; faults are found; regions hold."""
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))

    def means(file, table):
        rows = script("measured").simulated(f"{file}.csv", table)
        return {name: {what: mean for what, (mean, _) in row.items()} for name, row in rows.items()}

    most = 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1000)
    assert max(row["any"] for row in means("verdicts", "true").values()) <= most
    laws = {name: row["size"] for name, row in means("verdicts", "laws").items() if "gross" not in name}
    assert max(laws.values()) <= most
    power = {name: row["found"] for name, row in means("verdicts", "power").items()}
    least = {"1.3 times too small, 100 cases": 0.75, "1.5 times too small, 100 cases": 0.95}
    least |= {"1.3 times too small, 100 cases of 2 outputs": 0.75, "1.5 times too large, 100 cases": 0.8}
    assert {name for name, share in least.items() if power[name] < share} == set()
    group, output = means("verdicts", "culprit").values()
    assert min(group.values()) >= 0.95
    assert min(output["first, before"], output["first, after"]) >= 0.99
    outliers = means("verdicts", "outliers")["two of 400"]
    assert outliers["named exactly"] >= 0.99
    assert outliers["called too small"] <= 0.01
    for row in script("measured").simulated("promises.csv", "regions").values():
        assert min(row[shape][0] + 3 * row[shape][1] for shape in ("ellipsoid", "box")) >= 0.9
    for name, row in means("promises", "averages").items():
        assert "no promise" in name or row["of cases" if "of=case" in name else "of patients"] >= 0.9
    given = means("referral", "a sigma that says nothing, 2 % off")
    assert min(given[cases]["given"] for cases in ("1,000", "5,000")) >= 0.95


def test_every_measured_promise_held(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    read = script("measured").read
    for row in read("guarantees.csv", words=("table", "row")):
        if not row["row"].startswith("*no promise"):
            assert row["mean"] > 0.9 - 3 * row["error"], row
    for row in read("referral.csv", words=("table", "row")):
        if row["what"] == "holds":
            assert row["mean"] > 0.95 - 3 * math.sqrt(0.95 * 0.05 / row["sets"]), row
    for row in read("regions.csv"):
        assert row["ellipsoid"] > 0.895  # 200 splits of one set
        assert row["ellipsoid_volume"] < 0.4
    stained = read("nuclei.csv")[0]
    gap = {name: abs(0.9 - stained[name]) for name in ("sigma", "sigma_by_group")}
    assert gap["sigma_by_group"] < 0.25 * gap["sigma"]  # three quarters of it are closed


def test_guarantees_can_be_measured_again(tmp_path, monkeypatch):
    """A few draws of each promise: within what so few can tell of the number that is shown; a second run goes on."""
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    made, measured = script("measure_guarantees"), script("measured")
    stored = measured.simulated("guarantees.csv", "100")
    monkeypatch.setattr("sys.argv", ["", "--sets", "20", "--row", "100", "--out", str(tmp_path)])
    measured.simulate("", "made.csv", made.simulations())
    for row in measured.read(tmp_path / "made.csv", words=("table", "row")):
        known = stored[row["row"]]["held"][0]
        assert row["mean"] == pytest.approx(known, abs=5 * max(row["error"], 0.004)), row
    before = (tmp_path / "made.csv").stat().st_mtime_ns
    measured.simulate("", "made.csv", made.simulations())
    assert (tmp_path / "made.csv").stat().st_mtime_ns == before


def test_the_measured_numbers_can_be_measured_again(real_data, monkeypatch):
    """One size of one network: the same draws of cases give the same numbers."""
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    made = script("measure_cases")
    monkeypatch.setattr(made, "SIZES", (50,))
    monkeypatch.setattr(made, "METHODS", ("none", "sigma", "conformal"))
    pool = made.published(real_data / "predictions" / "resnet101_boneage.npz")
    stored = {(r["pool"], r["recalibration"], r["cases"]): r for r in made.read("cases.csv")}
    for row in made.measure("ResNet-101", pool):
        for name, value in row.items():
            if isinstance(value, float):
                expected = stored["ResNet-101", row["recalibration"], 50][name]
                assert value == pytest.approx(expected, rel=1e-3), (row["recalibration"], name)


def test_make_targets_exist():
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"^make (\w[\w-]*)", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert re.search(rf"^{target}:", rules, re.MULTILINE), f"{page.name}: make {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert f"{{ #{anchor} }}" in file.read_text(encoding="utf-8"), f"{page.name} links to {target}"


def test_every_command_is_on_its_page():
    from truesigma.cli import build

    commands = {one.name for one in build().registered_commands} | {
        one.name for one in build().registered_groups
    }
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert {name for name in commands if f"`{name}`" not in page} == set()


def test_every_page_is_in_the_list_of_pages():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        assert f": {page.relative_to(DOCS).as_posix()}\n" in listed, page


def test_every_public_name_has_its_place_in_the_api():
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    for name in set(ts.__all__) - {"diagrams", "metrics", "recalibrate"}:
        assert re.search(rf"\b{name}\b", pages), f"{name} is on no page of docs/api"
    for folder in (
        "recalibrate",
        "metrics",
        "diagrams",
        "imaging/datasets",
        "imaging/backbones",
        "imaging/sigmas",
    ):
        assert f"<!-- plug-ins: {folder}" in pages


def test_every_metric_is_defined():
    text = (DOCS / "definitions.md").read_text(encoding="utf-8").lower()
    short = {
        "mse": "mse",
        "rmse": None,
        "mae": None,
        "r2": "r^2",
    }  # errors of the location, which need no definition
    for name in plugins.names("metrics"):
        word = short.get(name, name.replace("_", " "))
        assert word is None or word in text or f"`{name}`" in text, f"{name} is not in definitions.md"


def test_the_table_of_recipes_is_that_of_the_files():
    text = (DOCS / "definitions.md").read_text(encoding="utf-8")
    rows = {}
    for line in text[text.index("## Recipes") :].splitlines():
        if line.startswith("| ") and line.count("|") == 5:
            head, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            rows[head] = dict(zip(("exact", "paper", "code"), cells))
    for name in ("exact", "paper", "code"):
        recipe = tomllib.loads(
            (Path(ts.__file__).parent / "evaluation" / "recipes" / f"{name}.toml").read_text()
        )
        network, train = recipe["network"], recipe["train"]
        words = {
            "valid_mse_two_draws": "validation MSE of the mean of two draws",
            "valid_mse": "validation MSE, with dropout",
            "train_loss": "training loss",
            "valid_loss": "validation loss",
        }
        dropout = [network["head_dropout"][k] for k in ("resnet101", "densenet201", "efficientnet_b4")]
        expected = {
            "aleatoric": recipe["decompose"]["aleatoric"],
            "epistemic `ddof`": str(recipe["decompose"]["ddof"]),
            "clamping": "draws to [0, 1]" if recipe["decompose"]["clamp"] else "none",
            "sigma fitted on": {"closed": "closed form", "gradient": "by gradient"}[
                recipe["sigma"]["solver"]
            ],
            "aux on standardised $\\log v$": "yes" if recipe["aux"]["standardise"] else "no",
            "UCE error": recipe["uce"]["error"],
            "UCE bins": f"{recipe['uce']['bins']}, {'closed' if recipe['uce']['closed'] else 'left-open'}",
            "outputs": recipe["elements"]["outputs"],
            "NLL": {"nats": "nats", "table": "table units"}[recipe["nll"]["units"]],
            "heads": {"linear": "one linear layer", "deep": "two layers"}[network["heads"]],
            "ResNet stage dropout": str(network["stage_dropout"]),
            "dropout before the heads (ResNet, DenseNet, EfficientNet)": ", ".join(
                map(str, dropout if len(set(dropout)) > 1 else dropout[:1])
            ),
            "loss": train["loss"],
            "plateau schedule watches": words[train["watch"]],
            "kept weights": f"best {words[train['keep']]}",
        }
        for choice, value in expected.items():
            assert value in rows[choice][name], (
                f"{choice} of {name}: {rows[choice][name]!r}, the file says {value!r}"
            )


def test_the_factor_of_a_perfect_laplace_model_with_epistemic_part():
    from scipy.integrate import quad
    from scipy.stats import norm

    text = (DOCS / "definitions.md").read_text(encoding="utf-8")
    for ratio, shown in ((0.25, "1.055 at $E/A = 0.25$"), (4.0, "1.123 at 4")):
        sd = math.sqrt(
            2 * ratio
        )  # b = 1, A = 2, E = 2 ratio; given the epistemic n, E|n + Laplace| = |n| + exp(-|n|)
        size = 2 * quad(lambda n, sd=sd: (n + math.exp(-n)) * norm.pdf(n, scale=sd), 0, math.inf)[0]
        factor = size / math.sqrt(1 + ratio)
        assert shown.startswith(f"{factor:.3f} ")
        assert shown in text


def test_the_numbers_under_the_picture_are_those_it_was_made_of(real_data, monkeypatch):
    made = script("make_figures")
    monkeypatch.setattr(made, "_save", lambda fig, name: None)
    found = made.before_after(real_data / "predictions" / "efficientnetb4_boneage.npz")
    for page in (ROOT / "README.md", DOCS / "index.md"):
        text = " ".join(page.read_text(encoding="utf-8").split())
        assert f"s = {found['factor']:.2f}" in text
        assert f"hold {100 * found['none, coverage 0.9']:.0f} % of the ages" in text
        assert f"{100 * found['sigma, coverage 0.9']:.0f} %" in text


def test_the_citation_names_the_paper():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for needed in ("cff-version: 1.2.0", "Laves", "Ortmaier", "https://www.melba-journal.org/article/22528"):
        assert needed in text
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"version: {version}" in text


def test_the_choice_is_the_best_of_every_real_set_or_within_its_error(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    made, text = script("measure_shelf"), (DOCS / "guarantees.md").read_text(encoding="utf-8")
    assert made.counts() in text
    # The best of each set is what compare chose, or within its error.
    rows = made.read("shelf.csv")
    good = {row["set"] for row in rows if row["best"] and (row["chosen"] or row["within"])}
    assert good == {row["set"] for row in rows}


def test_what_the_default_says_of_other_images_is_as_measured(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    made, text = script("measure_unlike"), (DOCS / "own-images.md").read_text(encoding="utf-8")
    assert made.table() in text
    rows = made.read("unlike.csv")
    assert [sum(row["kind"] == kind for row in rows) for kind in made.KINDS] == [3, 5]
    assert all(row["other_warned"] and not row["home_warned"] for row in rows)  # as CHANGELOG says
    for row in rows:  # intervals hold where sigma grows as much as the error, and only there
        assert (row["other_held"] > 0.9) == (row["other_sigma"] > row["other_error"])
        assert row["other_error"] > 5 * row["home_error"]
    assert 0 < sum(row["other_held"] > 0.9 for row in rows) < len(rows) / 2  # more often it stays too small


def test_formulas_show_without_a_network():
    """Pages hold MathML, and load nothing from elsewhere."""
    settings = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert "show_formulas.py" in settings
    assert "http" not in settings
    convert = script("show_formulas").on_page_content
    made = convert(
        r'<p><span class="arithmatex">\(a &lt; b\)</span></p><div class="arithmatex">\[e^2\]</div>', page=None
    )
    assert [part[:29] for part in made.split("<math")[1:]] == [
        ' display="inline"><mrow><mi>a',
        ' display="block"><mrow><msup>',
    ]
    assert "arithmatex" not in made
    assert "\\" not in made


def test_formulas_of_the_package_are_converted():
    """Each plug-in has one; the report has those of metrics, as they are now."""
    formula, show = importlib.import_module("truesigma.page.formula"), script("show_formulas")
    assert json.loads(formula.MADE.read_text(encoding="utf-8")) == show.made(), (
        "run docs/scripts/show_formulas.py"
    )
    for kind in ("metrics", "recalibrate"):
        for name in plugins.names(kind):
            sources = formula.sources(plugins.load(kind, name).__doc__)
            assert sources, name
            assert all(show.mathml(source) for source in sources), name
    for source in (r"\frac{1}", "x^{", r"\nothing{<b>}", r"\text{<b>x</b>}", r"\href{javascript:x}{y}", ""):
        assert show.mathml(source) is None


def test_the_tally_of_the_page_about_scale():
    """Its commands are about files that are too large to make here."""
    blocks = dict(BLOCK.findall((DOCS / "scale.md").read_text(encoding="utf-8"))[:2])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks["python"], "scale.md", "exec"), {})
    assert printed.getvalue() == blocks["text"]
