"""How often each verdict is "off": python docs/scripts/measure_verdicts.py [--sets 1000] [--row true] [--jobs 8]

Pairs of calibration and test sets, drawn from models that are true, for false alarms; whose errors have another law of
the right variance; and with one fault, for power. The five questions are asked about each pair, without a page, so
that a row of 1,000 sets takes half a minute or so. Writes `assets/verdicts.csv`; `report.md` shows it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from measured import Simulation, shares, simulate

import truesigma as ts
from truesigma.evaluation.headline import headline
from truesigma.evaluation.questions import QUESTIONS, questions

LAWS: Mapping[str, Callable[[np.random.Generator, Any], np.ndarray]] = {  # errors of mean 0 and variance 1
    "Normal": lambda rng, shape: rng.normal(size=shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
    "t5": lambda rng, shape: rng.standard_t(5, size=shape) * np.sqrt(0.6),
    "t3": lambda rng, shape: rng.standard_t(3, size=shape) / np.sqrt(3),
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
    "Normal, 2 % gross": lambda rng, shape: (
        rng.normal(size=shape) * np.where(rng.uniform(size=shape) < 0.02, 8.0, 1.0) / np.sqrt(2.26)
    ),
}
Row = Mapping[str, Any]
Judge = Callable[[list[Row]], dict[str, bool]]


@dataclass(frozen=True)
class World:
    """What sets are drawn from: sigma varies by a factor of about 1.5, predictions are good."""

    cases: int = 200  # or patients, where these have several images
    images: tuple[int, int] = (1, 1)  # of a patient: at least, and at most
    shared: float = 0.0  # correlation of the errors of one patient
    outputs: int = 1
    groups: int = 0
    law: str = "Normal"
    small: float = 1.0  # how many times too small sigma is
    odd: str = (
        ""  # "group": one with a tenth of the cases, "output": the last one; its errors are `times` as large
    )
    times: float = 1.0
    outliers: int = 0  # test cases whose errors are 15 to 300 sigmas

    def draw(self, rng: np.random.Generator, *, test: bool) -> ts.Cases:
        low, high = self.images
        patient = np.repeat(np.arange(self.cases), rng.integers(low, high + 1, size=self.cases))
        shape = (patient.size, self.outputs)
        z = LAWS[self.law](rng, shape)
        if self.shared:
            own = rng.normal(size=(self.cases, self.outputs))[patient]
            z = np.sqrt(self.shared) * own + np.sqrt(1 - self.shared) * z
        group = rng.integers(self.groups, size=shape[0]) if self.groups else None
        if self.odd == "group":
            group = np.where(rng.uniform(size=shape[0]) < 0.1, 0, rng.integers(1, self.groups, size=shape[0]))
            z[group == 0] *= self.times
        if self.odd == "output":
            z[:, -1] *= self.times
        if self.outliers and test:
            sign = rng.choice([-1.0, 1.0], size=self.outliers)
            z[: self.outliers, 0] = sign * np.exp(rng.uniform(np.log(15), np.log(300), size=self.outliers))
        sigma, mu = np.exp(0.4 * rng.normal(size=shape)), 3 * rng.normal(size=shape)
        arrays = (mu, (sigma / self.small) ** 2, mu + sigma * z)
        mu, variance, y = (one[:, 0] if self.outputs == 1 else one for one in arrays)
        named = None if high == 1 else patient
        names = None if group is None else [f"site {name}" for name in group]
        return ts.Cases(ts.Prediction(mu, aleatoric=variance), y, patient=named, group=names)

    def asked(self, seed: int) -> list[Row]:
        """The answers about one pair of sets, before and after sigma scaling."""
        rng = np.random.default_rng(seed)
        known, seen = self.draw(rng, test=False), self.draw(rng, test=True)
        fitted = ts.recalibrate.sigma.fit(known.prediction, known.target, patient=known.patient)
        pairs = {
            "none": (known.prediction, seen.prediction),
            "sigma": (fitted(known.prediction), fitted(seen.prediction)),
        }
        return questions(known, seen, pairs)


def off(rows: Iterable[Row], **where: Any) -> list[Row]:
    """The rows that are called off, of these questions, outputs, groups and recalibrations."""
    return [r for r in rows if r["verdict"] == "off" and all(r[key] == value for key, value in where.items())]


def false_alarms(rows: list[Row]) -> dict[str, bool]:
    found = {"any": bool(off(rows))}
    found |= {question: bool(off(rows, question=question, recalibration="none")) for question in QUESTIONS}
    return found | {"size after": bool(off(rows, question="size", recalibration="sigma"))}


def size_is_found(rows: list[Row]) -> dict[str, bool]:
    whole = off(rows, question="size", recalibration="none", output=None, group=None)
    return {"found": bool(whole)}


def culprit(rows: list[Row], *, name: str, others: Iterable[str]) -> dict[str, bool]:
    """Whether the headlines, before and after scaling, name the one that is odd, as the first and as the only one."""
    found = {}
    for when, label in (("before", "none"), ("after", "sigma")):
        said = headline(rows, label, "sigma scaling")
        place = said.find(name)
        alone = place >= 0 and not any(other in said for other in others)
        found |= {f"alone, {when}": alone, f"first, {when}": 0 <= place < len(said.partition(". ")[0])}
    return found


def outliers_are_named(rows: list[Row], count: int) -> dict[str, bool]:
    size = next(r for r in rows if (r["recalibration"], r["question"]) == ("none", "size"))
    named = [one["case"] for one in size["parts"].get("outliers", ())]
    small = "too small" in headline(rows, "none")
    return {"named exactly": sorted(named) == list(range(count)), "called too small": small}


def names_outliers(rows: list[Row]) -> dict[str, bool]:
    return {"named": any(row["parts"].get("outliers") for row in rows)}


def true_models() -> Iterable[tuple[str, World]]:
    for n in (50, 100, 500, 2000):
        yield f"{n:,} cases", World(n)
    for n, outputs in ((50, 2), (200, 4), (1000, 4)):
        yield f"{n:,} cases, {outputs} outputs", World(n, outputs=outputs)
    for n, groups in ((100, 3), (400, 8), (2000, 8)):
        yield f"{n:,} cases, {groups} groups", World(n, groups=groups)
    yield "500 cases, 3 outputs, 4 groups", World(500, outputs=3, groups=4)
    yield "1,000 cases, 4 outputs, 8 groups", World(1000, outputs=4, groups=8)
    for patients in (15, 40, 200):
        for images, words in (((10, 10), "10 images"), ((1, 50), "1 to 50 images")):
            for shared in (0.0, 0.5):
                yield f"{patients} patients, {words}, correlated {shared:g}", World(patients, images, shared)
    yield "40 patients, 1 to 50 images, correlated 0.5, 4 groups", World(40, (1, 50), 0.5, groups=4)
    yield "40 patients, 1 to 50 images, correlated 0.5, 4 outputs", World(40, (1, 50), 0.5, outputs=4)


def other_laws() -> Iterable[tuple[str, World]]:
    for law in list(LAWS)[1:]:
        for n in (50, 100, 200, 1000):
            yield f"{law}, {n:,} cases", World(n, law=law)


def powers() -> Iterable[tuple[str, World]]:
    for small in (1.3, 1.5):
        yield f"{small} times too small, 100 cases", World(100, small=small)
    yield "1.3 times too small, 100 cases of 2 outputs", World(100, small=1.3, outputs=2)
    for n in (100, 200):
        yield f"1.3 times too large, {n} cases", World(n, small=1 / 1.3)
    yield "1.5 times too large, 100 cases", World(100, small=1 / 1.5)


def culprits() -> Iterable[tuple[str, World, Judge]]:
    sites, outputs = ["site 1", "site 2", "site 3"], ["output 0", "output 1"]
    world = World(600, groups=4, odd="group", times=3.0)
    yield "one of four groups, tripled errors", world, partial(culprit, name="site 0", others=sites)
    world = World(200, outputs=3, odd="output", times=4.0)
    yield "one of three outputs, fourfold errors", world, partial(culprit, name="output 2", others=outputs)


def judged(seed: int, world: World, judge: Judge) -> dict[str, bool]:
    return judge(world.asked(seed))


def simulations() -> Iterator[Simulation]:
    """All rows of all tables; the most important first."""
    outliers = replace(World(400), outliers=2)
    tables: dict[str, Iterable[tuple[str, World, Judge]]] = {
        "true": ((*one, false_alarms) for one in true_models()),
        "laws": ((*one, false_alarms) for one in other_laws()),
        "power": ((*one, size_is_found) for one in powers()),
        "culprit": culprits(),
        "outliers": [("two of 400", outliers, partial(outliers_are_named, count=2))],
        "named": [
            (f"{law}, {n} cases", World(n, law=law), names_outliers) for law in LAWS for n in (50, 400)
        ],
    }
    for key, rows in tables.items():
        for name, world, judge in rows:
            yield Simulation(key, name, partial(judged, world=world, judge=judge))


TITLES = {
    "true": "called off, true model",
    "laws": "called off, other law",
    "power": "sigma of the wrong size",
    "culprit": "named in the headline",
    "outliers": "gross outliers",
    "named": "outliers are named, and there are none",
}


def tables() -> dict[str, str]:
    """The tables of `docs/report.md`, from the file of numbers."""
    return {key: shares("verdicts.csv", key, title=title) for key, title in TITLES.items()}


if __name__ == "__main__":
    simulate(__doc__, "verdicts.csv", simulations())
