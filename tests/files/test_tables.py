"""Small csv tables: what people write in a spreadsheet, and what programs write, are read in one place."""

import pytest

from truesigma.files.disk import BadFile
from truesigma.files.find import find_sources
from truesigma.files.tables import read_table, table_of
from truesigma.imaging.data.archive import open_archive


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_spreadsheets(tmp_path, separator, ending):
    lines = ["\ufeffid, age ,,", "a,1,,", "", ",,,", '"b,c",2']
    text = ending.join(line.replace(",", separator) for line in lines)
    (tmp_path / "t.csv").write_bytes(text.encode())
    rows = [{"id": "a", "age": "1"}, {"id": f"b{separator}c", "age": "2"}]
    assert read_table(tmp_path / "t.csv", need=["age"]) == (["id", "age"], rows)
    assert table_of(f"sep={separator}{ending}{text[1:]}", "t.csv") == (
        ["id", "age"],
        rows,
    )  # as Excel may write it


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas(separator, ending):
    """Numbers are read, and said to be; names with commas, mixed marks and thousands are left as they are."""
    lines = ["id;age;mixed;big;n", "a,1;12,5;1,5;1.234,5;3", "b,2;-7;1.5;2.234,5;4", "c,3;;2,5;3.234,5;5"]
    text = ending.join(lines).replace(";", separator)
    with pytest.warns(UserWarning, match=r"t\.csv has decimal commas in age: 1,5 there is read as 1\.5"):
        rows = table_of(text, "t.csv")[1]
    assert rows[0] == {"id": "a,1", "age": "12.5", "mixed": "1,5", "big": "1.234,5", "n": "3"}
    assert [row["age"] for row in rows] == ["12.5", "-7", ""]


def test_commas_that_separate_are_no_decimal_commas():
    assert table_of('id,age\na,"1,234"\n', "t.csv")[1] == [{"id": "a", "age": "1,234"}]


def test_rows_may_lack_their_last_cells_unless_a_program_wrote_them():
    assert table_of("a,b\n1\n", "t.csv")[1] == [{"a": "1", "b": ""}]
    with pytest.raises(BadFile, match=r"t\.csv: row 1 has 1 cells under 2 columns: a row is cut short"):
        table_of("a,b\n1\n", "t.csv", exact=True)


def test_spaces_are_part_of_a_name_that_a_program_wrote():
    assert table_of("id;x,b\n a,1\n", "t.csv", exact=True) == (["id;x", "b"], [{"id;x": " a", "b": "1"}])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "t.csv is empty"),
        (b"a,b\n", "has a header but no rows"),
        (b"a,a\n1,2\n", "more than one column a"),
        (b"a,b\n1,2,3\n", "row 1 has 3 cells under 2 columns"),
        (b"a,c\n1,2\n", "has no column b; it has a, c"),
        (b'a,"b, mm"\n1,2\n', "has no column b; it has a, b, mm. A name with a comma in it cannot be given"),
        (b"a,b\n\xff,2\n", "is not text in UTF-8"),
        (b'a,b\n"' + b"x" * 200_000 + b"\n", "field larger than field limit"),
    ],
)
def test_errors_name_the_file(tmp_path, content, words):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(BadFile, match=f"t.csv.*{words}|{words}"):
        read_table(tmp_path / "t.csv", need=["b"])


def test_manifests_and_archives_are_read_alike(tmp_path):
    """A manifest with quoted names, and a table of a data set with semicolons."""
    for name in ("a,1.npz", "b.npz"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "set.csv").write_text('file;weight\n"a,1.npz";2\nb.npz;\n')
    found = find_sources(str(tmp_path / "set.csv"))
    assert [source.name for source in found] == [str(tmp_path / "a,1.npz"), str(tmp_path / "b.npz")]
    assert [dict(source.labels) for source in found] == [{"weight": "2"}, {}]
    (tmp_path / "labels.csv").write_text("id;age\na;1\n")
    assert open_archive(tmp_path).table("labels.csv", ["age"]) == [{"id": "a", "age": "1"}]
    (tmp_path / "labels.csv").write_bytes(b"id;age\n\xff;1\n")
    with pytest.raises(BadFile, match=r"labels\.csv is not text in UTF-8"):
        open_archive(tmp_path).table("labels.csv", ["age"])
