r"""CV+: intervals across the folds of a cross-fitted model, for cohorts too small to set calibration cases aside.

$$\Bigl[\,Q^-_{\gamma}\{\mu_{-k(i)}(x) - r_i\,\sigma_{-k(i)}(x)\},\; Q^+_{\gamma}\{\mu_{-k(i)}(x) + r_i\,
  \sigma_{-k(i)}(x)\}\Bigr], \qquad r_i = |z_i|$$

each calibration case i is predicted by the model of the folds without it, and each new case x by all of these models:
every case meets its own model's prediction. Q+ is the value of rank ceil((m + 1) gamma) from below, Q- that from above;
by patient, cases weigh 1/((G + 1) n_g). With K folds of n cases, or patients, what is promised is

$$2\gamma - 1 - \min\Bigl(\frac{2 (1 - 1/K)}{n/K + 1}, \frac{1 - K/n}{K + 1}\Bigr)$$

and usually gamma is held.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Host, to_host
from ..core.cases import Cases
from ..core.checks import check_level
from ..core.decompose import decompose
from ..core.errors import Refusal
from ..core.law import Law, cases_needed
from ..core.recalibration import on_cases, on_predictions, restored, stored, with_law
from ..core.values import Draws, Prediction, changed
from ..core.varying import Around, Varying
from ._ranks import SLACK, Ranks, check_unweighted, observed, symmetric_law, thinned

TITLE = "CV+"
BY_NAME = True  # of use where each case was predicted by the model of the folds without it
NEEDS = ("folds", "draws")
AT_A_TIME = 1 << 22  # pairs of a calibration case and a new one that are held at once


@dataclass(frozen=True, eq=False, repr=False)
class FoldBounds(Around):
    """Bounds of new cases from the predictions of every fold's model, in units of the scale of all of them together."""

    law: Law
    fitted: "CvPlus"
    location: (
        Host  # (case, output..., fold), of each fold's model, minus that of all together, over their scale
    )
    scale: Host  # of each fold's model, over that of all together
    ARRAYS = ("location", "scale")

    def flat(self) -> "FoldBounds":
        return Varying.flat(self)

    def central(self, level: float) -> tuple[Host, Host]:
        check_level(level)
        scores, fold = np.array(self.fitted.scores), np.array(self.fitted.folds)
        weight = np.array(self.fitted.weights)
        middle, scale = (a.reshape(-1, a.shape[-1]).T for a in (self.location, self.scale))
        ends = np.full((2, middle.shape[1]), math.inf)
        step = max(1, AT_A_TIME // scores.size)
        for start in range(0, middle.shape[1], step):
            some = slice(start, start + step)
            for end, sign in enumerate((-1.0, 1.0)):
                reach = sign * middle[fold, some] + scores[:, None] * scale[fold, some]
                order = np.argsort(reach, axis=0, kind="stable")
                held = np.cumsum(weight[order], axis=0) >= level - SLACK
                place = np.take_along_axis(order, held.argmax(axis=0)[None], axis=0)
                found = np.take_along_axis(reach, place, axis=0)[0]
                ends[end, some] = np.where(held.any(axis=0), found, math.inf)
        return -ends[0].reshape(self.shape), ends[1].reshape(self.shape)

    def too_few_for(self, level: float) -> str | None:
        held = sum(self.fitted.weights)
        if level - SLACK <= held:
            return None
        needed = math.ceil(level / (1 - level) - 1e-9)
        return f"the {level:g} interval is infinite: {cases_needed(needed, self.fitted.cases)}."


@dataclass(frozen=True)
class CvPlus:
    """Makes bounds of what the models of all folds predict, which `of_members` takes as draws in the order of folds."""

    scores: tuple[float, ...]
    folds: tuple[int, ...]  # of each score
    weights: tuple[float, ...]  # of each score: 1/((G + 1) n_g)
    models: int
    cases: int  # or patients

    def __post_init__(self) -> None:
        alike = len(self.scores) == len(self.folds) == len(self.weights) > 0
        # the two ends: a damaged card may have more models than there is memory to count
        if not (alike and self.cases > 0 and 0 <= min(self.folds) <= max(self.folds) < self.models):
            raise Refusal(
                f"{len(self.scores)} scores with {len(self.weights)} weights of {len(self.folds)} cases are not of "
                f"{self.models!r:.20} cross-fitted models; expected folds counted from 0."
            )

    @on_predictions
    def __call__(self, prediction: Prediction, *, group: Any = None) -> Prediction:
        """Put the law of the held-out errors about one prediction, for scores; CV+ itself is `of_members`."""
        order = np.argsort(self.scores, kind="stable")
        levels = np.minimum(np.cumsum(np.array(self.weights)[order]), self.cases / (self.cases + 1))
        kept = thinned(levels)
        scores = tuple(np.array(self.scores)[order][kept].tolist())
        ranks = Ranks(scores, tuple(levels[kept].tolist()), self.cases)
        return with_law(prediction, symmetric_law(ranks, prediction.law))

    def of_members(self, draws: Draws) -> Prediction:
        """Join the predictions of all models, and add the bounds; several draws of one model follow each other.

        >>> y = np.array([1.0, -2.0, 3.0, -4.0])
        >>> fitted = fit(Prediction(0 * y, aleatoric=0 * y + 1), y, fold=[0, 0, 1, 1])
        >>> fitted.of_members(Draws([[0.0], [10.0]], [[1.0], [1.0]])).interval(0.8)  # of two models, at 0 and 10
        Interval(1 case)
        """
        count = int(draws.mean.shape[0])
        if count % self.models:
            raise Refusal(
                f"there are {count} draws, and {self.models} folds' models; expected as many of each model, one after "
                "the other."
            )
        each = count // self.models
        parts = [
            decompose(
                Draws(draws.mean[k : k + each], draws.variance[k : k + each], mask=draws.mask, law=draws.law)
            )
            for k in range(0, count, each)
        ]
        made = decompose(draws)
        middle, scale = (to_host(a).astype(np.float64) for a in (made.location, made.scale))
        found = [(to_host(p.location) - middle, to_host(p.scale)) for p in parts]
        location, spread = (np.stack([a / scale for a in column], axis=-1) for column in zip(*found))
        told = self(made)
        return changed(told, law=FoldBounds(told.law, self, location, spread))

    def promised(self, level: float) -> float:
        """The share of new cases, or patients, that is promised at a level; the level itself is what usually holds.

        >>> y = np.arange(100.0)
        >>> round(fit(Prediction(0 * y, aleatoric=0 * y + 1), y, fold=np.arange(100) % 10).promised(0.9), 3)
        0.718
        """
        count, folds = self.cases, self.models
        lost = min(2 * (1 - 1 / folds) / (count / folds + 1), (1 - folds / count) / (folds + 1))
        return max(0.0, 2 * level - 1 - lost)

    @property
    def degrees_of_freedom(self) -> int:
        return len(self.scores)

    to_dict = stored("cv_plus")

    def __repr__(self) -> str:
        return f"CvPlus({self.models} folds, {self.cases} cases)"


@on_cases
def fit(cases: Cases) -> CvPlus:
    """Gather the errors of cases that were each predicted by a model which had not seen them.

    No case has to be set aside: all are trained on, and all calibrate. `.promised(level)` says what share of new cases
    is promised to be held, some 70 to 80 % at a level of 90 %; usually 90 % are. Weights are refused, as for
    `conformal`; the cases of a patient are in one fold, and the promise is about a new patient.

    Args:
        cases: predicted by the model of the folds without them, with the `fold` of each: a column in the file. The
            first model is that of the first name in order. Or their arrays, as `Fitting` says.

    Returns:
        The recalibration: `.of_members(draws)` takes what the folds' models predict for new cases.

    Example:
        >>> y = np.random.default_rng(0).normal(size=100)
        >>> fit(Prediction(0 * y, aleatoric=0 * y + 1), y, fold=np.arange(100) % 5)
        CvPlus(5 folds, 100 cases)

    Reference: Barber, Candes, Ramdas and Tibshirani, "Predictive Inference with the Jackknife+", Annals of Statistics
    2021, section 3 (CV+) and Theorem 4.
    """
    check_unweighted("cv_plus", cases.weight)
    if cases.fold is None:
        raise Refusal(
            "cv_plus was given no fold; expected that of each case, whose model had not seen it: a column `fold` in "
            "the file. With one model and cases it was not trained on use conformal."
        )
    names, number = np.unique(cases.fold, return_inverse=True)
    if names.size < 2:
        raise Refusal(
            f"fold has shape {number.shape} and {names.size} name(s); expected one of two or more for each of the "
            f"{len(cases)} cases."
        )
    z, case, cluster = observed(cases.prediction, cases.target, cases.patient)
    code, sizes = np.unique(cluster, return_inverse=True, return_counts=True)[1:]
    folds_of = np.bincount(np.unique(np.stack([code, number[case]]), axis=1)[0])
    if torn := int((folds_of > 1).sum()):
        raise Refusal(
            f"{torn} patient(s) are in several folds, so that a model has seen them; expected one fold for each."
        )
    weights = 1 / ((sizes.size + 1) * sizes[code])
    scores, folds, shares = (tuple(a.tolist()) for a in (np.abs(z), number[case], weights))
    return CvPlus(scores, folds, shares, int(names.size), int(sizes.size))


from_dict = restored(CvPlus)
