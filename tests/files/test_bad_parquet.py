"""Bad .parquet files: pages by their checksums, and a footer, which has none, by what it says elsewhere."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.chunks import chunked_cases
from truesigma.files.disk import BadFile
from truesigma.files.find import find_sources
from truesigma.files.pages import read_struct
from truesigma.files.store import read_value, write


def test_a_damaged_parquet_file_of_ours(tmp_path):
    """Its pages carry checksums, so that other numbers than the written ones are never read."""
    rng = np.random.default_rng(0)
    write(ts.Prediction(rng.normal(size=500), aleatoric=rng.gamma(2.0, size=500)), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for place in (200, 2000, 6000):
        (tmp_path / "b.parquet").write_bytes(whole[:place] + b"\0\1" * 10 + whole[place + 20 :])
        with pytest.raises(BadFile, match=r"b.parquet is damaged or cut short .*copy it again"):
            read_value(tmp_path / "b.parquet")


def test_a_footer_that_forgets_rows(tmp_path):
    """The number of rows is 200 in three places of the footer; one that says 8 is not believed."""
    cases = ts.Cases(ts.Prediction(np.arange(200.0), aleatoric=np.ones(200)), np.arange(200.0))
    write(cases, tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    refused = 0
    for place in range(len(whole) - 2):
        if whole[place : place + 2] == b"\x90\x03":  # 200 as thrift writes it
            (tmp_path / "b.parquet").write_bytes(whole[:place] + b"\x90\x00" + whole[place + 2 :])
            for read_it in (read_value, lambda path: next(chunked_cases(find_sources(str(path))[0]))):
                try:
                    assert len(read_it(tmp_path / "b.parquet")) == 200
                except BadFile:
                    refused += 1
    assert refused >= 4


def test_pages_of_other_writers_are_walked(tmp_path):
    """Codecs, versions, dictionaries and small pages: the heads of all are understood."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rng, count = np.random.default_rng(0), 3000
    table = pa.table(
        {
            **{name: rng.gamma(2.0, size=count) for name in ("target", "location", "scale")},
            "id": [f"p{k}" for k in range(count)],
            "others": [{"a": [k] * (k % 3)} for k in range(count)],
        }
    )
    for codec in ("none", "snappy", "zstd"):
        for version in ("1.0", "2.0"):
            options = {"compression": codec, "data_page_version": version, "data_page_size": 1 << 10}
            parquet.write_table(table, tmp_path / "a.parquet", row_group_size=1100, **options)
            found = chunked_cases(find_sources(str(tmp_path / "a.parquet"))[0])
            assert sum(len(some) for some in found) == count


def test_a_page_that_asks_for_gigabytes(tmp_path):
    cases = ts.Cases(ts.Prediction(np.arange(200.0), aleatoric=np.ones(200)), np.arange(200.0))
    write(cases, tmp_path / "a.parquet")
    whole = bytearray((tmp_path / "a.parquet").read_bytes())
    # The first page's head: its kind, then the sizes that are replaced by one of five bytes, as numbers are written.
    fields, size = read_struct(bytes(whole[4:200]))
    assert fields[2] > 0
    at = 4 + bytes(whole[4:20]).index(b"\x15", 1) + 1
    length = 1 + next(k for k in range(5) if whole[at + k] < 128)
    whole[at : at + length] = b"\xfe\xff\xff\xff\x0f"
    (tmp_path / "a.parquet").write_bytes(whole)
    with pytest.raises(BadFile, match=r"a\.parquet is damaged"):
        list(chunked_cases(find_sources(str(tmp_path / "a.parquet"))[0]))
    assert size < 200


def grouped_parquet(path):
    write(
        ts.Cases(
            ts.Prediction([1.0, 2.0], aleatoric=[1.0, 1.0]), [1.0, 2.0], group={"site": ["a", "b"]}, unit="mm"
        ),
        path,
    )
    return path.read_bytes()


def test_doubled_columns_of_groups(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    grouped_parquet(path)
    table = parquet.read_table(path)
    parquet.write_table(table.append_column("group:site", table.column("group:site")), path)
    with pytest.raises(BadFile, match=r"a\.parquet.*column 'group:site' appears 2 times"):
        read_value(path)


def test_a_footer_whose_texts_lost_their_name(tmp_path):
    path = tmp_path / "a.parquet"
    data = grouped_parquet(path)
    path.write_bytes(data.replace(b"truesigma", b"trwesigma", 1))
    with pytest.raises(BadFile, match="contradicts itself about its unit, law or checkpoint"):
        read_value(path)


def test_a_footer_that_would_end_the_process(tmp_path):
    """Where a column is said to be required, its histograms have a level too many, and Arrow itself aborts."""
    path = tmp_path / "a.parquet"
    data = grouped_parquet(path)
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8]
    place = footer.index(b"group:site")
    for at in range(place - 12, place):  # the byte before its name that says whether it may be missing
        if footer[at] == 2:
            path.write_bytes(data[: -8 - size] + footer[:at] + b"\0" + footer[at + 1 :] + data[-8:])
            with pytest.raises(BadFile, match=r"a\.parquet is damaged"):
                read_value(path)


def test_a_list_that_is_longer_than_the_file():
    with pytest.raises(ValueError, match="longer than what holds it"):
        read_struct(bytes([0x19, 0xF1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x00]))
