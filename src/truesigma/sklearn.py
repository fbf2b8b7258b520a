"""Any regressor of scikit-learn with intervals that hold: `CalibratedRegressor(RandomForestRegressor())`.

It needs scikit-learn 1.6 or newer, `pip install 'truesigma[sklearn]'`, and is imported by its own name.
"""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, ShuffleSplit
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from .core.arrays import Host
from .core.cases import Cases
from .core.checks import check_choice
from .core.errors import Refusal
from .core.values import Prediction
from .evaluation.fit import Choice, fit

Source = Literal["auto", "return_std", "members", "quantiles", "residuals"]
SOURCES = ("auto", "return_std", "members", "quantiles", "residuals")
OUTER = (0.05, 0.95)  # quantiles that give a sigma, as half their distance over that of the Normal law
NORMAL = 1.6448536269514722  # its quantile at .95
SMALLEST = 1e-3  # of the usual sigma: members that agree exactly do not know the truth exactly


class _Fitted(NamedTuple):
    """Regressors fitted on some rows: for the mean, for outer quantiles, and for the size of the errors."""

    regressor: Any
    quantiles: tuple[Any, ...] = ()
    size: Any = None


class CalibratedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """A regressor with a sigma and intervals, recalibrated on rows that it had not seen.

    Sigma is what the regressor says itself (`return_std`, or `quantiles` as an argument of its `predict`); the spread
    of its members (a forest, bagging: where their mean is its prediction); the distance of its twins for the quantiles
    .05 and .95 (where its loss is "quantile"); or else what a forest learned of the size of its errors on held-out
    rows.

    With `cv` folds every row is predicted by a model that was fitted on the other folds; the recalibration is fitted on
    these predictions, and the regressor itself on all rows. With a fraction, that share of the rows is held out, and
    the regressor fitted on the rest.

    `groups` in `fit`, one for each row, keep rows of a patient in one fold, and make the recalibration count patients.
    Within `GridSearchCV` or `cross_validate` they need metadata routing:
    `sklearn.set_config(enable_metadata_routing=True)` and `set_fit_request(groups=True)` on this regressor.

    Args:
        estimator: any regressor of one target.
        recalibrate: a recalibration by its name, with options as `"aux:hidden=4"`.
        cv: the number of folds, or the share of the rows that is held out.
        sigma: where sigma comes from: "auto", or one of "return_std", "members", "quantiles", "residuals".
        random_state: of folds and of the forest that learns the size of errors.

    Attributes:
        estimator_: the fitted regressor.
        recalibration_: what was fitted to make its sigma true.
        calibration_: the held-out `Cases`, with sigma as it was before.
        sigma_: where sigma came from.

    Example:
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(400, 3))
        >>> y = X[:, 0] + (0.1 + X[:, 1]) * rng.normal(size=400)
        >>> model = CalibratedRegressor(RandomForestRegressor(20, random_state=0), random_state=0).fit(X[:300], y[:300])
        >>> lower, upper = model.predict_interval(X[300:], level=0.9)
        >>> bool(0.8 < np.mean((lower <= y[300:]) & (y[300:] <= upper)) < 1)
        True
    """

    def __init__(
        self,
        estimator: Any = None,
        recalibrate: Choice = "sigma",
        cv: int | float = 5,
        sigma: Source = "auto",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.recalibrate = recalibrate
        self.cv = cv
        self.sigma = sigma
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> "CalibratedRegressor":
        """Fit the regressor and its recalibration; `groups` are rows that belong together, such as patients."""
        X = self._checked(X, reset=True)
        if y is None:
            raise ValueError("This regressor requires y to be passed, but the target y is None.")
        y = column_or_1d(check_array(y, ensure_2d=False, dtype="numeric"), warn=True).astype(np.float64)
        folds = list(self._folds(X, y, groups))
        base = RandomForestRegressor() if self.estimator is None else self.estimator
        self._random = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        first = clone(base).fit(*_rows(X, y, folds[0][0]))
        self.sigma_ = _source(first, self.sigma, _safe_indexing(X, folds[0][1]))
        parts = [
            self._fit_rows(*_rows(X, y, train), first if k == 0 else None, base)
            for k, (train, _) in enumerate(folds)
        ]
        held = np.concatenate([rows for _, rows in folds])
        location = np.concatenate(
            [one.regressor.predict(_safe_indexing(X, rows)) for one, (_, rows) in zip(parts, folds)]
        )
        self._fitted = parts[0] if len(folds) == 1 else self._fit_rows(X, y, None, base)
        if self.sigma_ == "residuals":
            # The halves of a single held-out part are folds of each other.
            fold = (
                np.arange(len(held)) % 2
                if len(folds) == 1
                else np.repeat(range(len(folds)), [len(r) for _, r in folds])
            )
            scale = self._learn_sizes(_safe_indexing(X, held), abs(y[held] - location), fold)
        else:
            each = [self._scale(one, _safe_indexing(X, rows)) for one, (_, rows) in zip(parts, folds)]
            scale = np.concatenate(each)
        patient = None if groups is None else np.asarray(groups)[held]
        self.calibration_ = Cases(Prediction(location, scale=_above_0(scale)), y[held], patient=patient)
        self.recalibration_ = fit(self.recalibrate, self.calibration_)
        self.estimator_ = self._fitted.regressor
        return self

    def _checked(self, X: Any, reset: bool = False) -> Any:
        """A frame as it is, for pipelines that name its columns; anything else as an array."""
        tags = get_tags(self).input_tags
        how = {"accept_sparse": "csr" if tags.sparse else False, "ensure_all_finite": not tags.allow_nan}
        return validate_data(
            self, X, reset=reset, **({"skip_check_array": True} if hasattr(X, "columns") else how)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _folds(self, X: Any, y: Host, groups: Any) -> Iterator[tuple[Host, Host]]:
        """Rows to fit on, and rows to calibrate with."""
        cv, seed = self.cv, self.random_state
        if isinstance(cv, float) and 0 < cv < 1:
            split: Any = (ShuffleSplit if groups is None else GroupShuffleSplit)(
                1, test_size=cv, random_state=seed
            )
        elif isinstance(cv, int | np.integer) and cv >= 2:
            if len(y) < 2 * cv:
                raise ValueError(
                    f"n_samples = {len(y)} is too few for cv = {cv} folds; expected {2 * cv} or more."
                )
            split = KFold(cv, shuffle=True, random_state=seed) if groups is None else GroupKFold(cv)
        else:
            raise Refusal(
                f"cv is {cv!r}; expected a number of folds, 2 or more, or a share of the rows such as 0.3."
            )
        return split.split(np.empty((len(y), 0)), y, groups)

    def _fit_rows(self, X: Any, y: Host, regressor: Any, base: Any) -> _Fitted:
        regressor = clone(base).fit(X, y) if regressor is None else regressor
        twins = ()
        if self.sigma_ == "quantiles" and not _takes(regressor, "quantiles"):
            twins = tuple(_twin(base, p).fit(X, y) for p in OUTER)
        return _Fitted(regressor, twins)

    def _learn_sizes(self, X: Any, size: Host, fold: Host) -> Host:
        """Sigma of held-out rows, each from a forest that learned the size of the errors of the other folds."""
        self._fitted = self._fitted._replace(size=self._forest(X, size))
        scale = np.empty(len(size))
        for k in np.unique(fold):
            own, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            part = _Fitted(None, size=self._forest(_safe_indexing(X, others), size[others]))
            scale[own] = self._scale(part, _safe_indexing(X, own))
        return scale

    def _forest(self, X: Any, size: Host) -> Any:
        leaf = max(5, len(size) // 50)
        return RandomForestRegressor(50, min_samples_leaf=leaf, random_state=self._random).fit(X, size)

    def _scale(self, part: _Fitted, X: Any) -> Host:
        """Sigma as it is before recalibration."""
        regressor = part.regressor
        if self.sigma_ == "return_std":
            return np.asarray(regressor.predict(X, return_std=True)[1], dtype=np.float64)
        if self.sigma_ == "members":
            return np.std(_members(regressor, X), axis=0)
        if self.sigma_ == "residuals":
            return np.asarray(part.size.predict(X)) * np.sqrt(np.pi / 2)
        if part.quantiles:
            low, high = (one.predict(X) for one in part.quantiles)
        else:
            low, high = np.asarray(regressor.predict(X, quantiles=list(OUTER))).T
        return abs(high - low) / (2 * NORMAL)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The prediction of the regressor; with `return_std` also its standard deviation, recalibrated."""
        check_is_fitted(self, "recalibration_")
        if not return_std:
            return self.estimator_.predict(self._checked(X))
        made = self.predict_law(X)
        return made.location, np.sqrt(made.variance)

    def predict_law(self, X: Any) -> Prediction:
        """The whole prediction: `.interval(level)`, `.scale`, and with targets the `Cases` of a report."""
        check_is_fitted(self, "recalibration_")
        X = self._checked(X)
        location = np.asarray(self.estimator_.predict(X), dtype=np.float64)
        raw = Prediction(
            location, scale=_above_0(self._scale(self._fitted, X), self.calibration_.prediction.scale)
        )
        return self.recalibration_(raw)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Host, Host]:
        """The lower and the upper end of the interval that should hold a share `level` of the targets."""
        lower, upper = self.predict_law(X).interval(level)
        return lower, upper

    def predict_quantiles(self, X: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> Host:
        """The quantiles of each row, (row, quantile)."""
        made = self.predict_law(X)
        return np.stack([made.quantile(p) for p in quantiles], axis=1)


def _rows(X: Any, y: Host, rows: Host) -> tuple[Any, Host]:
    return _safe_indexing(X, rows), y[rows]


def _source(regressor: Any, asked: Source, X: Any) -> Source:
    """Where sigma comes from, of a fitted regressor."""
    check_choice("sigma", asked, *SOURCES)
    if asked != "auto":
        return asked
    if _takes(regressor, "return_std"):
        return "return_std"
    if _takes(regressor, "quantiles") or _is_quantile(regressor):
        return "quantiles"
    return "members" if _averages(regressor, X) else "residuals"


def _takes(regressor: Any, argument: str) -> bool:
    """Whether `predict` takes it; a pipeline hands it to its last step."""
    return argument in signature(_last(regressor).predict).parameters


def _last(regressor: Any) -> Any:
    return regressor.steps[-1][1] if hasattr(regressor, "steps") else regressor


def _is_quantile(regressor: Any) -> bool:
    """Whether it was asked for a quantile, so that others are a parameter away."""
    known = regressor.get_params(deep=False)
    return known.get("loss") == "quantile" or ("quantile" in known and "loss" not in known)


def _twin(base: Any, probability: float) -> Any:
    """Copy the regressor for a quantile."""
    known = base.get_params(deep=False)
    name = next((one for one in ("quantile", "alpha") if one in known), None)
    if name is None or ("loss" not in known and name != "quantile"):
        raise Refusal(
            f"{type(base).__name__} has no quantiles; expected a regressor with the loss 'quantile', or "
            "sigma='residuals'."
        )
    loss = {"loss": "quantile"} if "loss" in known else {}
    return clone(base).set_params(**loss, **{name: probability})


def _members(regressor: Any, X: Any) -> Host:
    """Predict with each member of an ensemble, (member, row)."""
    if hasattr(regressor, "steps"):
        regressor, X = _last(regressor), regressor[:-1].transform(X)
    columns = getattr(regressor, "estimators_features_", None)
    if columns is None:
        return np.stack([np.ravel(one.predict(np.asarray(X))) for one in regressor.estimators_])
    each = zip(regressor.estimators_, columns)
    return np.stack([np.ravel(one.predict(np.asarray(X)[:, some])) for one, some in each])


def _averages(regressor: Any, X: Any) -> bool:
    """Whether it has members whose mean is its prediction; those of boosting add up to it."""
    if not hasattr(_last(regressor), "estimators_"):
        return False
    try:
        members = _members(regressor, X)
    except (ValueError, TypeError, AttributeError):
        return False
    return len(members) > 1 and np.allclose(members.mean(axis=0), regressor.predict(X))


def _above_0(scale: Host, usual: Host | None = None) -> Host:
    """Sigma, at least a small share of the usual one."""
    known = scale if usual is None else np.asarray(usual)
    middle = float(np.median(known[known > 0])) if (known > 0).any() else 1.0
    return np.maximum(np.nan_to_num(scale, nan=middle), SMALLEST * middle)
