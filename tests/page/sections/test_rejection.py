"""The slider of referred cases against plain loops."""

from dataclasses import replace

import numpy as np
import pytest
from report_samples import make, subject_of

from truesigma.page.sections import rejection
from truesigma.page.subject import sigma_of


def test_referring_by_the_threshold_gives_the_numbers_of_the_slider(subject):
    found = rejection.table(subject)
    cases = subject.after
    size = len(cases)
    weight = np.ones(size) if cases.weight is None else cases.weight
    error = np.reshape((cases.target - cases.prediction.location) ** 2, (size, -1)).mean(axis=1)
    sigma = np.sqrt(np.reshape(sigma_of(cases.prediction) ** 2, (size, -1)).mean(axis=1))
    for percent in (0, 1, 10, 50, 99):
        row = found.row(percent)
        kept = sigma <= row["threshold"] * (1 + 1e-12)
        assert row["mse"] == pytest.approx(np.average(error[kept], weights=weight[kept]))
        assert row["referred"] == pytest.approx(weight[~kept].sum() / weight.sum(), abs=1e-12)
        assert row["cases"] == (~kept & (weight > 0)).sum()
        assert row["referred"] <= percent / 100 + 1e-9
        assert row["wished"] - row["referred"] <= weight.max() / weight.sum() + 1e-9
        assert row["oracle"] <= row["mse"] + 1e-12
        means = []
        for index in subject.plan.indices():
            some = index[kept[index]]
            means.append(np.average(error[some], weights=weight[some]) if weight[some].sum() else np.nan)
        expected = np.nanquantile(means, [0.025, 0.975])
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected))


def test_the_sentence_of_the_slider():
    subject = subject_of(make())
    found = rejection.table(subject)
    said = rejection.sentence(subject, found.row(10), float(found.mse[0]))
    assert said.startswith("Refer 30 cases (10.0\xa0%), those with a scale above ")
    assert f"{np.sqrt(found.mse[10]):.2f}\xa0mm [" in said


def test_the_first_screen_says_what_the_slider_begins_with():
    subject = subject_of(make())
    found, made = rejection.table(subject), rejection.section(subject)
    rest, every = (f"{np.sqrt(found.mse[k]):.3g}\xa0mm" for k in (10, 0))
    assert rejection.gained(made, "mm") == f"without the least sure 10\xa0%, RMSE {rest} instead of {every}"
    blind = {**made.table, "rmse": [np.sqrt(found.mse[0])] * 100}
    assert rejection.gained(replace(made, table=blind), "mm").startswith("nothing")
    assert not rejection.gained(replace(made, table={**made.table, "referred": [0.0] * 100}), "mm")
