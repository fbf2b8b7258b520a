"""Documented names, by the address they had when they were recorded, wherever they are now."""

import importlib
from typing import Any

NOW = {  # package of today by the one of then; its documented paths are recorded in the part `paths`
    "truesigma.card": "truesigma.evaluation.card",
    "truesigma.decompose": "truesigma.core.decompose",
    "truesigma.detection": "truesigma.evaluation.detection",
    "truesigma.evaluate": "truesigma.evaluation.evaluate",
    "truesigma.export": "truesigma.imaging.export.onnx",
    "truesigma.fileset": "truesigma.files.fileset",
    "truesigma.law": "truesigma.core.law",
    "truesigma.maps": "truesigma.evaluation.maps",
    "truesigma.plugins": "truesigma.core.plugins",
    "truesigma.recalibration": "truesigma.core.recalibration",
    "truesigma.recipe": "truesigma.evaluation.recipe",
    "truesigma.replicates": "truesigma.evaluation.replicates",
    "truesigma.resample": "truesigma.evaluation.bootstrap",
    "truesigma.select": "truesigma.evaluation.compare",
    "truesigma.store": "truesigma.files.store",
    "truesigma.stream": "truesigma.engine.evaluate_files",
    "truesigma.tally": "truesigma.core.tally",
    "truesigma.types": "truesigma.core.values",
    "truesigma.imaging.data": "truesigma.imaging.data.dataset",
    "truesigma.imaging.network": "truesigma.imaging.network.two_head",
    "truesigma.imaging.source": "truesigma.imaging.data.source",
    "truesigma.imaging.launch": "truesigma.imaging.training.start",
    "truesigma.imaging.runs": "truesigma.imaging.training.folder",
    "truesigma.imaging.predict": "truesigma.imaging.prediction.predict",
    "truesigma.imaging.units": "truesigma.imaging.data.units",
    "truesigma.imaging.sampling": "truesigma.imaging.sampling.draws",
    "truesigma.imaging.losses": "truesigma.imaging.network.losses",
    "truesigma.imaging.prepare": "truesigma.imaging.data.prepare",
    "truesigma.imaging.weights": "truesigma.imaging.network.weights",
    "truesigma.imaging.augment": "truesigma.imaging.data.augment",
    "truesigma.imaging.splits": "truesigma.imaging.data.splits",
    "truesigma.imaging.outputs": "truesigma.imaging.network.outputs",
}


def named(address: str) -> Any:
    """The function or class of a documented address, such as "truesigma.detection.auroc"."""
    module, _, name = address.rpartition(".")
    for place in (NOW.get(module, module), module):
        try:
            return getattr(importlib.import_module(place), name)
        except (ModuleNotFoundError, AttributeError):
            continue
    raise ImportError(f"{address} is neither there nor at {NOW.get(module, 'a new address')}.")
