"""Files give back what was put in: bit for bit, whatever the kind of file, array or frame."""

import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truesigma as ts
from truesigma.core.values import raw_spread
from truesigma.files.store import from_frame, read, read_new, read_value, write

KINDS = (".npz", ".parquet", ".csv")
FINITE = st.floats(-1e300, 1e300)
VARIANCE = st.floats(1e-300, 1e300)


def host(array):
    return None if array is None else np.asarray(array)


def same(a, b, *, dtype=True):
    """Equal to the last bit; NaN equals NaN."""
    if a is None or b is None:
        return a is None and b is None
    a, b = host(a), host(b)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f") and (not dtype or a.dtype == b.dtype)


def same_prediction(a, b, **options):
    parts = ("location", "aleatoric", "epistemic", "mask")
    return (
        all(same(getattr(a, name), getattr(b, name), **options) for name in parts)
        and same(raw_spread(a), raw_spread(b), **options)
        and a.law.to_dict() == b.law.to_dict()
    )


def sample(shape, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    location, a, e, noise = rng.lognormal(size=(4, *shape)).astype(dtype)
    return location, a, e, (location + noise).astype(dtype)


@pytest.mark.parametrize("suffix", KINDS)
@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
def test_cases_come_back(tmp_path, suffix, shape, dtype, law):
    location, a, e, target = sample(shape, dtype=dtype)
    mask = np.ones(shape, bool)
    mask[2] = False
    location[2] = target[2] = np.nan  # outside the mask nothing is looked at
    prediction = ts.Prediction(location, aleatoric=a, epistemic=e, law=law, spread=e / 2, mask=mask)
    cases = ts.Cases(
        prediction, target, group=list("aabbccd"), weight=np.arange(7.0), unit="mm", id=list("tuvwxyz")
    )
    write(cases, tmp_path / f"cases{suffix}")
    again = read_value(tmp_path / f"cases{suffix}")
    exact = suffix != ".csv"  # a .csv holds the same numbers, all in double precision
    assert isinstance(again, ts.Cases)
    assert same_prediction(again.prediction, prediction, dtype=exact)
    assert same(again.target, target, dtype=exact)
    assert same(again.weight, cases.weight)
    assert same(again.group, cases.group)
    assert same(again.id, cases.id)
    assert again.unit == "mm"


@given(st.lists(st.tuples(FINITE, FINITE, VARIANCE, VARIANCE), min_size=1, max_size=5))
@pytest.mark.parametrize("suffix", KINDS)
def test_any_double_comes_back(tmp_path_factory, suffix, rows):
    target, location, a, e = np.array(rows).T
    path = tmp_path_factory.mktemp("any") / f"cases{suffix}"
    write(ts.Cases(ts.Prediction(location, aleatoric=a, epistemic=e), target), path)
    again = read(path)
    assert same(again.target, target)
    assert same(again.prediction.location, location)
    assert same(again.prediction.aleatoric, a)
    assert same(again.prediction.epistemic, e)


@given(st.lists(VARIANCE, min_size=1, max_size=5))
@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
@pytest.mark.parametrize("suffix", KINDS)
def test_any_variance_without_split_comes_back(tmp_path_factory, suffix, law, values):
    """Not every variance is the square of a double: then the variance itself is written, not the scale."""
    path = tmp_path_factory.mktemp("any") / f"total{suffix}"
    write(ts.Prediction(np.zeros(len(values)), aleatoric=np.array(values), law=law), path)
    again = read_value(path)
    assert same(again.aleatoric, np.array(values))
    assert again.epistemic is None


def test_a_scale_is_written_as_it_was_given(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("target,location,scale\n1.0,2.0,0.1\n3.0,4.0,0.3\n")
    write(read_value(path), tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == path.read_text()


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 2), (3, 5, 2, 4, 6)])
@pytest.mark.parametrize("law", [ts.Normal(), ts.Laplace()])
def test_draws_come_back(tmp_path, shape, law):
    rng = np.random.default_rng(1)
    mean = rng.normal(size=shape).astype(np.float32)
    variance = rng.lognormal(size=(shape[0], shape[1], *[1] * (len(shape) - 2))).astype(np.float32)
    draws = ts.Draws(mean, variance, law=law)
    write(draws, tmp_path / "draws.npz")
    again = read_value(tmp_path / "draws.npz")
    assert isinstance(again, ts.Draws)
    assert same(again.mean, mean)
    assert same(again.variance, variance)
    assert again.law == law
    with_target = ts.Cases(ts.decompose(draws), mean[0], draws=draws, group=list("aabbc"))
    write(with_target, tmp_path / "cases.npz")
    assert {"mean.npy", "variance.npy", "target.npy", "group.npy", "law.npy"} == set(
        zipfile.ZipFile(tmp_path / "cases.npz").namelist()
    )
    found = read(tmp_path / "cases.npz")
    assert same_prediction(found.prediction, with_target.prediction)
    assert same(found.draws.mean, mean)


