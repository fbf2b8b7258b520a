"""The device a run uses: what is asked for, or the best there is, without Lightning."""

import pytest
import torch

from truesigma.imaging.training.devices import chosen_device


@pytest.fixture
def gpus(monkeypatch):
    """Torch as it would be with so many GPUs."""

    def there(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    return there


@pytest.mark.parametrize(
    ("count", "asked", "device"),
    [
        (0, "auto", "cpu"),
        (2, "auto", "cuda:0"),
        (2, "cuda", "cuda:0"),
        (2, "cuda:1", "cuda:1"),
        (2, "cpu", "cpu"),
    ],
)
def test_the_device_asked_for_or_the_best(gpus, count, asked, device):
    gpus(count)
    assert chosen_device(asked) == torch.device(device)


@pytest.mark.parametrize(
    ("count", "asked", "words"),
    [
        (0, "cuda", "sees no GPU here"),
        (2, "cuda:2", "sees 2 GPUs here"),
        (0, "mps", "sees no GPU here"),
        (2, "gpu", "expected auto, cpu"),
        (2, "cuda:x", "expected auto, cpu"),
        (2, "cpu:1", "expected auto, cpu"),
    ],
)
def test_a_device_that_is_not_there_is_named(gpus, count, asked, words):
    gpus(count)
    with pytest.raises(ValueError, match=words) as caught:
        chosen_device(asked)
    assert repr(asked) in str(caught.value)
