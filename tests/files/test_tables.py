"""Small csv tables: what people write in a spreadsheet, and what programs write, are read in one place."""

import pytest

from truesigma.files.disk import BadFile
from truesigma.files.find import find_sources
from truesigma.files.store import read_value
from truesigma.files.tables import read_table


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_spreadsheets(tmp_path, separator, ending):
    lines = ["\ufeffid, age ,,", "a,1,,", "", ",,,", '"b,c",2']
    text = ending.join(line.replace(",", separator) for line in lines)
    (tmp_path / "t.csv").write_bytes(text.encode())
    rows = [{"id": "a", "age": "1"}, {"id": f"b{separator}c", "age": "2"}]
    assert read_table(tmp_path / "t.csv", need=["age"]) == (["id", "age"], rows)
    (tmp_path / "t.csv").write_bytes(f"sep={separator}{ending}{text[1:]}".encode())  # as Excel may write it
    assert read_table(tmp_path / "t.csv") == (["id", "age"], rows)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas(tmp_path, separator, ending):
    """Numbers are read, and said to be; names with commas, mixed marks and thousands are left as they are."""
    lines = ["id;age;mixed;big;n", "a,1;12,5;1,5;1.234,5;3", "b,2;-7;1.5;2.234,5;4", "c,3;;2,5;3.234,5;5"]
    (tmp_path / "t.csv").write_text(ending.join(lines).replace(";", separator), newline="")
    with pytest.warns(UserWarning, match=r"t\.csv has decimal commas in age: 1,5 there is read as 1\.5"):
        rows = read_table(tmp_path / "t.csv")[1]
    assert rows[0] == {"id": "a,1", "age": "12.5", "mixed": "1,5", "big": "1.234,5", "n": "3"}
    assert [row["age"] for row in rows] == ["12.5", "-7", ""]


def table(folder, text, **options):
    (folder / "t.csv").write_text(text)
    return read_table(folder / "t.csv", **options)


def test_commas_that_separate_are_no_decimal_commas(tmp_path):
    assert table(tmp_path, 'id,age\na,"1,234"\n')[1] == [{"id": "a", "age": "1,234"}]


def test_rows_may_lack_their_last_cells_unless_a_program_wrote_them(tmp_path):
    assert table(tmp_path, "a,b\n1\n")[1] == [{"a": "1", "b": ""}]
    with pytest.raises(BadFile, match=r"row 1 .* has 1 cells under 2 columns"):
        table(tmp_path, "a,b\n1\n", exact=True)


def test_spaces_in_cells_that_a_program_wrote_are_kept(tmp_path):
    assert table(tmp_path, "id;x,b\n a,1\n", exact=True) == (["id;x", "b"], [{"id;x": " a", "b": "1"}])


@pytest.mark.parametrize("rows", ['a,1\nb,"2\nc,3\n', 'a,1\nb,"2\nc,3\nd,"4\n', '"a,1\nb,2\n'])
def test_a_quote_that_does_not_close_swallows_no_rows(tmp_path, rows):
    """Neither of labels nor of cases: for Arrow it closes where the file ends."""
    first = 1 if rows.startswith('"') else 2
    with pytest.raises(BadFile, match=f"row {first} below the header has a quote that does not close"):
        table(tmp_path, f"id,age\n{rows}")
    (tmp_path / "c.csv").write_text("id,target,location,scale\n" + rows.replace(",", ",1,1,"))
    with pytest.raises(BadFile, match=f"row {first} below the header has a quote that does not close"):
        read_value(tmp_path / "c.csv")


def test_a_pair_of_stray_quotes_swallows_no_rows(tmp_path):
    """A cell that holds what would be whole rows is refused; a text with a line break is kept."""
    rows = [f"s{k},{k}.5,note" for k in range(9)]
    rows[2], rows[6] = 's2,"2.5,note', 's6,6.5",note'
    with pytest.raises(BadFile, match="row 3 below the header has a quoted cell of 5 lines"):
        table(tmp_path, "\n".join(["id,age,comment", *rows, ""]))
    kept = table(tmp_path, 'id,age,comment\na,1,"one, two\nthree"\nb,2,c\n')[1]
    assert [row["comment"] for row in kept] == ["one, two\nthree", "c"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "t.csv is empty"),
        (b"a,b\n", "has a header but no rows"),
        (b"a,a\n1,2\n", "more than one column a"),
        (b"a,b\n1,2,3\n", "row 1 below the header has 3 cells under 2 columns"),
        (b"a,c\n1,2\n", "has no column b; it has a, c"),
        (b'a,"b, mm"\n1,2\n', "has no column b; it has a, b, mm. A name with a comma in it cannot be given"),
        (b"a,b\n\x81,2\n", "is not text in UTF-8"),
    ],
)
def test_errors_name_the_file(tmp_path, content, words):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(BadFile, match=f"t.csv.*{words}|{words}"):
        read_table(tmp_path / "t.csv", need=["b"])


def test_a_manifest_with_quoted_names(tmp_path):
    for name in ("a,1.npz", "b.npz"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "set.csv").write_text('file;weight\n"a,1.npz";2\nb.npz;\n')
    sources = find_sources(str(tmp_path / "set.csv"))
    assert [source.name for source in sources] == [str(tmp_path / "a,1.npz"), str(tmp_path / "b.npz")]
    assert [dict(source.labels) for source in sources] == [{"weight": "2"}, {}]
