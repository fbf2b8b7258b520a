"""Bad .parquet files: changed pages are known by their checksums."""

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.disk import BadFile
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
