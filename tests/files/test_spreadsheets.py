"""Tables as spreadsheets write them: other separators, decimal commas, and empty rows at the end."""

import warnings

import numpy as np
import pytest

from truesigma.evaluation.apply import apply_file
from truesigma.evaluation.card import calibrate
from truesigma.files.columns import case_table
from truesigma.files.disk import BadFile
from truesigma.files.store import read, read_value
from truesigma.files.tables import read_csv

PLAIN = "id,target,location,scale\na,1.5,2,0.5\nb,3,4.25,1\n"


@pytest.fixture
def plain(tmp_path):
    (tmp_path / "plain.csv").write_text(PLAIN)
    return read_value(tmp_path / "plain.csv")


def same(found, cases):
    for name in ("location", "scale"):
        np.testing.assert_array_equal(getattr(found.prediction, name), getattr(cases.prediction, name))
    np.testing.assert_array_equal(found.target, cases.target)
    assert list(found.id) == list(cases.id)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators(tmp_path, plain, separator):
    path = tmp_path / "a.csv"
    path.write_text(PLAIN.replace(",", separator))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(read_value(path), plain)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_are_said(tmp_path, plain, separator):
    path = tmp_path / "a.csv"
    path.write_text("\ufeff" + PLAIN.replace(",", separator).replace(".", ","), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"a\.csv has decimal commas: 1,5 in it is read as 1\.5"):
        same(read_value(path), plain)


@pytest.mark.parametrize("end", [",,,\n", " ,,,\n,,,\n\n", ",,,"])
def test_empty_rows_at_the_end_are_left_out(tmp_path, plain, end):
    path = tmp_path / "a.csv"
    path.write_text(PLAIN + end)
    with pytest.warns(UserWarning, match=r"a\.csv: \d empty row\(s\) at its end are left out"):
        same(read_value(path), plain)


def test_an_empty_row_between_others_is_not(tmp_path):
    (tmp_path / "a.csv").write_text("target,location,scale\n1,2,3\n,,\n0,0,1\n")
    with pytest.raises(ValueError, match="The first is row 2 below the header"):
        read_value(tmp_path / "a.csv")


def test_a_last_row_of_nan_is_no_empty_one(tmp_path):
    """Numbers that are missing are the user's to explain, and every reading of the file has the same rows."""
    path = tmp_path / "a.csv"
    path.write_text("target,location,scale\n1,2,3\n4,5,6\nnan,NaN,NA\n,,\n")
    with (
        pytest.warns(UserWarning, match=r"1 empty row\(s\)"),
        pytest.raises(ValueError, match="target is missing"),
    ):
        read(path)
    with pytest.warns(UserWarning, match=r"1 empty row\(s\)"):
        assert read(path, mask_missing=True).prediction.mask.tolist() == [True, True, False]
    with pytest.warns(UserWarning, match=r"1 empty row\(s\)"):
        assert len(read_csv(path)) == len(case_table(path)) == 3


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_a_card_is_applied_to_them(tmp_path, plain, ending):
    """What they are written to is read as they are."""
    path, out = tmp_path / "a.csv", tmp_path / f"out{ending}"
    path.write_text(PLAIN.replace(",", ";").replace(".", ",") + ";;;\n")
    card = calibrate(plain)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = apply_file(card, path, out)
    assert len(seen) == 2  # the commas and the empty row, once each
    np.testing.assert_array_equal(made.scale, card(plain).scale)
    with warnings.catch_warnings(action="ignore"):
        found = read(out)
    np.testing.assert_allclose(found.prediction.scale, made.scale)
    np.testing.assert_array_equal(found.prediction.location, plain.prediction.location)
    np.testing.assert_array_equal(found.target, plain.target)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), ("\t", ","), (";", "."), (",", ".")])
