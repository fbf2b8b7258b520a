"""A witness of what a report says: every number anew by plain numpy.

Nothing of the package is used here. Whether something is off is judged by a bootstrap of the cases, with room between
what must be said and what must not: a report and its witness draw different replicates.
"""

import math
from functools import cached_property

import numpy as np

CLEAR, SURE = 1.8, 3.8  # standard errors: nothing below the first is off, everything beyond the second is
CACHED = ("skill", "bias", "size", "uneven", "rank", "gap", "off")


class Witness:
    """Calibration and test cases, (case, output), under a factor on sigma."""

    def __init__(self, calibration, test, factor=1.0, replicates=200):
        self.mu, self.sd, self.y = (np.asarray(a, float).reshape(len(a), -1) for a in test)
        cal = [np.asarray(a, float).reshape(len(a), -1) for a in calibration]
        self.own = (cal[2] - cal[0]) / (cal[1] * factor)  # z of the calibration cases
        self.sd = self.sd * factor
        self.r, self.z = self.y - self.mu, (self.y - self.mu) / self.sd
        self.constant = cal[2].mean(axis=0)
        self.cases, self.outputs = self.y.shape
        rng = np.random.default_rng(11)
        self.draws = rng.multinomial(self.cases, np.full(self.cases, 1 / self.cases), replicates)
        self.own_draws = rng.multinomial(len(self.own), np.full(len(self.own), 1 / len(self.own)), replicates)

    def _copy(self):
        some = object.__new__(Witness)
        some.__dict__.update({name: value for name, value in vars(self).items() if name not in CACHED})
        return some

    def only(self, output):
        """The same of one output."""
        some = self._copy()
        for name in ("mu", "sd", "y", "r", "z", "own"):
            setattr(some, name, getattr(self, name)[:, output : output + 1])
        some.constant, some.outputs = self.constant[output : output + 1], 1
        return some

    def cases_where(self, some):
        """The same of some cases."""
        part = self._copy()
        for name in ("mu", "sd", "y", "r", "z"):
            setattr(part, name, getattr(self, name)[some])
        part.draws, part.cases = self.draws[:, some], int(some.sum())
        return part

    # Estimates and how many standard errors they are from what they should be.

    @cached_property
    def skill(self):
        error, spread = (self.r**2).sum(axis=1), ((self.y - self.constant) ** 2).sum(axis=1)
        drawn = 1 - (self.draws @ error) / (self.draws @ spread)
        return 1 - error.sum() / spread.sum(), drawn.std()

    def rmse(self):
        return math.sqrt((self.r**2).mean())

    def share_of_sd(self):
        return self.rmse() / math.sqrt(self.y.var(axis=0).mean())

    @cached_property
    def bias(self):
        drawn = (self.draws @ self.r.sum(axis=1)) / (self.draws.sum(axis=1) * self.outputs)
        return self.r.mean(), drawn.std()

    @cached_property
    def size(self):
        """The factor that the test cases ask for, that of the calibration cases, and the errors of their logarithms."""
        found = []
        for z, draws in ((self.z, self.draws), (self.own, self.own_draws)):
            square = (z**2).mean(axis=1)
            found.append((math.sqrt(square.mean()), 0.5 * np.log(draws @ square / draws.sum(axis=1)).std()))
        return found

    def thirds(self, key):
        """The third of each element, by rank within its output."""
        order = np.argsort(np.argsort(key, axis=0, kind="stable"), axis=0)
        return np.minimum(3 * order // len(key), 2)

    def held(self, key, level_z=1.6448536269514722):
        third = self.thirds(key)
        return [float((np.abs(self.z) <= level_z)[third == k].mean()) for k in range(3)]

    @cached_property
    def uneven(self):
        return self.uneven_in(self.sd, self.mu)

    def uneven_in(self, *keys):
        """The probability that thirds by each key have mean |z| as different as these by chance."""
        logs = []
        for key in keys:
            third = self.thirds(key)
            if np.ptp(key) < 1e-9 * np.abs(key).max():
                continue
            for k in range(3):
                inside = third == k
                held, count = (np.abs(self.z) * inside).sum(axis=1), inside.sum(axis=1)
                logs.append(np.log([held.sum() / count.sum(), *(self.draws @ held) / (self.draws @ count)]))
        value = np.array(logs)
        contrast = np.concatenate([value[k : k + 3][[0, 2]] - value[k + 1] for k in range(0, len(value), 3)])
        step, drawn = contrast[:, 0], contrast[:, 1:]
        square = step @ np.linalg.pinv(np.cov(drawn)) @ step
        terms = len(step) // 2  # of the survival function of chi-square with an even number of degrees
        return math.exp(-square / 2) * sum((square / 2) ** k / math.factorial(k) for k in range(terms))

    @cached_property
    def rank(self):
        """Spearman's correlation of |error| with sigma within outputs, and about its standard error."""
        places = [
            [np.unique(a[:, j], return_inverse=True)[1] for j in range(self.outputs)] for a in self.ranked
        ]
        ranks = [[(np.cumsum(c := np.bincount(p)) - c / 2)[p] for p in some] for some in places]
        if any(np.ptp(column) == 0 for column in self.sd.T):
            return 0.0, math.inf
        rho = float(np.corrcoef(*[np.concatenate(some) for some in ranks])[0, 1])
        return rho, 1.1 / math.sqrt(self.cases) * math.sqrt(1 + rho**2 / 2)

    @property
    def ranked(self):
        return np.abs(self.r), self.sd

    @cached_property
    def gap(self):
        """The largest gap of z / s from the Normal law, and its 95 % quantile over sets that are Normal."""
        place = np.linspace(-3, 3, 301)
        law = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in place])

        def largest(z):
            z = np.sort(z / np.sqrt((z**2).mean(axis=0)), axis=None)
            return np.abs(np.searchsorted(z, place, side="right") / z.size - law).max()

        rng = np.random.default_rng(3)
        drawn = [largest(rng.normal(size=self.z.shape)) for _ in range(40)]
        return largest(self.z), float(np.quantile(drawn, 0.95))

    @cached_property
    def off(self):
        """By question: True where it is clearly off, False where it is clearly not, None in between."""
        skill, error = self.skill
        (seen, seen_error), (known, known_error) = self.size
        rank, rank_error = self.rank
        chance = self.uneven if self.cases >= 20 else 1.0
        gap, usual = self.gap
        bias, bias_error = zip(*[self.only(j).bias for j in range(self.outputs)])
        alone = [abs(b) / e for b, e in zip(bias, bias_error)]
        return {
            "skill": _between(0.05 - skill, error, 2.2, 1.4),
            "centre": _between(max(alone), 1.0),
            "size": _between(abs(math.log(seen)), seen_error),
            "differ": _between(abs(math.log(seen / known)), math.hypot(seen_error, known_error)),
            "after": _between(abs(math.log(seen)), math.hypot(seen_error, known_error)),
            "knowing": True if rank < -4 * rank_error or chance < 1e-3 else None if chance < 0.09 else False,
            "shape": self.cases >= 20
            and (True if gap > 1.6 * usual else None if gap > 0.75 * usual else False),
        }


def _between(distance, error, sure=SURE, clear=CLEAR):
    """Whether a distance is beyond chance: yes, no, or too near to tell."""
    t = distance / error
    return True if t > sure else False if t < clear else None
