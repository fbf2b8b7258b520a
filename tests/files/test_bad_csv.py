"""Bad tables of text: each is refused by name; odd labels come back as they were, and formulas are said."""

import warnings

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.disk import BadFile
from truesigma.files.store import read_value, write

CSV = {
    "no scale": ("target,location\n1,2\n", "location is given without an uncertainty"),
    "names of another framework": ("image,y_true,Pred,sigma\n1,2,3,4\n", "Rename y_true to target, Pred"),
    "a patient and a group": ("y,pred,sd,PatientID,site\n1,2,3,4,5\n", "site to group, PatientID to"),
    "a quantile in two ways": ("target,q025,q50,q95\n1,2,3,4\n", "'q025' could be .* q_0.025=q025"),
    "quartiles in two ways": ("target,q1,q3\n1,2,3\n", "'q1' could be"),
    "a percentage in two ways": ("target,p0.5,p50\n1,2,3\n", "'p0.5' could be"),
    "one quantile": ("target,q05\n1,2\n", "column 'location' is missing"),
    "a quantile twice": (
        "target,q05,a-lo-90,q95\n1,2,3,4\n",
        "'q05' and 'a-lo-90' are both the quantile at 0.05",
    ),
    "quantiles of unlike outputs": (
        "target_0,target_1,q05_0,q05_1,q95\n1,2,3,4,5\n",
        "not of the same outputs",
    ),
    "quantiles and bounds": (
        "target,lower_90,upper_90,q05,q95\n1,2,3,4,5\n",
        "of bounds and of quantiles",
    ),
    "quantiles and samples": ("target,sample_0,sample_1,q05,q95\n1,2,3,4,5\n", "of quantiles and of samples"),
    "samples and a location": (
        "target,location,sample_0,sample_1\n1,2,3,4\n",
        "location is given beside samples",
    ),
    "an uncertainty of another name": ("target,location,unc\n1,2,3\n", "without an uncertainty; .* unc"),
    "a log-variance": ("gt,location,log_var\n1,2,3\n", "gt to target, .*the exponential of log_var"),
    "half of a split": ("target,location,aleatoric\n1,2,3\n", "aleatoric is given without epistemic"),
    "doubled": ("target,location,scale,target\n1,2,3,4\n", "column 'target' appears 2 times"),
    "plain and numbered": ("target,target_0,location,scale\n1,1,2,3\n", "'target', 'target_0' are all there"),
    "gap": ("target_0,target_2,location_0,location_1,scale\n1,1,2,2,3\n", "'target_1' is missing"),
    "too few targets": (
        "target,location_0,location_1,scale\n1,2,2,3\n",
        "target has shape .* the location's",
    ),
    "too many targets": ("target_0,target_1,location,scale\n1,1,2,3\n", "target has shape"),
    "too many scales": ("target,location,scale_0,scale_1\n1,2,3,3\n", "scale has shape"),
    "text": ("target,location,scale\n1,2,3\n4,five,6\n", "row 2 .*'five' in column 'location'"),
    "decimal comma": ('target,location,scale\n"1,500",2,3\n', "row 1 .*'1,500' in column 'target'"),
    "mask": ("target,location,scale,mask\n1,2,3,maybe\n", "'maybe' in column 'mask'; expected true"),
    "empty mask": ("target,location,scale,mask\n1,2,3,\n", "row 1 .*'' in column 'mask'"),
    "empty target": ("target,location,scale\n1,2,3\n,5,6\n", "target is missing in 1 of 2"),
    "all targets empty": ("target,location,scale\n,2,3\n,5,6\n", "target is missing in 2 of 2 places"),
    "empty location": ("target,location,scale\n1,,3\n", "location is not finite in 1 place"),
    "empty scale": ("target,location,scale\n1,2,\n", "scale is negative or not finite in 1 place"),
    "empty weight": ("target,location,scale,weight\n1,2,3,\n", "weight is negative or not finite"),
    "empty group": ("target,location,scale,group\n1,2,3,a\n1,2,3,\n", "'group' is empty .* the first is row"),
    "negative scale": ("target,location,scale\n1,2,3\n4,5,-6\n", r"scale is negative .*at index \(1,\)"),
    "negative variance": ("target,location,aleatoric,epistemic\n1,2,3,-1\n", "epistemic is negative"),
    "disagreement": ("target,location,scale,aleatoric,epistemic\n1,2,3,3,3\n", "do not agree"),
    "short row": ("target,location,scale\n1,2,3\n4,5\n", "row 2 .* 2 cells under 3 columns"),
    "long row": ("target,location,scale\n1,2,3\n4,5,6,7\n", "row 2 .* 4 cells under 3 columns"),
    "no rows": ("target,location,scale\n", "there are columns and no rows"),
    "decimal commas and points": ("target;location;scale\n1,5;2.5;3\n", "'1,5' in column 'target'"),
    "two laws": ("target,location,scale,law\n1,2,3,normal\n1,2,3,laplace\n", "'law' holds laplace, normal"),
    "unknown law": ("target,location,scale,law\n1,2,3,cauchy\n", "law is 'cauchy'; expected one of normal"),
    "law without its table": ("target,location,scale,law\n1,2,3,empirical\n", "law 'empirical' .*'values'"),
}


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path, name):
    text, message = CSV[name]
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadFile, match=f"(?s)bad.csv.*{message}"):
        read_value(path)


LABELS = ["a\rb", "\r", "a\r\nb", "a\nb", 'a"b', "a,b", " a ", "\x1b[31m", "=1+1", "\ufeffx", "ä"]


@pytest.mark.filterwarnings("ignore:.*formulas")
@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_odd_labels_come_back(tmp_path, suffix):
    count = len(LABELS)
    cases = ts.Cases(
        ts.Prediction(np.arange(count), aleatoric=np.ones(count)), np.arange(count), id=np.array(LABELS)
    )
    write(cases, tmp_path / f"a{suffix}")
    assert read_value(tmp_path / f"a{suffix}").id.tolist() == LABELS


def test_a_nul_is_refused_or_kept(tmp_path):
    cases = ts.Cases(ts.Prediction([1.0], aleatoric=[1.0]), [1.0], id=np.array(["a\0b"]))
    with pytest.raises(BadFile, match=r"'id' holds a NUL, which no \.csv file can"):
        write(cases, tmp_path / "a.csv")
    write(cases, tmp_path / "a.parquet")
    assert read_value(tmp_path / "a.parquet").id.tolist() == ["a\0b"]


def test_formulas_are_said(tmp_path):
    cases = ts.Cases(ts.Prediction([1.0, 2.0], aleatoric=[1.0, 1.0]), [1.0, 1.0], id=np.array(["-1", "=1+1"]))
    with pytest.warns(UserWarning, match=r"a\.csv: cells of 'id' begin with .* kept as they are"):
        write(cases, tmp_path / "a.csv")


def test_warnings(tmp_path):
    """What is passed over but looks like a slip is said; other columns are not."""
    path = tmp_path / "a.csv"
    path.write_text("id,target,location,scale,weights,Group,note\na,1,2,3,1,g,x\na,1,2,3,1,g,y\n")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        read_value(path)
    texts = sorted(str(w.message) for w in seen)
    assert [t.split(";")[0] for t in texts] == [
        "'Group', 'weights' are not read",
        "1 id(s) appear more than once, the first is a",
    ]
    path.write_text("id,target,location,scale,note,site,age_3\na,1,2,3,1,g,x\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_value(path)