def test_a_csv_goes_back_to_the_spreadsheet_it_came_from(tmp_path, plain, separator, decimal, mark):
    path, out = tmp_path / "a.csv", tmp_path / "out.csv"
    text = "id,ort,target,location,scale\na,Köln,1.50,2,0.5\nb,Bern,3,4.25,1\n"
    path.write_text(mark + text.replace(",", separator).replace(".", decimal), encoding="utf-8")
    with warnings.catch_warnings(action="ignore"):
        made = apply_file(calibrate(plain), path, out)
    head, first, _, end = out.read_text(encoding="utf-8").split("\n")
    assert (head, end) == (
        mark + separator.join(["id", "ort", "target", "location", "scale", "lower_90", "upper_90"]), ""
    )  # fmt: skip
    cells = first.split(separator)
    assert cells[:4] == ["a", "Köln", f"1{decimal}50", "2"]  # as they were written
    numbers = [made.scale[0], *(bound[0] for bound in made.interval(0.9))]
    assert cells[4:] == [str(float(one)).replace(".", decimal) for one in numbers]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("1305,42;1300,1;1,5 mm\n3;4;1", "row 1 .* '1,5 mm' in column 'scale'; .* decimal comma"),
        ("1305,42;1300,1;1,5\nk.A.;4;1", r"row 2 .* 'k\.A\.' in column 'target'; .* decimal comma"),
        ("3,5;4;1\n1.305,42;1300,1;1,5", r"row 2 .* '1\.305,42' in column 'target'; .* decimal comma"),
        ("3.5;4;1\n#NV;1300.1;1.5", "row 2 .* '#NV' in column 'target'; .* decimal point"),
    ],
)
def test_of_many_numbers_the_one_that_is_none_is_named(tmp_path, cells, words):
    path = tmp_path / "a.csv"
    path.write_text(f"target;location;scale\n{cells}\n")
    with pytest.raises(BadFile, match=words):
        read_value(path)


def test_what_excel_writes_is_read_or_said(tmp_path):
    """A line that names the separator, as labels may have it, too; a workbook is to be saved as text."""
    path = tmp_path / "a.csv"
    path.write_text("sep=;\ntarget;location;scale\n1,5;2;3\n")
    with pytest.warns(UserWarning, match="decimal commas"):
        assert read_value(path).target.tolist() == [1.5]
    with pytest.raises(BadFile, match=r"'\.xlsx'; expected .* Save the sheet as CSV"):
        read_value(tmp_path / "a.xlsx")


def test_text_that_is_no_utf8_table_is_said(tmp_path):
    """UTF-16, comment lines and tables called .txt, each with what to do."""
    from truesigma.files.fileset import open_fileset

    rows = "target,location,scale\n1,2,3\n4,5,6\n"
    (tmp_path / "a.csv").write_text(rows, encoding="utf-16")
    with pytest.raises(BadFile, match=r"is text in UTF-16, not in UTF-8.* save it as CSV UTF-8"):
        read_value(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f"# made by hand\n{rows}")
    with pytest.raises(BadFile, match=r"begins with a comment, '# made by hand'; remove"):
        read_value(tmp_path / "a.csv")
    (tmp_path / "a.txt").write_text(rows)
    with pytest.raises(BadFile, match=r"looks like a table, .* Call a table \.csv"):
        open_fileset(tmp_path / "a.txt")
    with pytest.raises(BadFile, match=r"If it is a table, call it \.csv"):
        read_value(tmp_path / "a.txt")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(BadFile, match="Save the sheet as CSV UTF-8: in Excel by File, Save As"):
        open_fileset(tmp_path / "a.xlsx")


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems(tmp_path, end):
    """Windows' in tables and manifests; a table of old Mac line ends is read, too."""
    (tmp_path / "a.csv").write_bytes(end.join(["target,location,scale", "1,2,3", "4,5,6", ""]).encode())
    assert read_value(tmp_path / "a.csv").target.tolist() == [1.0, 4.0]


def test_an_archive_says_what_to_rename(tmp_path):
    import numpy as np

    np.savez(tmp_path / "a.npz", y_true=np.zeros(2), y_pred=np.zeros(2), sigma=np.ones(2))
    with pytest.raises(BadFile, match="Rename y_true to target, y_pred to location, sigma to scale"):
        read_value(tmp_path / "a.npz")
