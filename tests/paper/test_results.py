"""Results of runs on disk: whole ones count, also where none was expected, and half precision is enough."""

import numpy as np
import pytest
from made_up_paper import fake_paper

from paper import open_paper
from paper.runs import as_cases, find_run
from truesigma.core.values import Draws
from truesigma.recalibrate import sigma


def test_a_result_counts_also_where_none_was_expected(tmp_path):
    found = open_paper(fake_paper(tmp_path / "paper", ["endovis_resnet101"], cases=10))
    assert found.reason(found.about("endovis_resnet101")) is None
    assert found.reason(found.about("endovis_densenet201")).startswith("no data here")


def test_half_precision_hardly_moves_the_factor():
    rng = np.random.default_rng(0)
    residual, variance = rng.normal(0, 0.05, (25, 500, 6)), np.exp(rng.normal(-7, 1, (25, 500, 1)))
    factors = []
    for kind in (np.float64, np.float16):
        draws = Draws(
            residual.astype(kind).astype(float), np.exp(np.log(variance).astype(kind).astype(float))
        )
        cases = as_cases(draws)
        factors.append(sigma.fit(cases.prediction, cases.target).factor)
    assert abs(factors[1] / factors[0] - 1) < 1e-3


def test_half_a_result_is_an_error(root, tmp_path):
    assert find_run(tmp_path, "nothing") is None
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="not a whole result"):
        find_run(tmp_path, "half")
    run = find_run(root / "results", "oct_resnet101")
    with pytest.raises(ValueError, match="holds no draws of 'test_clahe'"):
        run.draws("test_clahe")
