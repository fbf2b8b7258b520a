"""Replayed work gives the numbers of the plain call, or is not used."""

import numpy as np
import pytest
import torch

from truesigma.imaging.gpu.cuda_graph import Captured
from truesigma.imaging.network.two_head import TwoHead
from truesigma.imaging.sampling.draws import dropout_draws


class Tape:
    """Stands in for a CUDA graph: a replay runs the work again and overwrites its first results."""

    def __init__(self, fault=lambda results: None):
        self.fault, self.recorded, self.replayed = fault, 0, 0

    def __call__(self, work):
        self.recorded += 1
        results = work()

        def replay():
            self.replayed += 1
            for old, new in zip(results, work()):
                old.copy_(new)
            self.fault(results)

        return results, replay


def waiting(work, device):
    return True, work()


def noisy(x, y):
    return torch.nn.functional.dropout(x, 0.5) + y, x * 2


def inputs(shift, cases=3):
    return torch.arange(4.0 * cases).reshape(cases, 4) + shift, torch.full((cases, 4), float(shift))


def seeded(call, given, seed):
    torch.manual_seed(seed)
    return call(*given)


def test_replays_equal_plain_calls_and_keep_their_own_results():
    tape = Tape()
    captured = Captured(noisy, tape, waiting)
    found = [seeded(captured, inputs(i), i) for i in range(6)]
    for i, pair in enumerate(found):
        torch.testing.assert_close(pair, seeded(noisy, inputs(i), i), rtol=0, atol=0)
    assert tape.recorded == 1
    assert tape.replayed == 4  # once to be checked, then for each of the calls after the third


def test_each_shape_has_its_own_capture():
    tape = Tape()
    captured = Captured(noisy, tape, waiting)
    for i in range(4):
        for cases in (2, 5):
            given = inputs(i, cases)
            torch.testing.assert_close(seeded(captured, given, 1), seeded(noisy, given, 1), rtol=0, atol=0)
    assert tape.recorded == 2


def test_generators_move_as_in_the_plain_call():
    captured = Captured(noisy, Tape(), waiting)
    torch.manual_seed(0)
    found = [captured(*inputs(1))[0] for _ in range(5)]
    torch.manual_seed(0)
    torch.testing.assert_close(found, [noisy(*inputs(1))[0] for _ in range(5)], rtol=0, atol=0)


def test_a_capture_that_gives_other_numbers_is_not_used():
    captured = Captured(noisy, Tape(fault=lambda results: results[0].add_(1)), waiting)
    with pytest.warns(UserWarning, match="other numbers than the plain call"):
        found = [seeded(captured, inputs(i), i) for i in range(5)]
    for i, pair in enumerate(found):
        torch.testing.assert_close(pair, seeded(noisy, inputs(i), i), rtol=0, atol=0)


def test_what_keeps_the_gpu_busy_is_not_captured():
    tape = Tape()
    captured = Captured(noisy, tape, lambda work, device: (False, work()))
    for i in range(6):
        torch.testing.assert_close(
            seeded(captured, inputs(i), i), seeded(noisy, inputs(i), i), rtol=0, atol=0
        )
    assert tape.recorded == 0


def test_a_failing_capture_falls_back():
    def broken(work):
        raise torch.OutOfMemoryError("no room on purpose")

    captured = Captured(noisy, broken, waiting)
    with pytest.warns(UserWarning, match="no room on purpose"):
        found = [seeded(captured, inputs(i), i) for i in range(5)]
    assert len(found) == 5


def test_numbers_that_are_not_finite_agree_with_themselves():
    tape = Tape()
    captured = Captured(lambda x: [x / 0], tape, waiting)
    for _ in range(5):
        found = captured(torch.tensor([-1.0, 0.0, 1.0]))
    torch.testing.assert_close(found, [torch.tensor([-torch.inf, torch.nan, torch.inf])], equal_nan=True)
    assert tape.replayed == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("draws", [7, 30])
def test_on_a_gpu_draws_do_not_depend_on_the_capture(precision, draws):
    torch.manual_seed(0)
    body = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.ReLU(),
        torch.nn.Dropout2d(0.3),
        torch.nn.Conv2d(8, 8, 3),
        torch.nn.Flatten(),
    )
    net = TwoHead(body, 8 * 12 * 12, 2, dropout=0.5).cuda().eval()
    batches = torch.rand(24, 3, 16, 16, device="cuda").split(4)
    whole = dropout_draws(net, batches, draws=draws, seed=3, precision=precision, chunk=8)
    plain = dropout_draws(net, batches[:2], draws=draws, seed=3, precision=precision, chunk=8)
    again = dropout_draws(net, batches, draws=draws, seed=3, precision=precision, chunk=8)
    assert np.array_equal(whole.mean, again.mean)
    np.testing.assert_array_equal(whole.mean[:, :8], plain.mean)
    centred = whole.mean - whole.mean.mean(0)
    assert (centred.std(0) > 0).all()
