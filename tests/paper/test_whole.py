"""Results that are damaged, cut short or of another experiment are not used, and the others are shown all the same."""

import json
import shutil

import numpy as np
import pytest
from made_up_paper import fake_paper, main_until_exit

from paper import open_paper

NAME = "oct_resnet101"
MEMBERS = [f"boneage_densenet201_member{n}" for n in range(1, 6)]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return fake_paper(
        tmp_path_factory.mktemp("small") / "paper", [NAME, "boneage_densenet201", *MEMBERS], cases=12
    )


@pytest.fixture
def copy(small, tmp_path):
    return shutil.copytree(small, tmp_path / "paper")


def _cut(folder, name, share):
    path = folder / name
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def _fewer_cases(folder):
    with np.load(folder / "draws.npz") as kept:
        arrays = {key: kept[key] for key in kept.files}
    for key in ("test.residual", "test.log_variance", "member.test.residual", "member.test.log_variance"):
        arrays[key] = arrays[key][:, :, :5]
    np.savez_compressed(folder / "draws.npz", **arrays)


def _about(folder, **changes):
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES = {
    "draws cut": (lambda f: _cut(f, "draws.npz", 0.5), "BadZipFile"),
    "draws gone": (lambda f: (f / "draws.npz").unlink(), "draws.npz"),
    "fewer cases": (_fewer_cases, "5 cases of test; run.json says 12"),
    "json cut": (lambda f: _cut(f, "run.json", 0.5), "JSONDecodeError"),
    "unknown law": (lambda f: _about(f, likelihood="cauchy"), "gaussian or laplace"),
    "history cut": (lambda f: _cut(f, "history.csv", 0.5), "rows; run.json says 50"),
    "other seed": (lambda f: _about(f, seed=1), "another experiment: seed is 1, planned 0"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_result_is_named_and_not_used(copy, kind):
    damage, words = DAMAGES[kind]
    damage(copy / "results" / NAME)
    paper = open_paper(copy)
    with pytest.warns(UserWarning, match="not a whole result"):
        assert paper.run(NAME) is None
    reason = paper.reason(paper.about(NAME))
    assert words in reason
    assert str(copy) not in reason  # it is written into RESULTS.md
    assert paper.has(*MEMBERS)


def test_the_others_are_shown_beside_a_damaged_result(copy, capsys):
    _cut(copy / "results" / NAME, "draws.npz", 0.9)
    assert main_until_exit(["table2", "--root", str(copy), "--json", "-"]) == 0
    said = capsys.readouterr()
    whole = [row for row in json.loads(said.out)["rows"] if row["likelihood"] == "gaussian"]
    found = {(r["data_set"], r["network"]): r for r in whole if r["recipe"] == "exact"}
    assert found["oct", "resnet101"]["value"] is None
    assert "not a whole result" in found["oct", "resnet101"]["reason"]
    assert np.isfinite(found["boneage", "densenet201_ensemble"]["value"])
    assert "warning: results/oct_resnet101 is not a whole result" in said.err


def test_a_copy_of_a_network_is_no_member(copy):
    folder = copy / "results"
    shutil.rmtree(folder / MEMBERS[1])
    shutil.copytree(folder / MEMBERS[0], folder / MEMBERS[1])
    paper = open_paper(copy)
    with pytest.warns(UserWarning, match="seed is 1, planned 2"):
        reason = paper.reason(paper.about("boneage_densenet201_ensemble"))
    assert reason == "not yet run: 1 of 5 members are missing"


def test_a_variant_is_told_by_its_network(copy):
    """The result with the stage dropout of the code is not that of the text, whatever folder it lies in."""
    folder = copy / "results"
    shutil.copytree(folder / NAME, folder / f"{NAME}_stage05")
    for name, rate in ((NAME, 0.2), (f"{NAME}_stage05", 0.2)):
        _about(folder / name, recipe={"network": {"stage_dropout": rate}})
    paper = open_paper(copy)
    assert paper.has(NAME)
    with pytest.warns(UserWarning, match=r"stage_dropout is 0.2, planned 0.5"):
        assert not paper.has(f"{NAME}_stage05")


def test_members_of_other_cases_are_not_joined(copy):
    folder = copy / "results" / MEMBERS[2]
    _fewer_cases(folder)
    said = json.loads((folder / "run.json").read_text())["cases"]
    _about(folder, cases={**said, "test": 5})
    paper = open_paper(copy)
    assert paper.reason(paper.about("boneage_densenet201_ensemble")) == "its members saw different cases"
    assert paper.splits("boneage_densenet201_ensemble") == ["test_clahe", "test_other", "valid"]


def test_a_result_that_is_not_planned_is_named(copy, capsys):
    shutil.copytree(copy / "results" / NAME, copy / "results" / "oct_vgg16")
    (copy / "results" / "empty").mkdir()
    main_until_exit(["status", "--root", str(copy)])
    assert (
        "- oct_vgg16: in results/, but not planned in experiments.toml; not used" in capsys.readouterr().out
    )
