"""Paths: every documented address can be imported, and leads to the name it says."""

import importlib
from types import ModuleType
from typing import Any

from ..book import Book

DOCUMENTED = {  # those of docs/api, of the guides and of the skeletons, as they were
    "truesigma": "Card Cases Comparison Draws Empirical Evaluation Interval Laplace Law Normal Prediction "
    "Recalibration Tally Undefined bootstrap calibrate compare decompose diagrams evaluate evaluate_files from_frame "
    "load_recalibration metrics read read_card recalibrate write plugins imaging",
    "truesigma.card": "calibrate Card read_card",
    "truesigma.decompose": "decompose",
    "truesigma.detection": "auroc aupr fpr95",
    "truesigma.diagrams._style": "figure style save BLUE GREY Axes axes_or_new",
    "truesigma.engine": "load_engine",
    "truesigma.engine.local": "run",
    "truesigma.engine.ray": "run",
    "truesigma.evaluate": "evaluate Evaluation",
    "truesigma.export": "to_onnx export_runs Exported",
    "truesigma.fileset": "open_fileset FileSet",
    "truesigma.imaging": "DataSet NonFinite Reader Recipe Source Split TallyMetric Trained TwoHead build dropout_draws "
    "dropout_moments ensemble_draws load_recipe load_run load_weights partition predict_images predict_split train "
    "losses",
    "truesigma.imaging.augment": "chain flip",
    "truesigma.imaging.data": "Split DataSet Reader",
    "truesigma.imaging.launch": "train_run",
    "truesigma.imaging.losses": "gaussian laplace",
    "truesigma.imaging.metric": "TallyMetric",
    "truesigma.imaging.network": "TwoHead",
    "truesigma.imaging.predict": "predict_split predict_images list_images",
    "truesigma.imaging.prepare": "Normalise",
    "truesigma.imaging.runs": "load_run",
    "truesigma.imaging.sampling": "dropout_draws dropout_moments ensemble_draws",
    "truesigma.imaging.source": "Source",
    "truesigma.imaging.splits": "published seeded by_group",
    "truesigma.imaging.units": "Units",
    "truesigma.law": "Law Normal Laplace Empirical Undefined",
    "truesigma.maps": "apply_maps Maps write_nifti",
    "truesigma.plugins": "names load parse options",
    "truesigma.project": "run_project",
    "truesigma.project.plan": "plan_project Plan",
    "truesigma.project.run": "run_project Finished",
    "truesigma.project.survey": "survey Survey",
    "truesigma.recalibration": "Recalibration load_recalibration",
    "truesigma.recipe": "Recipe load_recipe recipe_names",
    "truesigma.replicates": "Resampling Replicates",
    "truesigma.report": "report",
    "truesigma.report.page": "report Report",
    "truesigma.resample": "bootstrap compare Estimate",
    "truesigma.select": "compare Comparison fold_of",
    "truesigma.store": "read from_frame write",
    "truesigma.stream": "evaluate_files fit_files Streamed Fit",
    "truesigma.tally": "Tally",
    "truesigma.types": "Draws Prediction Interval Cases",
}


def record(book: Book) -> None:
    for module, names in DOCUMENTED.items():
        for name in names.split():
            book.call(f"{module}.{name}", _kind, module, name)


def _kind(module: str, name: str) -> Any:
    """What `from module import name` gives: a class, a function, a module or a plain value."""
    home = importlib.import_module(module)
    found = getattr(home, name) if hasattr(home, name) else importlib.import_module(f"{module}.{name}")
    if isinstance(found, ModuleType):
        return "module"
    return [type(found).__name__, getattr(found, "__name__", "")] if not isinstance(found, str) else found
