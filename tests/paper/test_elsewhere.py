"""The other group's predictions on EndoVis, scored by slow loops."""

import math

import numpy as np
import pytest
from made_up_paper import PAPER

from paper import open_paper, other_group
from paper.other_group import BLOCK

# Factors on the aleatoric and the total sd, computed by others from the published files.
KNOWN = {"resnet101": (1.1053, 0.9007), "densenet201": (0.8468, 0.7358), "efficientnet_b4": (3.3860, 2.1570)}


@pytest.fixture(scope="module")
def real():
    return open_paper(PAPER)


@pytest.mark.parametrize("network", KNOWN)
def test_scores_are_the_slow_loops(real, network):
    valid, test = (other_group.cases(real, network, split) for split in ("valid", "test"))
    assert (len(valid), len(valid[0]), len(test), len(test[0])) == (1, 679, 5, 357)
    found = other_group.score(valid[0], test)
    assert (found.aleatoric, found.factor) == pytest.approx(KNOWN[network], abs=1e-4)
    one = valid[0].prediction
    sums, blocks, count = {}, {}, 0
    for frame in range(len(one)):
        for output in range(2):
            ratio = float(one.location[frame, output] ** 2 / one.total[frame, output])
            sums[frame // BLOCK] = sums.get(frame // BLOCK, 0.0) + ratio
            blocks[frame // BLOCK] = blocks.get(frame // BLOCK, 0) + 1
            count += 1
    square = sum(sums.values()) / count
    away = sum((sums[k] - blocks[k] * square) ** 2 for k in sums)
    error = math.sqrt(len(sums) / (len(sums) - 1) * away) / count / (2 * math.sqrt(square))
    assert (found.factor, found.error) == pytest.approx((math.sqrt(square), error), rel=1e-6)
    inside = []
    for repeat in test:
        half = 1.6448536269514722 * np.sqrt(repeat.prediction.total)
        inside.append(np.mean(np.abs(repeat.prediction.location) <= half))
    assert found.held[0] == pytest.approx(np.mean(inside))
