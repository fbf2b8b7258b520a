"""Find where a network is random, switch that on and seed it; module and generators are left as they were."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

# Never part of Monte-Carlo dropout: batch statistics, and activations that are noisy in training.
_NEVER_ON = (nn.modules.batchnorm._NormBase, nn.RReLU)
_NO_MODULE = object()
# Networks that are trained side by side share torch's generator: first weights are drawn while nobody else seeds it.
SEEDING = RLock()


class NotRandom(ValueError):
    """Raised for a network that draws no random numbers."""


def argument(target: Any, args: Sequence[Any], kwargs: dict[str, Any], *names: str) -> Any:
    """The value that an operation gets for the first of some argument names it has; None if it has none."""
    for place, known in enumerate(target._schema.arguments):
        if known.name in names:
            default = known.default_value if known.has_default_value() else None
            return args[place] if place < len(args) else kwargs.get(known.name, default)
    return None


def is_random(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operation draws random numbers: dropout with p = 0 or switched off does not."""
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    # `p` is the rate of dropout and the keeping probability of bernoulli: at 0 neither is random.
    rate = argument(target, args, kwargs, "p", "dropout_p", "dropout")
    switched_on = argument(target, args, kwargs, "train", "training") is not False
    return switched_on and not (isinstance(rate, int | float) and rate == 0)


class _Recorder(TorchDispatchMode):
    """Counts random operations by the module whose forward was running."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Any] = [_NO_MODULE]
        self.found: Counter[tuple[int, str]] = Counter()
        self.modules: dict[int, nn.Module] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_random(func, args, kwargs):
            owner = self.running[-1]
            self.found[id(owner), str(func)] += 1
            self.modules[id(owner)] = owner
            if isinstance(kwargs.get("generator"), torch.Generator):
                raise ValueError(
                    f"{type(owner).__name__} draws from a generator of its own, which cannot be seeded for "
                    "each draw; let it use torch's default generator."
                )
        return func(*args, **kwargs)


@contextmanager
def recording(net: nn.Module, *, owners: bool = True) -> Iterator[_Recorder]:
    """Record the random operations of the passes run inside, and, by hooks, the modules they belong to."""
    recorder = _Recorder()

    def enter(module: nn.Module, _: Any) -> None:
        recorder.running.append(module)

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        recorder.running.pop()

    # TorchScript modules take no hooks: their operations count for the module around them.
    watched = [m for m in net.modules() if owners and not isinstance(m, torch.jit.ScriptModule)]
    hooks = [m.register_forward_pre_hook(enter) for m in watched]
    hooks += [m.register_forward_hook(leave, always_call=True) for m in watched]
    try:
        with recorder:
            yield recorder
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def modes(net: nn.Module, on: Callable[[nn.Module], bool]) -> Iterator[None]:
    """Put the modules that `on` picks in training mode and the others in evaluation; all is restored afterwards."""
    before = [(m, m.training) for m in net.modules()]
    buffers = [
        (m, name, b, b.clone()) for m in net.modules() for name, b in m._buffers.items() if b is not None
    ]
    try:
        for module, _ in before:
            module.training = on(module)  # not .train(): networks override it, for instance to freeze layers
        yield
    finally:
        for module, training in before:
            module.training = training
        with (
            torch.inference_mode()
        ):  # a network may have been loaded in it, and its buffers take nothing outside
            for module, name, buffer, value in buffers:
                module._buffers[name] = buffer
                buffer.copy_(value)


def stochastic_modules(net: nn.Module, probe: Tensor) -> Callable[[nn.Module], bool]:
    """Which modules must be in training mode for "dropout on, everything else as in evaluation".

    The modules whose own forward draws random numbers in training mode: this finds drop-path and
    `F.dropout(x, p, self.training)` as well as dropout modules, and leaves alone what else depends on the
    mode (batch statistics, auxiliary heads). If that loses randomness, because a parent skips its dropout
    in evaluation mode (the fast path of nn.TransformerEncoderLayer), all but the normalisation layers are on.

    Args:
        net: any network.
        probe: two cases, since some layers refuse a single one in training mode.

    Returns:
        The choice, as `modes` takes it. NotRandom if nothing is random.
    """

    def wide(module: nn.Module) -> bool:
        return not isinstance(module, _NEVER_ON)

    def look(on: Callable[[nn.Module], bool], *, owners: bool = True) -> _Recorder:
        outside = random.getstate(), _numpy_state()
        with modes(net, on), recording(net, owners=owners) as recorder:
            net(probe)
        if outside != (random.getstate(), _numpy_state()):
            raise ValueError(
                f"{type(net).__name__} draws from Python's `random` or NumPy's global generator, so one seed "
                "could not give the same draws again; let it use torch's generator."
            )
        return recorder

    if any(isinstance(m, torch.jit.ScriptModule) for m in net.modules()):
        raise ValueError(
            f"{type(net).__name__} is, or holds, a TorchScript module, whose dropout cannot be told from its other "
            "layers; give the nn.Module that it was made from."
        )
    seen = look(wide)
    if not seen.found:
        raise NotRandom(
            f"{type(net).__name__} draws no random numbers: no dropout with p > 0, no drop-path. All draws "
            "would be equal. Put dropout into the network, or use ensemble_draws with several trained ones."
        )
    chosen = {id(m) for m in seen.modules.values()}

    def narrow(module: nn.Module) -> bool:
        return id(module) in chosen and wide(module)

    # Without hooks, since a parent that sees some does not take its fast path.
    kept = look(narrow, owners=False).found
    return narrow if _operations(kept) == _operations(seen.found) else wide


def _operations(found: Counter[tuple[int, str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (_, operation), times in found.items():
        counts[operation] += times
    return counts


def _numpy_state() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # noqa: NPY002  (the global generator is what is watched)
    return (state[1].tobytes(), *state[2:])


@contextmanager
def guarded_generators(device: torch.device) -> Iterator[None]:
    """Leave torch's generators of the CPU and of `device` as they were."""
    host = torch.default_generator.get_state()
    others = [] if device.type == "cpu" else [_device_generator(device)]
    states = [other.get_state() for other in others]
    try:
        yield
    finally:
        with SEEDING:
            torch.default_generator.set_state(host)
        for other, state in zip(others, states):
            other.set_state(state)


def seed_generators(device: torch.device, seed: int) -> None:
    """Seed the CPU and `device` only; torch.manual_seed would touch every other accelerator too."""
    with SEEDING:
        torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        _device_generator(device).manual_seed(seed)


def _device_generator(device: torch.device) -> torch.Generator:
    module = torch.get_device_module(device.type)
    if device.type == "mps":
        return module._get_default_mps_generator()
    return module.default_generators[device.index or 0]


def draw_seeds(seed: int, batch: int, draws: int) -> list[int]:
    """Make a seed for each draw of a batch; seeds differ within the batch, and more draws begin with the same ones.

    torch's CPU generator takes 32 bits of a seed, hence the remainder.
    """
    first = int(np.random.SeedSequence([seed, batch]).generate_state(1)[0])
    return [(first + draw) % 2**32 for draw in range(draws)]
