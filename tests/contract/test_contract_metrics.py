"""What every file in metrics/ must hold, found by name: a new metric is tested without a new test."""

import math
import typing

import numpy as np
import pytest
from samples import KINDS, Sample, arrays_of, draw, missing_words

from truesigma import Undefined
from truesigma.core import plugins

OTHER_LAWS = {"energy", "variogram"}  # of which test_contract_laws makes predictions
OF_PAIRS = {"skce"}  # of different cases, which a case given twice is not
NAMES = sorted(set(plugins.names("metrics")) - OTHER_LAWS)


def variants() -> list[tuple[str, dict]]:
    """Each metric at its defaults, and with every choice of every option changed alone."""
    found = []
    for name in NAMES:
        module = plugins.load("metrics", name)
        hints = typing.get_type_hints(module.score)
        found.append((name, {}))
        for option, parameter in plugins.options("metrics", module).items():
            if typing.get_origin(hints[option]) is typing.Literal:
                choices = typing.get_args(hints[option])
            elif hints[option] is bool:
                choices = (True, False)
            else:
                choices = (parameter.default,)
            found += [(name, {option: c}) for c in choices if c != parameter.default]
    return found


VARIANTS = [pytest.param(*v, id=" ".join([v[0], *[f"{k}={c}" for k, c in v[1].items()]])) for v in variants()]
each_metric = pytest.mark.parametrize("name", NAMES)
each_variant = pytest.mark.parametrize(("name", "options"), VARIANTS)


def score(name: str, sample: Sample, options: dict, make=lambda a: a) -> float:
    weight = None if sample.weight is None else make(sample.weight)
    module = plugins.load("metrics", name)
    value = module.score(sample.prediction(make), make(sample.target), weight=weight, **options)
    assert type(value) is float
    return value


def number_or_reason(name: str, sample: Sample, options: dict) -> bool:
    """A finite number, or an error with a sentence in it."""
    try:
        return math.isfinite(score(name, sample, options))
    except ValueError as problem:
        return len(str(problem)) > 30


@each_metric
def test_says_what_it_is(name):
    module = plugins.load("metrics", name)
    assert module.TITLE
    assert module.BETTER in ("lower", "higher", "nominal")
    assert module.UNITS in (0, 1, 2, "log", "volume")
    assert missing_words(module, module.score) == []
    parameters = typing.get_type_hints(module.score)
    for option, parameter in plugins.options("metrics", module).items():
        assert parameter.default is not parameter.empty, f"{option} has no default"
        assert option in parameters, f"{option} has no type"


@each_variant
def test_inputs_untouched(name, options):
    sample = draw(mask=True, weight=True)
    arrays = [sample.location, sample.target, sample.aleatoric, sample.epistemic, sample.spread, sample.mask]
    before = [a.copy() for a in [*arrays, sample.weight]]
    for a in [*arrays, sample.weight]:
        a.flags.writeable = False
    score(name, sample, options)
    for a, b in zip([*arrays, sample.weight], before):
        np.testing.assert_array_equal(a, b)


@each_variant
def test_order_of_cases_is_irrelevant(name, options):
    sample = draw(1, weight=True, mask=True)
    order = np.random.default_rng(2).permutation(len(sample.location))
    assert score(name, sample.take(order), options) == pytest.approx(score(name, sample, options), rel=1e-11)


@each_variant
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_translation_invariant(name, options, law):
    sample = draw(2, law=law)
    try:
        before = score(name, sample, options)
    except Undefined:
        pytest.skip(f"{name} {options} is not defined for {law}")
    assert score(name, sample.moved(shift=64.0), options) == pytest.approx(before, rel=1e-9)


@each_variant
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_scale_equivariant_as_declared(name, options, law):
    sample, k = draw(3, law=law), 3.7
    units = plugins.load("metrics", name).UNITS
    try:
        before = score(name, sample, options)
    except Undefined:
        pytest.skip(f"{name} {options} is not defined for {law}")
    after = score(name, sample.moved(k=k), options)
    if units == "log":
        shift = (2 if options.get("units") == "table" else 1) * math.log(k)
        assert after - before == pytest.approx(shift, rel=1e-9)
    else:
        power = sample.location.shape[1] if units == "volume" else units
        assert after == pytest.approx(before * k**power, rel=1e-9)


@each_variant
@pytest.mark.parametrize("kind", KINDS[1:])
def test_equal_in_every_library(name, options, kind):
    sample = draw(4, mask=True, weight=True)
    with arrays_of(kind) as make:
        assert score(name, sample, options, make) == pytest.approx(score(name, sample, options), rel=1e-12)


