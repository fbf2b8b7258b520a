"""The sigma of a run: fitted to its data, kept beside its weights, and never judged on what it learned from."""

import numpy as np
import pytest
from project_files import call

from truesigma.imaging.data.source import recorded
from truesigma.imaging.prediction.predict import predict_split
from truesigma.imaging.prediction.sigma import FOLDS, Loaded, fit_run, kept_sigma, predict_held
from truesigma.imaging.sampling.frozen import look

LEVEL = '''
from truesigma.imaging.sampling.frozen import look

CROSS_FIT = True


def fit(net, held):
    """The same sigma for all cases: the root of the mean squared error of those held."""
    return {"variance": look(net, held).errors.mean(axis=0)}


def predict(net, batches, learned):
    seen = look(net, batches, labelled=False)
    return seen.prediction(learned["variance"] * seen.variance / seen.variance)
'''


@pytest.fixture
def level(tmp_path):
    file = tmp_path / "level.py"
    file.write_text(LEVEL)
    return str(file)


def test_held_cases_are_predicted_by_fits_without_their_patients(run, level):
    data = recorded(run.about).load()
    sigma = fit_run(run, data, level)
    held = predict_held(sigma, data, "valid", scaled=True)
    assert [*held.id] == [*data.splits["valid"].name]
    seen = look(run.net, Loaded(data.splits["valid"], data, next(run.net.parameters()).device))
    errors, variance = seen.errors[:, 0], held.prediction.total[:, 0]
    values = np.unique(variance)
    assert len(values) == FOLDS
    for value in values:
        assert value == pytest.approx(errors[variance != value].mean(), rel=1e-4)
    test = predict_split(sigma, data, "test", scaled=True)
    assert test.prediction.total == pytest.approx(
        np.full_like(test.prediction.total, errors.mean()), rel=1e-4
    )


def test_it_is_kept_for_new_images_and_its_file_is_not_obeyed(run, level, folder):
    data = recorded(run.about).load()
    fit_run(run, data, level)
    assert kept_sigma(run, "laplace", [level]) is None
    assert kept_sigma(run, level, [level]).choice == level
    with pytest.raises(ValueError, match="not executed"):
        kept_sigma(run, level)
    (run.folder / "sigma.npz").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="no fitted sigma"):
        kept_sigma(run, level, [level])
    (run.folder / "sigma.npz").unlink()


def test_a_method_is_of_one_network(runs, capsys, tmp_path):
    words = ["predict", runs / "0", runs / "1", "--set", "sample.method=laplace", "-o", tmp_path / "a.npz"]
    assert call(*words) == 2
    assert "of one network" in capsys.readouterr().err
