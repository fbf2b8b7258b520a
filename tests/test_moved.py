"""Import paths that the documentation of 0.1.0 named still work, say where their names are now, and harm nothing."""

import importlib
import subprocess
import sys
import warnings

import pytest

import truesigma as ts
from truesigma._moved import MOVED, RENAMED

# Every name that README, docs and the skeletons of 0.1.0 imported, or showed in the API pages, by its module.
DOCUMENTED = {
    "arrays": "Array Host namespace",
    "card": "Card calibrate read_card",
    "cells": "segment_sums",
    "decompose": "decompose",
    "detection": "auroc aupr fpr95",
    "elements": "Block Elements Outputs Part",
    "evaluate": "Evaluation evaluate",
    "export": "Exported export_runs to_onnx",
    "files": "plain write_atomically",
    "fileset": "FileSet open_fileset",
    "imaging.augment": "chain flip",
    "imaging.data": "DataSet Reader Split",
    "imaging.launch": "train_run",
    "imaging.losses": "gaussian laplace",
    "imaging.network": "TwoHead",
    "imaging.partition": "partition",
    "imaging.predict": "list_images predict_images predict_split",
    "imaging.prepare": "Normalise",
    "imaging.runs": "load_run",
    "imaging.sampling": "dropout_draws dropout_moments ensemble_draws",
    "imaging.source": "Source",
    "imaging.splits": "by_group published seeded",
    "imaging.train": "train",
    "imaging.units": "Units",
    "law": "Empirical Laplace Law Normal Undefined",
    "maps": "Maps apply_maps write_nifti",
    "plugins": "load names options parse",
    "recalibration": "Recalibration load_recalibration observed_z rescale select_part",
    "recipe": "Recipe load_recipe recipe_names",
    "replicates": "Replicates Resampling",
    "resample": "Estimate bootstrap compare",
    "select": "Comparison compare fold_of",
    "store": "from_frame read write",
    "stream": "Fit Streamed evaluate_files fit_files",
    "sums": "accumulate flat",
    "tally": "Tally",
    "types": "Cases Draws Interval Prediction",
}
PATHS = [(module, name) for module, names in DOCUMENTED.items() for name in names.split()]


def test_the_table_is_of_what_was_documented():
    assert {*DOCUMENTED, "measure"} == set(MOVED)  # `measure.score` has a test of its own
    assert {key.rpartition(".")[0] for key in RENAMED} <= set(MOVED)


@pytest.mark.parametrize(("module", "name"), PATHS, ids=[".".join(path) for path in PATHS])
def test_an_old_path_finds_the_same_object_and_says_where_it_is(module, name):
    if module.startswith("imaging") or module == "export":
        pytest.importorskip("torch")
    held = importlib.import_module(f"truesigma.{module}")
    with pytest.warns(DeprecationWarning, match=rf"truesigma\.{module}\.{name} is now truesigma\.") as said:
        value = getattr(held, name)
    home, _, new = str(said[0].message).partition(" is now ")[2].partition(";")[0].rpartition(".")
    assert home.removeprefix("truesigma.") in MOVED[module].split()
    assert value is getattr(importlib.import_module(home), new)
    assert said[0].filename == __file__


def test_the_functions_of_the_package_stay_what_they_are():
    from truesigma import imaging

    before = ts.evaluate, ts.decompose, imaging.train, imaging.partition
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from truesigma.decompose import decompose
        from truesigma.evaluate import evaluate
        from truesigma.imaging.partition import partition
        from truesigma.imaging.train import train
    assert (evaluate, decompose, train, partition) == before
    assert (ts.evaluate, ts.decompose, imaging.train, imaging.partition) == before


def test_old_modules_are_attributes_as_before():
    with pytest.warns(
        DeprecationWarning, match=r"truesigma\.plugins\.load is now truesigma\.core\.plugins\.load"
    ):
        assert ts.plugins.load("metrics", "uce") is ts.metrics.uce
    with pytest.raises(AttributeError, match="module 'truesigma' has no attribute 'unheard_of'"):
        ts.unheard_of  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'truesigma\.store' has no attribute 'unheard_of'"):
        importlib.import_module("truesigma.store").unheard_of  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("truesigma.unheard_of")


def test_a_metric_written_for_0_1_0_still_scores(tmp_path):
    """Its file says `OVER`, and scores itself by its module's name."""
    file = tmp_path / "zms.py"
    file.write_text(OLD_METRIC)
    cases = ts.Cases(ts.Prediction([0.0, 0.0], aleatoric=[1.0, 4.0]), [2.0, 4.0])
    with pytest.warns(DeprecationWarning, match=r"measure\.score is for metrics without SUMS"):
        found = ts.evaluate(cases, cases, recalibrations=["none"], metrics=[str(file)])
    assert found.value("none", "zms") == 4.0


OLD_METRIC = """
from truesigma import Prediction
from truesigma.elements import Elements
from truesigma.measure import score as measure_one

TITLE, BETTER, UNITS, OVER = "ZMS", "nominal", 0, "elements"


def terms(elements):
    return elements.squared / elements.variance


def score(prediction, target, *, weight=None, outputs="separate"):
    return measure_one(__name__, prediction, target, weight=weight, outputs=outputs)
"""


def test_nothing_of_the_package_itself_uses_an_old_path():
    code = "import truesigma.report, truesigma.project, truesigma.reproduce, truesigma.cli; truesigma.cli.build()"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_packages_own_modules_are_not_looked_for_elsewhere(monkeypatch):
    """`from . import conv_relu` asks the package first: what is imported then may ask for what asked."""
    import truesigma.files

    asked = []
    monkeypatch.setattr("truesigma._moved.importlib.import_module", asked.append)
    with pytest.raises(AttributeError, match="no attribute 'disk'"):
        truesigma.files.__getattr__("disk")
    assert asked == []
