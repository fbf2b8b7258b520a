"""Measure how many calibration cases a recalibration needs: python docs/scripts/measure_cases.py, for docs/cases.md.

From a pool of cases, n are drawn to fit on and others to score on, again and again; what varies between the draws is
what a user with n cases has to expect. Pools: another group's published predictions of 6000 bone ages by three networks
(MIT, github.com/rotem1023/regression_calibration; found through TRUESIGMA_DATA), and simulated ones. Writes
`assets/cases.csv`, `assets/sites.csv` and, from these alone, `assets/cases.png`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measured import ASSETS, Row, read, write

from truesigma import Cases, Prediction, metrics, recalibrate
from truesigma.core import plugins
from truesigma.diagrams import _style
from truesigma.files.disk import write_atomically

ROOT = Path(os.environ.get("TRUESIGMA_DATA", Path(__file__).parents[3] / "shared" / "data"))
NETWORKS = {"resnet101": "ResNet-101", "densenet201": "DenseNet-201", "efficientnetb4": "EfficientNet-B4"}
METHODS = ("none", "sigma", "aux", "isotonic", "conformal")
SIZES = (10, 20, 50, 100, 200, 500, 1000)
REPEATS, AUX_REPEATS, SCORED = 200, 40, 4000  # aux scaling takes a thousand times as long as sigma scaling
MONTHS = 227.0  # of the target's range [0, 1], ages of 1 to 228 months
SPREADS, SITES, SITE_SIZES = (0.0, 0.05, 0.1, 0.2), 8, (10, 25, 50, 100, 200, 500)


def main() -> None:
    pools = {name: published(ROOT / "predictions" / f"{key}_boneage.npz") for key, name in NETWORKS.items()}
    pools |= {name: simulated(name, 20000) for name in ("normal errors", "heavy tails", "wrong shape")}
    rows = [row for name, pool in pools.items() for row in measure(name, pool)]
    write("cases.csv", rows)
    write("sites.csv", list(sites()))
    draw(read("cases.csv"))


def published(path: Path) -> Cases:
    """All calibration and test cases of one network, in months; of the five test passes the first."""
    with np.load(path, allow_pickle=False) as file:
        stored = {key: np.asarray(file[key], dtype=np.float64) for key in file}
    calibration, test = ((stored[f"{k}_calib"], stored[f"{k}_test"][0]) for k in ("mu", "target"))
    location, target = (MONTHS * np.concatenate(pair)[:, 0] for pair in (calibration, test))
    parts = [(stored[f"sd_calib_{k}"], stored[f"sd_test_{k}"][0]) for k in ("alea", "total")]
    aleatoric, total = (MONTHS**2 * np.concatenate(pair)[:, 0] ** 2 for pair in parts)
    return Cases(
        Prediction(location, aleatoric=aleatoric, epistemic=np.maximum(total - aleatoric, 0)), target
    )


def simulated(kind: str, cases: int, seed: int = 0) -> Cases:
    """Cases whose sigma is half of what it should be; or one that follows the noise, but not in proportion."""
    rng = np.random.default_rng(seed)
    sigma = rng.gamma(4.0, 0.5, cases)
    z = rng.standard_t(5, cases) * np.sqrt(3 / 5) if kind == "heavy tails" else rng.normal(size=cases)
    said = np.sqrt(sigma) if kind == "wrong shape" else sigma / 2
    return Cases(Prediction(np.zeros(cases), aleatoric=said**2), sigma * z)


def measure(name: str, pool: Cases) -> Iterator[Row]:
    """A row for each number of cases and each recalibration."""
    best = recalibrate.sigma.fit(pool.prediction, pool.target)
    for cases in SIZES:
        found: dict[str, list[tuple[float, ...]]] = {method: [] for method in METHODS}
        factors = []
        for repeat in range(REPEATS):
            order = np.random.default_rng([cases, repeat]).permutation(len(pool))
            fitted_on, scored = pool[order[:cases]], pool[order[cases : cases + SCORED]]
            reference = metrics.crps.score(best(scored.prediction), scored.target)
            for method in METHODS:
                if method == "aux" and repeat >= AUX_REPEATS:
                    continue
                fitted = plugins.load("recalibrate", method).fit(fitted_on.prediction, fitted_on.target)
                p = fitted(scored.prediction)
                held = metrics.coverage.score(p, scored.target, level=0.9)
                excess = metrics.crps.score(p, scored.target) / reference - 1
                found[method].append((held, excess))
                if method == "sigma":
                    factors.append((fitted.factor, fitted.standard_error / fitted.factor))
        factor, said = np.transpose(factors)
        for method, values in found.items():
            held, excess = np.transpose(values)
            row = {"pool": name, "recalibration": method, "cases": cases, "repeats": len(values)}
            row |= {"coverage": held.mean(), "coverage_off": np.sqrt(np.mean((held - 0.9) ** 2))}
            row |= {"crps_excess": excess.mean(), "factor_sd": "", "factor_said": ""}
            if method == "sigma":
                row |= {"factor_sd": factor.std(ddof=1) / factor.mean(), "factor_said": said.mean()}
            yield row


def sites() -> Iterator[Row]:
    """One factor for all sites, or one for each? Mean NLL above that of the true factors, which differ by `spread`."""
    for spread in SPREADS:
        for cases in SITE_SIZES:
            pooled, apart = [], []
            for repeat in range(400):
                rng = np.random.default_rng([cases, repeat])
                true = np.exp(spread * rng.normal(size=(SITES, 1)))
                z2 = (true * rng.normal(size=(SITES, cases))) ** 2
                for scores, s2 in ((pooled, z2.mean()), (apart, z2.mean(axis=1, keepdims=True))):
                    ratio = true**2 / s2  # NLL of s less that of the true factor: (ratio - 1 - log ratio) / 2
                    scores.append(np.mean(ratio - 1 - np.log(ratio)) / 2)
            yield {"spread": spread, "cases": cases, "one": np.mean(pooled), "each": np.mean(apart)}


def draw(rows: list[Row]) -> None:
    """Three panels over the number of calibration cases, from the numbers of `cases.csv` alone."""

    def column(pool: str, method: str, name: str) -> np.ndarray:
        some = [row for row in rows if (row["pool"], row["recalibration"]) == (pool, method)]
        return np.array([100 * float(row[name]) for row in some])

    with _style.style():
        fig, axes = _style.figure(1, 3, width=_style.PAGE, ratio=0.85)
        factor, coverage, score = axes[0]
        size = np.array(SIZES)
        factor.plot(size, 100 / np.sqrt(2 * size), color=_style.INK, linewidth=0.8, label=r"$1 / \sqrt{2n}$")
        for k, pool in enumerate([*NETWORKS.values(), "heavy tails"]):
            factor.plot(size, column(pool, "sigma", "factor_sd"), label=pool, **_style.SERIES[k])
        factor.set(title="standard error of s (%)", yscale="log", ylim=(2, 90))
        factor.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
        for k, method in enumerate(METHODS[1:]):
            look = {**_style.SERIES[(0, 2, 3, 4)[k]], "label": method}
            coverage.plot(size, column("EfficientNet-B4", method, "coverage_off"), **look)
            score.plot(size, column("EfficientNet-B4", method, "crps_excess"), **look)
        coverage.set(title="90 % intervals off by (points)", yscale="log")
        coverage.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        score.set(title="CRPS above the best (%)", ylim=(-0.5, 10))
        for ax in axes[0]:
            ax.set(xscale="log", xlabel="calibration cases n")
            ax.set_xticks([10, 100, 1000], ["10", "100", "1000"])
            ax.minorticks_off()
            ax.legend(loc="upper right")
        write_png = lambda part: fig.savefig(part, format="png", dpi=200, metadata={"Software": None})  # noqa: E731
        write_atomically(ASSETS / "cases.png", write_png)


def tables() -> dict[str, str]:
    """The tables of `docs/cases.md`, from the files of numbers."""
    rows = {(r["pool"], r["recalibration"], r["cases"]): r for r in read("cases.csv")}
    methods = METHODS[1:]

    def percent(value: float) -> str:
        return "> 100" if value > 1 else f"{round(100 * value, 1) + 0.0:.1f}".replace("-", "\N{MINUS SIGN}")

    lines = ["| n | s is off by | the fit says | " + " | ".join(methods) + " |", "| ---: " * 7 + "|"]
    for n in SIZES:
        found = [rows["EfficientNet-B4", method, n] for method in methods]
        held = [f"{100 * r['coverage']:.0f} ± {100 * r['coverage_off']:.1f}" for r in found]
        off = [f"{100 * found[0][key]:.1f} %" for key in ("factor_sd", "factor_said")]
        lines.append(f"| {n} | " + " | ".join([*off, *held]) + " |")
    made = {"coverage": "\n".join(lines)}
    pools = ("EfficientNet-B4", "ResNet-101", "heavy tails", "wrong shape")
    lines = ["| | n | " + " | ".join(METHODS) + " |", "| --- " + "| ---: " * 6 + "|"]
    for pool in pools:
        for n in (50, 100, 200, 500, 1000):
            cells = [percent(rows[pool, method, n]["crps_excess"]) for method in METHODS]
            lines.append(f"| {pool if n == 50 else ''} | {n} | " + " | ".join(cells) + " |")
    made["crps"] = "\n".join(lines)
    lines = ["| sites differ by | " + " | ".join(f"n = {n}" for n in SITE_SIZES) + " |", "| --- " * 7 + "|"]
    sites = {(r["spread"], r["cases"]): r for r in read("sites.csv")}
    for spread in SPREADS:
        pairs = [(sites[spread, n]["one"], sites[spread, n]["each"]) for n in SITE_SIZES]
        cells = [
            f"{'one' if one < each else '**each**'} {1e3 * one:.1f} : {1e3 * each:.1f}" for one, each in pairs
        ]
        lines.append(f"| {100 * spread:.0f} % | " + " | ".join(cells) + " |")
    made["sites"] = "\n".join(lines)
    return made


if __name__ == "__main__":
    main()
