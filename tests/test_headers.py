"""What is wrong with a table is said in its own words: its columns, its rows, its ids."""

import warnings

import numpy as np
import pytest

from truesigma.files import BadFile
from truesigma.store import read


def test_headers_in_capitals_are_one_sentence(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("ID,Target,Location,Aleatoric,Epistemic,Weight,Group\na,1,2,3,1,1,g\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BadFile) as problem:
            read(path)
    assert str(problem.value).endswith(
        "Rename Target to target, Location to location, Aleatoric to aleatoric, Epistemic to epistemic, Weight to "
        "weight, ID to id, Group to group, if that is what they are."
    )


def test_headers_of_a_german_spreadsheet(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Patient;Zielwert;Vorhersage;Standardabweichung\nA;1,5;2;0,5\n")
    with pytest.raises(BadFile) as problem:
        read(path)
    assert str(problem.value).endswith(
        "Rename Zielwert to target, Vorhersage to location, Standardabweichung to scale, Patient to group, if that is "
        "what they are."
    )


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("id,target,location,scale\na,1,2,3\nb,,2,3\n", "The first is row 2 below the header, id b."),
        ("target,location,scale\n1,2,3\n1,2,\n", "The first is row 2 below the header."),
        ("target,location,aleatoric,epistemic\n1,2,3,0\n1,2,3,-1\n", "The first is row 2 below the header."),
    ],
)
def test_a_wrong_value_is_named_by_row_and_id(tmp_path, table, words):
    path = tmp_path / "a.csv"
    path.write_text(table)
    with pytest.raises(BadFile, match=words):
        read(path)


def test_in_an_archive_by_case_and_id(tmp_path):
    path = tmp_path / "a.npz"
    variance = np.ones((2, 3))
    variance[0, 1] = -1
    np.savez(path, mean=np.zeros((2, 3)), variance=variance, id=np.array(["a", "b", "c"]))
    with pytest.raises(BadFile, match=r"variance is negative .* The first is case 2, id b\.$"):
        read(path)