def test_a_prediction_made_otherwise_is_kept_beside_its_draws(tmp_path):
    draws = ts.Draws([[0.0, 1.0], [2.0, 5.0]], [[1.0, 2.0], [4.0, 8.0]])
    other = ts.decompose(draws, aleatoric="geometric", ddof=1)
    write(ts.Cases(other, [1.0, 2.0], draws=draws), tmp_path / "cases.npz")
    found = read(tmp_path / "cases.npz")
    assert same_prediction(found.prediction, other)
    assert same(found.draws.variance, draws.variance)


def test_dense_outputs_come_back_from_npz_and_are_refused_by_tables(tmp_path):
    location, a, e, target = sample((2, 3, 4, 5))
    cases = ts.Cases(ts.Prediction(location, aleatoric=a, epistemic=e), target)
    write(cases, tmp_path / "dense.npz")
    assert same(read(tmp_path / "dense.npz").target, target)
    with pytest.raises(ValueError, match=r"dense outputs to \.npz"):
        write(cases, tmp_path / "dense.csv")


def test_torch_arrays_are_written(tmp_path):
    torch = pytest.importorskip("torch")
    location, a, e, target = sample((5, 2), dtype=np.float32)
    location, a, e, target = (torch.asarray(x) for x in (location, a, e, target))
    write(ts.Cases(ts.Prediction(location, aleatoric=a, epistemic=e), target), tmp_path / "t.npz")
    found = read(tmp_path / "t.npz")
    assert same(found.prediction.aleatoric, a)
    assert same(found.target, target)


# Tables ------------------------------------------------------------------------------------------------------------


def test_scale_is_a_deviation_or_b(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("target,location,scale\n1,2,3\n")
    assert read_value(path).prediction.variance.tolist() == [9.0]
    assert read_value(path, law="laplace").prediction.variance.tolist() == [18.0]  # 2 b^2
    assert read_value(path, law=ts.Laplace()).prediction.scale.tolist() == [3.0]


def test_one_scale_serves_several_outputs_and_order_of_columns_does_not_matter(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("scale,location_1,target_0,site,target_1,location_0,group\n3,2,5,x,6,1,g\n")
    cases = read(path)
    assert cases.prediction.location.tolist() == [[1.0, 2.0]]
    assert cases.target.tolist() == [[5.0, 6.0]]
    assert cases.prediction.scale.tolist() == [[3.0, 3.0]]
    assert cases.group.tolist() == ["g"]
    assert cases.prediction.epistemic is None


def test_law_and_unit_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("target,location,scale,law,unit\n1,2,3,laplace,months\n1,2,3,laplace,months\n")
    cases = read(path)
    assert cases.prediction.law == ts.Laplace()
    assert cases.unit == "months"
    assert read(path, law="laplace").unit == "months"
    with pytest.raises(ValueError, match="'normal' was asked for, but the data says 'laplace'"):
        read_value(path, law="normal")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(library):
    module = pytest.importorskip(library)
    columns = {
        "target": [1.0, None],
        "location": [1.5, 2.5],
        "scale": [1, 2],
        "id": ["a", "b"],
        "note": ["x", None],
    }
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    cases = from_frame(frame, mask_missing=True)
    assert cases.prediction.mask.tolist() == [True, False]
    assert cases.prediction.scale.tolist() == [1.0, 2.0]
    assert cases.id.tolist() == ["a", "b"]
    assert from_frame(frame, law="laplace", mask_missing=True).prediction.law == ts.Laplace()
    with pytest.raises(ValueError, match="target is missing in 1 of 2 places"):
        from_frame(frame)


def test_frames_without_target_and_with_a_named_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"location": [1.0], "scale": [2.0]}, index=pandas.Index([9.0], name="target"))
    assert isinstance(read_value(frame), ts.Prediction)  # the index is not a column
    with pytest.raises(ValueError, match="no column 'target'"):
        from_frame(frame)


