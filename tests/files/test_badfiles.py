"""Bad files: each is refused with a ValueError that says what was found, what was expected and what to do."""

import warnings

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.chunks import chunked_cases
from truesigma.files.disk import BadFile, check_folder
from truesigma.files.find import find_sources
from truesigma.files.pages import read_head
from truesigma.files.store import from_frame, read, read_cases, write

GOOD = "target,location,scale\n1,2,3\n4,5,6\n"

CSV = {
    "no scale": (
        "target,location\n1,2\n",
        "location is given without an uncertainty; expected location with scale",
    ),
    "no location": (
        "target,scale\n1,2\n",
        "column 'location' is missing; there are 'target', 'scale', expected",
    ),
    "names of another framework": (
        "image,y_true,Pred,sigma\n1,2,3,4\n",
        "location_1. Rename y_true to target, Pred to location, sigma to scale, if that is what they are.",
    ),
    "names of yet others": (
        "true_age,yhat,unc,patientID\n1,2,3,4\n",
        "Rename true_age to target, yhat to location, unc to scale, patientID to patient, if that is what they are.",
    ),
    "a patient and a group": (
        "y,pred,sd,PatientID,site\n1,2,3,4,5\n",
        "sd to scale, site to group, PatientID to patient, if that is what they are.",
    ),
    "one that is the group": (
        "y,pred,sd,group,site\n1,2,3,4,5\n",
        "Rename y to target, pred to location, sd to scale, if that is what they are.",
    ),
    "quantiles": (
        "target,q0.05,q50,q95,p1\n1,2,3,4,5\n",
        "Rename quantiles such as q0.05 and p1 to lower_90 and upper_90",
    ),
    "an uncertainty of another name": (
        "target,location,unc\n1,2,3\n",
        "location is given without an uncertainty; .* Rename unc to scale, if that is what they are.",
    ),
    "a log-variance": (
        "gt,location,log_var\n1,2,3\n",
        "Rename gt to target, .*Write the exponential of log_var as variance.",
    ),
    "capital letters": (
        "Target,Location,SCALE\n1,2,3\n",
        "Rename Target to target, Location to location, SCALE to scale, if that is what they are.",
    ),
    "half of a split": (
        "target,location,aleatoric\n1,2,3\n",
        "aleatoric is given without epistemic; give both",
    ),
    "doubled": ("target,location,scale,target\n1,2,3,4\n", "column 'target' appears 2 times"),
    "doubled output": ("target_0,target_0,location_0,scale\n1,1,2,3\n", "column 'target_0' appears 2 times"),
    "plain and numbered": (
        "target,target_0,location,scale\n1,1,2,3\n",
        "columns 'target' and 'target_0' are both",
    ),
    "gap": (
        "target_0,target_2,location_0,location_1,scale\n1,1,2,2,3\n",
        "column 'target_1' is missing beside 'target_2'",
    ),
    "too few targets": ("target,location_0,location_1,scale\n1,2,2,3\n", "expected target_0, target_1"),
    "too many targets": ("target_0,target_1,location,scale\n1,1,2,3\n", "expected target."),
    "too many scales": ("target,location,scale_0,scale_1\n1,2,3,3\n", "expected scale."),
    "text": (
        "target,location,scale\n1,2,3\n4,five,6\n",
        "row 2 below the header holds 'five' in column 'location'",
    ),
    "decimal comma": (
        'target,location,scale\n"1,5",2,3\n',
        "row 1 below the header holds '1,5' in column 'target'",
    ),
    "date": ("target,location,scale\n2020-01-01,2,3\n", "holds '2020-01-01' in column 'target'"),
    "mask": (
        "target,location,scale,mask\n1,2,3,maybe\n",
        "holds 'maybe' in column 'mask'; expected true or false",
    ),
    "empty mask": ("target,location,scale,mask\n1,2,3,\n", "1 empty cells; expected true or false"),
    "empty target": (
        "target,location,scale\n1,2,3\n,5,6\n",
        r"target is missing in 1 of 2 places.*--mask-missing",
    ),
    "all targets empty": ("target,location,scale\n,2,3\n,5,6\n", "target is missing in 2 of 2 places"),
    "empty location": ("target,location,scale\n1,,3\n", "location is not finite in 1 place"),
    "empty scale": ("target,location,scale\n1,2,\n", r"scale is empty or not finite at index \(0,\)"),
    "empty weight": ("target,location,scale,weight\n1,2,3,\n", "weight is negative or not finite"),
    "empty group": (
        "target,location,scale,group\n1,2,3,a\n1,2,3,\n",
        "'group' is empty in 1 rows, the first is row 2",
    ),
    "infinite": ("target,location,scale\ninf,2,3\n", "target is not finite"),
    "overflow": ("target,location,scale\n1e999,2,3\n", "target is not finite"),
    "negative scale": (
        "target,location,scale\n1,2,3\n4,5,-6\n",
        r"scale is negative at index \(1,\) .*wrong in 1 place",
    ),
    "no uncertainty": ("target,location,scale\n1,2,0\n", r"scale is 0 at index \(0,\)"),
    "negative variance": ("target,location,aleatoric,epistemic\n1,2,3,-1\n", "epistemic is negative"),
    "disagreement": (
        "target,location,scale,aleatoric,epistemic\n1,2,3,3,3\n",
        "do not agree; expected scale",
    ),
    "short row": ("target,location,scale\n1,2,3\n4,5\n", "Expected 3 columns, got 2.*cut short"),
    "long row": ("target,location,scale\n1,2,3\n4,5,6,7\n", "Expected 3 columns, got 4"),
    "no rows": ("target,location,scale\n", "there are columns and no rows"),
    "decimal commas and points": (
        "target;location;scale\n1,5;2.5;3\n",
        "row 1 below the header holds '1,5' in column 'target'; expected a number with a decimal point",
    ),
    "two laws": (
        "target,location,scale,law\n1,2,3,normal\n1,2,3,laplace\n",
        "'law' holds laplace, normal; expected the same",
    ),
    "unknown law": ("target,location,scale,law\n1,2,3,cauchy\n", "law is 'cauchy'; expected one of normal"),
    "law without its table": (
        "target,location,scale,law\n1,2,3,empirical\n",
        "law 'empirical' .*missing.*'values'",
    ),
}


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path, name):
    text, message = CSV[name]
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadFile, match=f"(?s)bad.csv.*{message}"):
        read(path)


