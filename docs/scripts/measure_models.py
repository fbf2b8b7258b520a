"""What 90 % intervals of four packages' models hold, before and after: python docs/scripts/measure_models.py

Two sets that come with scikit-learn: diabetes (442 patients) and Friedman's first function with noise that grows with
the first input (1,000 cases). 20 splits each: half of the cases to train on, a quarter to calibrate, a quarter to test.
Each model goes in by its door as on the page `from-your-model.md`; a Normal law is stretched by `sigma`, quantiles are
moved by `cqr`, and the spread of five models, whose errors are far from Normal, takes `isotonic`. Writes
`assets/models.csv`.
"""

import numpy as np
from measured import Row, markdown, measure_by_command, read
from ngboost import NGBRegressor
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

import truesigma as ts

LEVEL = 0.9
HEAD = "| 90 % intervals hold, in % | diabetes, as they are | recalibrated | Friedman, as they are | recalibrated |"


def gaussian_process(X, y, split):
    kernel = RBF(np.full(X.shape[1], 3.0)) + WhiteKernel()
    regressor = GaussianProcessRegressor(kernel, normalize_y=True, random_state=split)
    model = make_pipeline(StandardScaler(), regressor).fit(X, y)

    def predict(some):
        mean, sd = model.predict(some, return_std=True)
        return ts.Prediction(mean, scale=sd)

    return predict


def ngboost(X, y, split):
    model = NGBRegressor(n_estimators=200, random_state=split, verbose=False).fit(X, y)
    return lambda some: ts.Prediction.from_scipy(model.pred_dist(some).dist)


def quantile_boosting(X, y, split):
    models = {
        q: HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=60, random_state=split).fit(
            X, y
        )
        for q in (0.05, 0.5, 0.95)
    }
    return lambda some: ts.Prediction.from_quantiles({q: model.predict(some) for q, model in models.items()})


def five_of_xgboost(X, y, split):
    rng, models = np.random.default_rng(split), []
    for seed in range(5):
        rows = rng.integers(len(y), size=len(y))
        models.append(
            XGBRegressor(n_estimators=100, max_depth=4, random_state=seed, n_jobs=1).fit(X[rows], y[rows])
        )

    def predict(some):
        members = np.stack([model.predict(some) for model in models]).astype(float)
        return ts.Prediction(members.mean(axis=0), scale=members.std(axis=0, ddof=1))

    return predict


MODELS = {
    "Gaussian process (scikit-learn)": (gaussian_process, "sigma"),
    "NGBoost": (ngboost, "sigma"),
    "quantile boosting (scikit-learn)": (quantile_boosting, "cqr"),
    "five models of XGBoost": (five_of_xgboost, "isotonic"),
}


def sets():
    X, y = make_friedman1(1000, n_features=10, noise=0.0, random_state=0)
    noise = (0.5 + 2.5 * X[:, 0]) * np.random.default_rng(0).normal(size=len(y))
    return {"diabetes": load_diabetes(return_X_y=True), "friedman": (X, y + noise)}


def measure(splits: int) -> list[Row]:
    rows = []
    for name, (X, y) in sets().items():
        for split in range(splits):
            train_X, rest_X, train_y, rest_y = train_test_split(X, y, train_size=0.5, random_state=split)
            cal_X, test_X, cal_y, test_y = train_test_split(
                rest_X, rest_y, train_size=0.5, random_state=split
            )
            for title, (model, by) in MODELS.items():
                predict = model(train_X, train_y, split)
                known, seen = ts.Cases(predict(cal_X), cal_y), ts.Cases(predict(test_X), test_y)
                fitted = ts.fit(by, known)
                held = {
                    when: float(ts.metrics.coverage.score(cases, level=LEVEL))
                    for when, cases in {"before": seen, "after": fitted(seen)}.items()
                }
                rows.append({"set": name, "model": title, "split": split, "by": by, **held})
    return rows


def table() -> str:
    """The means over the splits, with the standard error of the mean."""
    rows, lines = read("models.csv", words=("set", "model", "by")), []
    for title, (_, by) in MODELS.items():
        line = [f"{title}, `{by}`"]
        for name in ("diabetes", "friedman"):
            for when in ("before", "after"):
                held = [100 * row[when] for row in rows if (row["set"], row["model"]) == (name, title)]
                line.append(f"{np.mean(held):.1f} ± {np.std(held, ddof=1) / len(held) ** 0.5:.1f}")
        lines.append(line)
    return markdown(HEAD, lines)


if __name__ == "__main__":
    measure_by_command(__doc__, "models.csv", measure, count="splits", usual=20)
