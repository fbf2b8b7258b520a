"""The seam to the array libraries: what comes in, what goes out, sums by segment."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.special
import torch
from samples import KINDS, arrays_of

from truesigma import Normal
from truesigma.core.arrays import ROW, _total_of_rows, as_array, expand, like, namespace, to_host
from truesigma.core.bins import segment_sums


def test_arrays_come_through_without_a_copy():
    for given in (np.zeros(3), np.zeros(3, dtype="float32"), torch.zeros(3)):
        assert as_array("location", given) is given


@pytest.mark.parametrize("values", [[1, 2], (1.0, 2.0), pd.Series([1, 2]), np.array([1, 2], dtype="uint8")])
def test_lists_frames_and_integers_become_float64(values):
    found = as_array("location", values)
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0]


def test_integers_of_torch_keep_all_their_digits():
    assert as_array("target", torch.tensor([123456789])).tolist() == [123456789.0]


@pytest.mark.parametrize(
    "make", [lambda a: a.astype("float16"), lambda a: torch.tensor(a, dtype=torch.bfloat16)]
)
def test_half_precision_is_widened(make):
    assert "float32" in str(as_array("location", make(np.ones(2))).dtype)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.array(["a", "b"]), "location has dtype <U1; expected real floating point"),
        (np.array([True, False]), "location has dtype bool"),
        (np.array([1 + 2j]), "location has dtype complex128"),
        ([1.0, None], "location has dtype object"),
        (None, "location has dtype object"),
        ([[1.0], [1.0, 2.0]], "location is not an array"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), "location is a masked array.*getmaskarray"),
    ],
)
def test_other_values_are_refused_by_name(values, words):
    with pytest.raises(ValueError, match=words):
        as_array("location", values)


def test_libraries_and_devices_are_not_mixed():
    with pytest.raises(ValueError, match=r"different libraries.*numpy, torch.*Convert them"):
        namespace(np.zeros(1), torch.zeros(1))
    with pytest.raises(ValueError, match=r"different devices.*cpu, meta.*Move them"):
        namespace(torch.zeros(1), torch.zeros(1, device="meta"))


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind):
    with arrays_of(kind) as make:
        example = make(np.zeros(2, dtype="float32"))
        made = like(np.array([1.5, 2.5]), example)
        assert made.dtype == example.dtype
        assert namespace(made) is namespace(example)
        assert to_host(made).tolist() == [1.5, 2.5]


def test_expand():
    assert expand("weight", np.ones(3), (3, 2)).shape == (3, 2)
    assert expand("aleatoric", np.ones((3, 1)), (3, 2)).shape == (3, 2)
    assert expand("aleatoric", np.ones((3, 1, 4)), (3, 2, 4)).shape == (3, 2, 4)
    for bad in (np.ones(2), np.ones((1, 2)), np.ones((3, 3)), np.ones((3, 2, 1)), np.ones(())):
        with pytest.raises(ValueError, match=r"aleatoric has shape .*expected \(3, 2\)"):
            expand("aleatoric", bad, (3, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_segment_sums(kind):
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 5, size=1000), rng.normal(size=1000)
    expected = [[(index == k).sum() for k in range(7)], [values[index == k].sum() for k in range(7)]]
    with arrays_of(kind) as make:
        found = segment_sums(make(index), 7, [None, make(values)])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_segment_sums_of_many_float32_do_not_stop_growing(kind):
    """A float32 sum of ones ends at 2^24; of 0.1 it is wrong in the third digit after a million."""
    values = np.full(1_000_000, 0.1, dtype="float32")
    with arrays_of(kind, x64=False) as make:
        found = segment_sums(make(np.zeros(1_000_000, dtype="int32")), 1, [make(values)])
    assert found[0, 0] == pytest.approx(float(np.float32(0.1)) * 1e6, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_normal_cdf(kind):
    z = np.linspace(-8, 8, 101)
    with arrays_of(kind) as make:
        found = to_host(Normal().cdf(make(z)))
    np.testing.assert_allclose(found, scipy.special.ndtr(z), rtol=1e-11, atol=1e-16)


@pytest.mark.parametrize("kind", KINDS)
def test_erf(kind):
    """Also near 0, where 2 Phi - 1 has lost its digits."""
    few = np.concatenate([np.linspace(0, 7, 101), [1e-12, 1e-300, 20.0, 1e300]])
    for z in (few, np.concatenate([np.geomspace(1e-300, 1e300, 5000), np.linspace(0, 10, 5000)])):
        with arrays_of(kind) as make:
            found = to_host(Normal().share_within(make(z)))
        np.testing.assert_allclose(found, [math.erf(v * math.sqrt(0.5)) for v in z], rtol=2e-15, atol=0)
    assert Normal().share_within(np.full(5000, np.inf)).min() == 1


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("rest", [0, 1, 600])
def test_totals_of_rows(rows, rest):
    """What a GPU adds up: float32 in rows, booleans four at a time, and what is left of both."""
    rng = np.random.default_rng(rest)
    values = rng.normal(size=rows * ROW + rest).astype("float32")
    found = _total_of_rows(torch.from_numpy(values))
    assert found.dtype == torch.float64
    assert float(found) == pytest.approx(math.fsum(values), abs=1e-4)
    squares = torch.from_numpy(values) ** 2
    parts = [_total_of_rows(part) for part in squares.tensor_split([len(values) // 3])]
    assert float(sum(parts)) == pytest.approx(
        float(_total_of_rows(squares)), rel=1e-7
    )  # as docs/scale.md says
    for some in (values > 0.5, values < np.inf):
        assert float(_total_of_rows(torch.from_numpy(some))) == some.sum()
