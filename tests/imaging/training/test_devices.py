"""The device a run uses: what is asked for, or the best there is, without Lightning."""

import pytest
import torch

from truesigma.imaging.training.devices import chosen_device, start


@pytest.fixture
def gpus(monkeypatch):
    """Torch as it would be with so many GPUs."""

    def there(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    return there


@pytest.mark.parametrize(
    ("asked", "device"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("cpu", "cpu")]
)
def test_the_device_asked_for_or_the_best(gpus, asked, device):
    gpus(2)
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


def test_one_gpu_cannot_be_several(gpus):
    gpus(2)
    with pytest.raises(ValueError, match=r"'cuda:1' names one, and devices = 2"):
        start("cuda:1", 2)
