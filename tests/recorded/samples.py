"""Made-up predictions of many kinds: laws, masks, weights, groups, outputs, libraries, precisions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from made_up import drawn

import truesigma as ts

METRICS = (  # those that were recorded; others may have come since
    "ause", "coverage", "crps", "ence", "mae", "miscalibration_area", "mse", "nll", "rmse", "sharpness", "uce", "width",
    "winkler",
)  # fmt: skip
BACKBONES = ("any_timm", "densenet201", "efficientnet_b4", "resnet101", "small", "small3d")
DATASETS = ("boneage", "breastpathq", "endovis", "oct", "simulated", "table")
RECALIBRATIONS = ("aux", "conformal", "isotonic", "none", "sigma", "sigma_by_output")
LAWS = {"normal": ts.Normal(), "laplace": ts.Laplace()}


@dataclass(frozen=True)
class Sample:
    """A prediction with its target and what may stand beside it; `make` turns arrays into those of its library."""

    prediction: ts.Prediction
    target: Any
    weight: Any
    group: Any
    name: str
    close: float = 0.0

    @property
    def cases(self) -> ts.Cases:
        return ts.Cases(self.prediction, self.target, weight=self.weight, group=self.group, unit="mm")


def sample(
    seed: int = 0,
    cases: int = 40,
    outputs: tuple[int, ...] = (),
    *,
    law: str = "normal",
    mask: bool = False,
    weight: str = "",
    group: bool = False,
    split: bool = True,
    library: str = "numpy",
    dtype: str = "float64",
) -> Sample:
    """Predictions whose sigma is off by a factor that grows with it, so that no score is trivial."""
    rng = np.random.default_rng([seed, cases, len(outputs)])
    shape = (cases, *outputs)
    location, target, aleatoric, epistemic = drawn(rng, shape, law)
    keep = rng.uniform(size=shape) < 0.8
    keep.reshape(cases, -1)[:, 0] = True
    share = rng.integers(1, 4, size=shape if weight == "element" else cases).astype(float)
    names = np.array([f"p{k}" for k in rng.integers(0, 3 + cases // 40, size=cases)])
    make = maker(library, dtype)
    value = ts.Prediction(
        make(location),
        aleatoric=make(aleatoric),
        epistemic=make(epistemic) if split else None,
        law=LAWS[law],
        spread=make(0.9 * epistemic) if split and seed % 2 else None,
        mask=maker(library, "bool")(keep) if mask else None,
    )
    parts = [law, *(["x".join(map(str, outputs))] if outputs else []), *(["mask"] if mask else [])]
    parts += [*([f"weight by {weight}"] if weight else []), *(["group"] if group else [])]
    parts += [*([] if split else ["total"]), *([library] if library != "numpy" else [])]
    parts += [dtype] if dtype != "float64" else []
    name = " ".join(parts) + (f" n={cases}" if cases != 40 else "") + (f" #{seed}" if seed else "")
    return Sample(
        value,
        make(target),
        make(share) if weight else None,
        names if group else None,
        name,
        1e-5 if dtype != "float64" else 0.0,
    )


def maker(library: str, dtype: str) -> Callable[[np.ndarray], Any]:
    """A function from numpy arrays to those of a library."""
    if library == "torch":
        import torch

        return lambda a: torch.tensor(a, dtype=getattr(torch, dtype))
    if library == "jax":
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", dtype != "float32")
        return lambda a: jnp.asarray(a, dtype=dtype)
    return lambda a: a.astype(dtype)


def variety() -> Iterator[Sample]:
    """Samples over laws, masks, weights, outputs; then the other libraries; then precisions and sizes."""
    for law, outputs, mask, weight in product(LAWS, ((), (3,)), (False, True), ("", "case")):
        yield sample(law=law, outputs=outputs, mask=mask, weight=weight)
    for law, library in product(LAWS, ("torch", "jax")):
        yield sample(law=law, outputs=(3,), mask=True, weight="case", library=library)
        yield sample(law=law, library=library)
    yield sample(outputs=(2, 2), mask=True, weight="element")
    yield sample(1, outputs=(3,))
    yield sample(split=False)
    yield sample(law="laplace", split=False, outputs=(2,))
    yield sample(2, cases=1)
    yield sample(3, cases=5)
    yield sample(4, cases=3000)
    for library in ("numpy", "torch", "jax"):
        yield sample(dtype="float32", library=library, outputs=(3,), weight="case")


def draws(
    seed: int = 0, cases: int = 30, outputs: tuple[int, ...] = (2,), *, count: int = 7, law: str = "normal"
) -> ts.Draws:
    rng = np.random.default_rng([seed, 9])
    centre = rng.uniform(0.2, 0.8, size=(1, cases, *outputs))
    mean = centre + 0.05 * rng.normal(size=(count, cases, *outputs))
    variance = np.exp(rng.normal(-5, 0.5, size=(count, cases, *([1] * len(outputs)))))
    return ts.Draws(mean, variance, law=LAWS[law])


def drawn_cases(seed: int = 0, cases: int = 60, outputs: tuple[int, ...] = (2,), **options: Any) -> ts.Cases:
    """Cases that keep their draws, in about [0, 1], as the recipes paper and code expect."""
    held = draws(seed, cases, outputs, **options)
    prediction = ts.decompose(held)
    rng = np.random.default_rng([seed, 10])
    target = prediction.location + 1.5 * prediction.scale * rng.normal(size=prediction.location.shape)
    group = [f"p{k % (cases // 3)}" for k in range(cases)]
    return ts.Cases(prediction, target, group=group, draws=held, unit="", id=[f"c{k}" for k in range(cases)])
