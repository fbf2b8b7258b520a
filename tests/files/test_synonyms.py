"""What is wrong with a table is said in its own words: its columns, its rows, its ids."""

import warnings

import numpy as np
import pytest

from truesigma.files.disk import BadFile
from truesigma.files.store import read, read_value


def refusal(folder, text, reader=read):
    """What is said of a csv that cannot be read."""
    path = folder / "a.csv"
    path.write_text(text)
    with pytest.raises(BadFile) as problem:
        reader(path)
    return str(problem.value)


def test_headers_in_capitals_are_one_sentence(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = refusal(tmp_path, "ID,Target,Location,Aleatoric,Epistemic,Weight,Group\na,1,2,3,1,1,g\n")
    assert (
        "Rename Target to target, Location to location, Aleatoric to aleatoric, Epistemic to epistemic, Weight to "
        "weight, ID to id, Group to group, if that is what they are." in said
    )


def test_headers_of_a_german_spreadsheet(tmp_path):
    said = refusal(tmp_path, "Patient;Zielwert;Vorhersage;Standardabweichung\nA;1,5;2;0,5\n")
    assert (
        "Rename Zielwert to target, Vorhersage to location, Standardabweichung to scale, Patient to patient"
        in said
    )
    assert said.endswith(
        "--column target=Zielwert --column location=Vorhersage --column scale=Standardabweichung."
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
    assert words in refusal(tmp_path, table)


def test_in_an_archive_by_case_and_id(tmp_path):
    path = tmp_path / "a.npz"
    variance = np.ones((2, 3))
    variance[0, 1] = -1
    np.savez(path, mean=np.zeros((2, 3)), variance=variance, id=np.array(["a", "b", "c"]))
    with pytest.raises(BadFile, match=r"variance is negative .* The first is case 2, id b\.$"):
        read_value(path)


def test_a_patient_of_another_name_is_said(tmp_path):
    """Without patients every case counts for itself, which flatters standard errors where patients have several."""
    path = tmp_path / "a.csv"
    path.write_text("target,location,scale,Patient_ID,site\n1,2,3,p0,A\n2,3,4,p0,B\n")
    with pytest.warns(UserWarning, match="'Patient_ID' is not read; name it 'patient', or say --column"):
        assert read_value(path).patient is None
    for header in (
        "target,location,scale,patient,group",
        "target,location,scale,stage",
        "location,scale,patient",
    ):
        path.write_text(f"{header}\n{','.join('123456'[: header.count(',') + 1])}\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_value(path)


def test_a_target_of_another_name_is_said(tmp_path):
    said = refusal(tmp_path, "gt,location,scale\n1,2,3\n", read)
    assert "has no target" in said
    assert "Rename gt to target, if" in said


def test_columns_are_called_as_in_the_file(tmp_path):
    said = refusal(tmp_path, "age,hat,stdev\n1,2,3\n", lambda path: read(path, columns={"target": "age"}))
    assert "among 'hat', 'stdev'" in said
    assert said.endswith("--column location=NAME --column scale=NAME.")
