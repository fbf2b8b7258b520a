"""isotonic and conformal by z, as they are, against ranks of the law's own distribution function.

python docs/scripts/measure_own_law.py [--sets N] [--jobs K]

Laws that differ by case, with errors as they say, and 1.5 times too large or too small for them. 300 cases to fit on,
1,500 to score: what the 90 % intervals hold, and their Winkler score by the distribution function over that by z.
Writes `assets/own_law.csv`; `table()` is the table of the page.
"""

import math
from functools import partial

import numpy as np
from measured import Simulation, markdown, simulate, simulated
from scipy import stats

import truesigma as ts

KNOWN, SEEN, LEVEL, LEAST = 300, 1500, 0.9, 1e-12
WRONG = {"": 1.0, ", sigma 1.5 times too small": 1.5, ", too large": 1 / 1.5}
COLUMNS = (
    "isotonic holds",
    "by the law",
    "its score, by the law over by z",
    "conformal holds",
    "by the law ",
    "its score, by the law over by z ",
)


def gamma(rng, cases):
    law = stats.gamma(rng.uniform(1, 6, cases), scale=rng.uniform(0.5, 2, cases))
    return ts.Prediction.from_scipy(law), law.rvs(random_state=rng)


def mixture(rng, cases):
    share, apart = rng.uniform(0.1, 0.9, cases), rng.uniform(1, 6, cases)
    location, scale = np.stack([-apart * (1 - share), apart * share]), rng.uniform(0.3, 1, (2, cases))
    prediction = ts.Prediction.from_mixture(np.stack([share, 1 - share]), location, scale)
    return prediction, prediction.sample(1, seed=int(rng.integers(1 << 30)))[0]


def student(rng, cases):
    law = stats.t(rng.uniform(3, 30, cases), rng.normal(size=cases), rng.uniform(0.5, 2, cases))
    return ts.Prediction.from_scipy(law), law.rvs(random_state=rng)


LAWS = {"gamma laws": gamma, "mixtures of two": mixture, "Student's t": student}


def draw(make, times, seed):
    rng = np.random.default_rng(seed)
    prediction, y = make(rng, KNOWN + SEEN)
    cases = ts.Cases(prediction, prediction.location + times * (y - prediction.location))
    known, seen = cases[:KNOWN], cases[KNOWN:]
    pit = np.sort(known.prediction.cdf(known.target))
    ends = np.interp([0.05, 0.95], np.arange(1, KNOWN + 1) / (KNOWN + 1), pit)
    rank = np.sort(np.abs(2 * pit - 1))[math.ceil((KNOWN + 1) * LEVEL) - 1]
    own = {"isotonic": ends, "conformal": ((1 - rank) / 2, (1 + rank) / 2)}
    found, columns = {}, iter(COLUMNS)
    for name, probabilities in own.items():
        by_z = ts.fit(name, known)(seen).prediction.interval(LEVEL)
        by_law = [seen.prediction.quantile(float(np.clip(p, LEAST, 1 - LEAST))) for p in probabilities]
        (held, score), (held_by_law, score_by_law) = (scores(*both, seen.target) for both in (by_z, by_law))
        for number in (held, held_by_law, score_by_law / score):
            found[next(columns)] = number
    return found


def scores(low, high, y):
    beyond = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return np.mean(beyond == 0), np.mean(high - low + 2 / (1 - LEVEL) * beyond)


def simulations():
    for name, make in LAWS.items():
        for words, times in WRONG.items():
            yield Simulation("own law", name + words, partial(draw, make, times))


def table() -> str:
    rows = simulated("own_law.csv", "own law")
    lines = [[name, *(f"{100 * row[what][0]:.1f} %" for what in COLUMNS)] for name, row in rows.items()]
    return markdown(f"| | {' | '.join(column.strip() for column in COLUMNS)} |", lines)


if __name__ == "__main__":
    simulate(__doc__, "own_law.csv", list(simulations()))