@each_variant
@pytest.mark.parametrize(("kind", "tolerance"), [("numpy", 1e-5), ("torch", 1e-5), ("jax", 1e-6)])
def test_single_precision(name, options, kind, tolerance):
    """From the same float32 numbers; JAX without x64 adds up on the host."""
    small = draw(5, cases=1 << 14, outputs=(4,)).astype("float32")  # two chunks of one shape
    with arrays_of(kind, x64=False) as make:
        found = score(name, small, options, make)
    assert found == pytest.approx(score(name, small.astype("float64"), options), rel=tolerance)


@each_variant
def test_dense_outputs_are_outputs(name, options):
    dense = draw(6, cases=12, outputs=(2, 3, 4), mask=True)
    flat = dense.take(slice(None))
    flat = Sample(*[a.reshape(12, 24) for a in vars(flat).values() if isinstance(a, np.ndarray)])
    try:
        expected = score(name, flat, options)
    except Undefined as reason:  # of whole cases, of which the mask leaves none
        with pytest.raises(Undefined, match=str(reason)):
            score(name, dense, options)
    else:
        assert score(name, dense, options) == pytest.approx(expected, rel=1e-12)


@each_variant
@pytest.mark.parametrize("cases", [1, 2])
def test_few_cases_give_a_number_or_a_clear_error(name, options, cases):
    sample = draw(7, cases=cases, outputs=(1,))
    assert number_or_reason(name, sample, options)


@each_variant
def test_constant_sigma_gives_a_number_or_a_clear_error(name, options):
    sample = draw(8)
    constant = Sample(
        sample.location, sample.target, *[np.full_like(sample.location, v) for v in (2.0, 0.5, 0.4)]
    )
    assert number_or_reason(name, constant, options)


@each_variant
def test_integer_weights_are_repeated_cases(name, options):
    if name in OF_PAIRS:
        pytest.skip("a case given twice is compared with itself")
    sample = draw(9, mask=True, weight=True)
    repeated = sample.take(np.repeat(np.arange(len(sample.weight)), sample.weight.astype(int)))
    repeated = Sample(**{**vars(repeated), "weight": None})
    assert score(name, sample, options) == pytest.approx(score(name, repeated, options), rel=1e-10)


@each_variant
def test_scaling_all_weights_changes_nothing(name, options):
    sample = draw(10, weight=True)
    scaled = Sample(**{**vars(sample), "weight": sample.weight * 0.3})
    wide = Sample(**{**vars(sample), "weight": np.broadcast_to(sample.weight[:, None], sample.target.shape)})
    equal = Sample(**{**vars(sample), "weight": np.full_like(sample.weight, 0.7)})
    plain = Sample(**{**vars(sample), "weight": None})
    assert score(name, scaled, options) == pytest.approx(score(name, sample, options), rel=1e-11)
    assert score(name, wide, options) == pytest.approx(score(name, sample, options), rel=1e-11)
    assert score(name, equal, options) == pytest.approx(score(name, plain, options), rel=1e-11)


@each_variant
def test_masked_cases_equal_compacted_ones(name, options):
    sample = draw(11)
    keep = np.random.default_rng(0).uniform(size=len(sample.location)) < 0.6
    spoiled = {
        n: np.where(keep[:, None], getattr(sample, n), np.nan) for n in ("location", "target", "aleatoric")
    }
    spoiled["epistemic"] = np.where(keep[:, None], sample.epistemic, -np.inf)
    masked = Sample(**{**vars(sample), **spoiled, "mask": keep})
    assert score(name, masked, options) == pytest.approx(score(name, sample.take(keep), options), rel=1e-11)


@each_metric
def test_nothing_left_is_an_error(name):
    sample = draw(12)
    for gone in (
        {"mask": np.zeros(sample.target.shape, dtype=bool)},
        {"weight": np.zeros(len(sample.target))},
    ):
        with pytest.raises(ValueError, match="remove everything"):
            score(name, Sample(**{**vars(sample), **gone}), {})


@each_metric
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"weight": -np.ones(40)}, "weight"),
        ({"weight": np.full(40, np.nan)}, "weight"),
        ({"weight": np.ones(39)}, "weight"),
        ({"target": np.zeros(40)}, "target"),
        ({"target": np.full((40, 3), np.inf)}, "target"),
    ],
)
def test_bad_input_is_named(name, change, named):
    sample = draw(13)
    with pytest.raises(ValueError, match=named):
        score(name, Sample(**{**vars(sample), **change}), {})