def test_not_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes("gewicht_größe,target,location,scale\n1,1,2,3\n".encode("latin-1"))
    with pytest.raises(BadFile, match="not text in UTF-8"):
        read(tmp_path / "a.csv")


def test_a_damaged_parquet_file_of_ours(tmp_path):
    """Its pages carry checksums, so that other numbers than the written ones are never read."""
    rng = np.random.default_rng(0)
    write(ts.Prediction(rng.normal(size=500), rng.gamma(2.0, size=500)), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for place in (200, 2000, 6000):
        (tmp_path / "b.parquet").write_bytes(whole[:place] + b"\0\1" * 10 + whole[place + 20 :])
        with pytest.raises(BadFile, match=r"b.parquet is damaged or cut short .*copy it again"):
            read(tmp_path / "b.parquet")


def files(folder):
    """The same cases as a good file of each kind."""
    cases = ts.Cases(ts.Prediction(np.arange(1000.0), np.ones(1000), np.ones(1000)), np.arange(1000.0))
    for suffix in (".npz", ".csv", ".parquet"):
        write(cases, folder / f"good{suffix}")
        yield folder / f"good{suffix}"


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999])
def test_truncated(tmp_path, share):
    for path in files(tmp_path):
        content = path.read_bytes()
        kept = content[: int(len(content) * share)]
        # A table of text that ends with a row is whole as far as anyone can tell; this one ends inside a row.
        path.write_bytes(kept.rpartition(b",")[0] if path.suffix == ".csv" else kept)
        with pytest.raises(
            BadFile, match=r"good\.(npz|parquet|csv)(?s:.*)(cut short|damaged|missing|empty|no rows)"
        ):
            read(path)


