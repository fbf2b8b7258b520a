"""Predictions for the tests: drawn at random, or made by hypothesis; as arrays and as cases of tests/reference.py."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st
from made_up import drawn
from reference import Element

from truesigma import Laplace, Normal, Prediction

LAWS = {"normal": Normal(), "laplace": Laplace()}
KINDS = ("numpy", "torch", "jax")


@dataclass(frozen=True)
class Sample:
    """Numbers before they become a prediction of one library or another."""

    location: np.ndarray
    target: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    spread: np.ndarray
    mask: np.ndarray | None = None
    weight: np.ndarray | None = None
    law: str = "normal"

    def prediction(self, make: Callable[[Any], Any] = lambda a: a) -> Prediction:
        mask = None if self.mask is None else make(self.mask)
        parts = {name: make(getattr(self, name)) for name in ("location", "aleatoric", "epistemic", "spread")}
        return Prediction(**parts, mask=mask, law=LAWS[self.law])

    @property
    def cases(self) -> list[list[Element]]:
        """As the slow loops take them."""
        shape = (len(self.location), -1)
        weight = np.ones_like(self.location) if self.weight is None else self.weight
        if weight.ndim < self.location.ndim:
            weight = weight.reshape(-1, *[1] * (self.location.ndim - 1))
        weight = np.broadcast_to(weight, self.location.shape)
        if self.mask is not None:
            weight = np.where(self.mask, weight, 0.0)
        columns = [self.target, self.location, self.aleatoric, self.epistemic, self.spread, weight]
        rows = zip(*[np.asarray(c, dtype=float).reshape(shape) for c in columns])
        return [[Element(*(float(x) for x in one)) for one in zip(*case)] for case in rows]

    def astype(self, dtype: str) -> "Sample":
        names = ("location", "target", "aleatoric", "epistemic", "spread", "weight")
        new = {n: getattr(self, n).astype(dtype) for n in names if getattr(self, n) is not None}
        return replace(self, **new)

    def take(self, index: Any) -> "Sample":
        names = ("location", "target", "aleatoric", "epistemic", "spread", "weight", "mask")
        return replace(self, **{n: getattr(self, n)[index] for n in names if getattr(self, n) is not None})

    def moved(self, shift: float = 0.0, k: float = 1.0) -> "Sample":
        """The same predictions with another zero, and in another unit."""
        place = {n: k * getattr(self, n) + shift for n in ("location", "target")}
        return replace(
            self, **place, **{n: k * k * getattr(self, n) for n in ("aleatoric", "epistemic", "spread")}
        )


def missing_words(module: ModuleType, main: Callable[..., Any]) -> list[str]:
    """What a plug-in does not say: a formula in its file, an example and a reference in its main function."""
    documents = {"$$": module, **dict.fromkeys(["Example:", ">>>", "Reference:"], main)}
    return [word for word, where in documents.items() if word not in (where.__doc__ or "")]


def draw(
    seed: int = 0,
    cases: int = 40,
    outputs: tuple[int, ...] = (3,),
    *,
    law: str = "normal",
    mask: bool = False,
    weight: bool = False,
) -> Sample:
    """Predictions that are off by a factor that grows with the variance, so that no score is trivial."""
    rng = np.random.default_rng(seed)
    shape = (cases, *outputs)
    location, target, aleatoric, epistemic = drawn(rng, shape, law)
    keep = rng.uniform(size=shape) < 0.8 if mask else None
    share = rng.integers(1, 4, size=cases).astype(float) if weight else None
    return Sample(location, target, aleatoric, epistemic, 0.9 * epistemic, keep, share, law)


@st.composite
def samples(
    draw_from: Callable[[Any], Any], *, least: int = 1, masks: bool = True, weights: bool = True
) -> Sample:
    """Small samples with offsets, units and variances of many sizes; never only zeros, never only one scale."""
    cases, outputs = draw_from(st.integers(least, 9)), draw_from(st.integers(1, 3))
    size, offset = (
        draw_from(st.sampled_from([1e-3, 1.0, 37.0])),
        draw_from(st.sampled_from([0.0, -5.0, 100.0])),
    )

    def array(low: float, high: float) -> np.ndarray:
        values = st.floats(low, high, allow_subnormal=False, width=32)
        flat = draw_from(st.lists(values, min_size=cases * outputs, max_size=cases * outputs))
        return np.array(flat, dtype=float).reshape(cases, outputs)

    location = offset + size * array(-3.0, 3.0)
    target = location + size * array(-4.0, 4.0)
    aleatoric = size**2 * np.exp(array(-4.0, 4.0))
    epistemic = size**2 * array(0.0, 3.0)
    mask, weight = None, None
    if masks and draw_from(st.booleans()):
        flat = draw_from(st.lists(st.booleans(), min_size=cases * outputs, max_size=cases * outputs))
        mask = np.array(flat).reshape(cases, outputs)
        mask[draw_from(st.integers(0, cases - 1))] = True
    if weights and draw_from(st.booleans()):
        weight = np.array(draw_from(st.lists(st.floats(0.25, 4.0, width=32), min_size=cases, max_size=cases)))
    law = draw_from(st.sampled_from(["normal", "laplace"]))
    return Sample(location, target, aleatoric, epistemic, 0.5 * epistemic, mask, weight, law)


@contextlib.contextmanager
def arrays_of(kind: str, *, x64: bool = True) -> Iterator[Callable[[Any], Any]]:
    """A function from numpy arrays to those of that library; None stays None."""
    if kind == "numpy":
        yield lambda a: a
    elif kind == "torch":
        import torch

        yield lambda a: None if a is None else torch.tensor(a)
    else:
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(x64):
            yield lambda a: None if a is None else jnp.asarray(a)