@pytest.mark.parametrize("mask_missing", [False, True])
def test_of_new_cases_a_target_that_is_nowhere_filled_in_is_none(tmp_path, mask_missing):
    path = tmp_path / "t.csv"
    path.write_text("id,target,location,scale\na,,1,2\nb,,3,1\n")
    found = read_new(path, mask_missing=mask_missing)
    assert isinstance(found, ts.Prediction)
    assert found.mask is None
    with pytest.raises(ValueError, match="target is missing"):
        read_value(path, mask_missing=mask_missing)
    path.write_text("id,target,location,scale\na,1,1,2\nb,3,3,1\n")
    assert isinstance(read_new(path, mask_missing=mask_missing), ts.Cases)


def test_missing_targets_are_masked_by_output(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("target_0,target_1,location_0,location_1,scale\n1,,1,2,1\n,NaN,1,2,1\n3,4,1,2,1\n")
    cases = read(path, mask_missing=True)
    assert cases.prediction.mask.tolist() == [[True, False], [False, False], [True, True]]
    assert ts.metrics.mse.score(cases.prediction, cases.target) == pytest.approx((0 + 4 + 4) / 3)


def test_a_mask_may_already_leave_missing_values_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("target_0,target_1,location_0,location_1,scale,mask\n,,1,2,-1,false\n3,4,1,2,1,true\n")
    assert read(path).prediction.mask.tolist() == [[False, False], [True, True]]
    path.write_text("target_0,target_1,location_0,location_1,scale,mask\n,,1,2,-1,false\n3,,1,2,1,true\n")
    assert read(path, mask_missing=True).prediction.mask.tolist() == [[False, False], [True, False]]
    with pytest.raises(ValueError, match=r"missing in 1 of 4 places, .* index \(1, 1\)"):
        read(path)


def test_missing_targets_of_draws_are_masked_in_both(tmp_path):
    target = np.array([1.0, np.nan, 3.0])
    np.savez(tmp_path / "d.npz", mean=np.zeros((2, 3)), variance=np.ones((2, 3)), target=target)
    cases = read(tmp_path / "d.npz", mask_missing=True)
    assert cases.prediction.mask.tolist() == cases.draws.mask.tolist() == [True, False, True]


def test_frames_may_hold_other_columns_of_mixed_objects():
    pandas = pytest.importorskip("pandas")
    columns = {"target": [1.0, 2.0], "location": [1.1, 2.2], "scale": [0.5, 0.4]}
    found = from_frame(pandas.DataFrame({**columns, "note": [{}, 3]}))
    assert found.target.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="cannot be read as a table"):
        from_frame(pandas.DataFrame({**columns, "target": [{}, 3]}))


def test_a_set_read_whole_keeps_the_network_of_its_cases(tmp_path):
    from truesigma.evaluation.recipe import load_recipe
    from truesigma.files.fileset import flat, open_fileset, read_whole

    some = ts.Cases(ts.Prediction([0.0, 1.0], aleatoric=[1.0, 2.0]), [0.5, 0.5], unit="mm", checkpoint="abcd")
    for name in ("a.npz", "b.npz"):
        write(some, tmp_path / name)
    found = open_fileset([str(tmp_path / "a.npz"), str(tmp_path / "b.npz")])
    whole = read_whole(found, load_recipe("exact").prediction)
    assert (whole.unit, whole.checkpoint, len(whole)) == ("mm", "abcd", 4)
    assert (flat(some).unit, flat(some).checkpoint) == ("mm", "abcd")