def test_damaged_inside(tmp_path):
    for path in files(tmp_path):
        if path.suffix == ".npz":
            content = bytearray(path.read_bytes())
            content[len(content) // 3] ^= 0xFF
            path.write_bytes(content)
            with pytest.raises(BadFile, match="damaged"):
                read(path)


def test_not_what_the_name_says(tmp_path):
    paths = list(files(tmp_path))
    for path in paths:
        for other in paths:
            if other.suffix != path.suffix:
                wrong = tmp_path / f"wrong{other.suffix}"
                wrong.write_bytes(path.read_bytes())
                with pytest.raises(BadFile, match=rf"not the \{other.suffix} file its name says"):
                    read(wrong)
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(BadFile, match="a single numpy array"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_missing_empty_folder(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with pytest.raises(BadFile, match="there is no file"):
        read(path)
    path.touch()
    with pytest.raises(BadFile, match="is empty; was it written to the end"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadFile, match="is a folder"):
        read(path)
    with pytest.raises(BadFile, match="is a folder"):
        write(ts.Prediction([1.0], [1.0]), path)


def test_endings(tmp_path):
    for name in ("a.xlsx", "a", "a.csv.gz", "a.pkl"):
        (tmp_path / name).write_text(GOOD)
        with pytest.raises(BadFile, match=r"expected \.npz, \.csv or \.parquet"):
            read(tmp_path / name)
        with pytest.raises(BadFile, match=r"expected \.npz, \.csv or \.parquet"):
            write(ts.Prediction([1.0], [1.0]), tmp_path / name)


def test_output_folder(tmp_path):
    with pytest.raises(BadFile, match=r"the folder .*none does not exist; make it first"):
        write(ts.Prediction([1.0], [1.0]), tmp_path / "none" / "a.npz")
    with pytest.raises(BadFile, match="not a regular file"):
        check_folder("/dev/null")


def test_what_cannot_be_written(tmp_path):
    draws = ts.Draws([[1.0]], [[1.0]])
    for value in (draws, ts.Cases(ts.decompose(draws), [1.0], draws=draws)):
        with pytest.raises(ValueError, match="would lose the draws"):
            write(value, tmp_path / "a.csv")
    with pytest.raises(ValueError, match="a dict cannot be written; expected Cases"):
        write({"location": [1.0]}, tmp_path / "a.npz")
    with pytest.raises(ValueError, match="without the aleatoric/epistemic split, and a file cannot"):
        write(ts.Cases(ts.Prediction([1.0], [1.0]), [1.0], draws=draws), tmp_path / "a.npz")


def test_no_target(tmp_path):
    (tmp_path / "a.csv").write_text("location,scale\n1,2\n")
    assert isinstance(read(tmp_path / "a.csv"), ts.Prediction)
    with pytest.raises(BadFile, match="has no target, without which nothing can be fitted or scored"):
        read_cases(tmp_path / "a.csv")


def test_frames():
    pandas = pytest.importorskip("pandas")
    doubled = pandas.DataFrame([[1.0, 2.0, 3.0]], columns=["target", "target", "location"])
    with pytest.raises(ValueError, match="column 'target' appears 2 times"):
        from_frame(doubled)
    text = pandas.DataFrame({"target": [1.0, 2.0], "location": ["1", "x"], "scale": [1.0, 1.0]})
    with pytest.raises(ValueError, match=r"column 'location' holds .*string, not numbers \(row 1: '1'\)"):
        from_frame(text)
    with pytest.raises(ValueError, match="object cannot be read as a table"):
        from_frame(object())


def test_warnings(tmp_path):
    """What is passed over but looks like a slip is said; other columns are not."""
    path = tmp_path / "a.csv"
    path.write_text("id,target,location,scale,weights,Group,note\na,1,2,3,1,g,x\na,1,2,3,1,g,y\n")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        read(path)
    texts = sorted(str(w.message) for w in seen)
    assert [t.split(";")[0] for t in texts] == [
        "'Group', 'weights' are not read",
        "1 id(s) stand more than once, the first is a",
    ]
    path.write_text("id,target,location,scale,note,site,age_3\na,1,2,3,1,g,x\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(path)


def test_a_footer_that_forgets_rows(tmp_path):
    """The number of rows is 200 in three places of the footer; one that says 8 is not believed."""
    cases = ts.Cases(ts.Prediction(np.arange(200.0), np.ones(200)), np.arange(200.0))
    write(cases, tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    refused = 0
    for place in range(len(whole) - 2):
        if whole[place : place + 2] == b"\x90\x03":  # 200 as thrift writes it
            (tmp_path / "b.parquet").write_bytes(whole[:place] + b"\x90\x00" + whole[place + 2 :])
            for read_it in (read, lambda path: next(chunked_cases(find_sources(str(path))[0]))):
                try:
                    assert len(read_it(tmp_path / "b.parquet")) == 200
                except BadFile:
                    refused += 1
    assert refused >= 4


LABELS = ["a\rb", "\r", "a\r\nb", "a\nb", 'a"b', "a,b", " a ", "\x1b[31m", "=1+1", "\ufeffx", "ä"]


@pytest.mark.filterwarnings("ignore:.*formulas")
@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_odd_labels_come_back(tmp_path, suffix):
    count = len(LABELS)
    cases = ts.Cases(ts.Prediction(np.arange(count), np.ones(count)), np.arange(count), id=np.array(LABELS))
    write(cases, tmp_path / f"a{suffix}")
    assert read(tmp_path / f"a{suffix}").id.tolist() == LABELS


def test_a_nul_is_refused_or_kept(tmp_path):
    cases = ts.Cases(ts.Prediction([1.0], [1.0]), [1.0], id=np.array(["a\0b"]))
    with pytest.raises(BadFile, match=r"'id' holds a NUL, which no \.csv file can"):
        write(cases, tmp_path / "a.csv")
    write(cases, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").id.tolist() == ["a\0b"]


def test_formulas_are_said(tmp_path):
    cases = ts.Cases(ts.Prediction([1.0, 2.0], [1.0, 1.0]), [1.0, 1.0], id=np.array(["-1", "=1+1"]))
    with pytest.warns(UserWarning, match=r"a\.csv: cells of 'id' begin with .* kept as they are"):
        write(cases, tmp_path / "a.csv")


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
    cases = ts.Cases(ts.Prediction(np.arange(200.0), np.ones(200)), np.arange(200.0))
    write(cases, tmp_path / "a.parquet")
    whole = bytearray((tmp_path / "a.parquet").read_bytes())
    # The first page's head: its kind, then the sizes that are replaced by one of five bytes, as numbers are written.
    fields, size = read_head(bytes(whole[4:200]))
    assert fields[2] > 0
    at = 4 + bytes(whole[4:20]).index(b"\x15", 1) + 1
    length = 1 + next(k for k in range(5) if whole[at + k] < 128)
    whole[at : at + length] = b"\xfe\xff\xff\xff\x0f"
    (tmp_path / "a.parquet").write_bytes(whole)
    with pytest.raises(BadFile, match=r"a\.parquet is damaged"):
        list(chunked_cases(find_sources(str(tmp_path / "a.parquet"))[0]))
    assert size < 200


def test_an_archive_whose_list_is_swallowed(tmp_path):
    path = tmp_path / "a.npz"
    write(ts.Cases(ts.Prediction([1.0], [1.0]), [1.0], unit="mm"), path)
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    data[second + 32 : second + 34] = b"\xff\xff"  # the length of its comment
    path.write_bytes(data)
    with pytest.raises(BadFile, match=r"a\.npz is damaged: its end says 5 arrays, and its list has \d"):
        read(path)


def grouped_parquet(path):
    write(
        ts.Cases(ts.Prediction([1.0, 2.0], [1.0, 1.0]), [1.0, 2.0], group={"site": ["a", "b"]}, unit="mm"),
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
        read(path)


def test_a_footer_whose_texts_lost_their_name(tmp_path):
    path = tmp_path / "a.parquet"
    data = grouped_parquet(path)
    path.write_bytes(data.replace(b"truesigma", b"trwesigma", 1))
    with pytest.raises(BadFile, match="its unit, law or checkpoint are not what they are elsewhere"):
        read(path)


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
                read(path)


def test_a_list_that_is_longer_than_the_file():
    with pytest.raises(ValueError, match="longer than what holds it"):
        read_head(bytes([0x19, 0xF1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x00]))


def test_a_nifti_file_of_a_negative_size(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    path = tmp_path / "a_location.nii"
    nibabel.save(nibabel.Nifti1Image(np.ones((2, 3, 4), np.float32), np.eye(4)), path)
    data = bytearray(path.read_bytes())
    data[44:48] = b"\xff" * 4
    path.write_bytes(data)
    with pytest.raises(BadFile, match=r"a_location\.nii is damaged"):
        list(chunked_cases(find_sources(str(path))[0]))
