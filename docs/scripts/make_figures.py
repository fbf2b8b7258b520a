"""Make the pictures of the README and of the documentation: `python docs/scripts/make_figures.py`.

Those of `reading.md` are simulated. `before-after.png` is computed from another group's published predictions (MIT,
github.com/rotem1023/regression_calibration: EfficientNet-B4 on 2000 calibration and 4000 test radiographs of the RSNA
bone-age set, five test passes) and is left as it is if TRUESIGMA_DATA does not have them.
"""

import os
from pathlib import Path

import numpy as np

from truesigma import Cases, Draws, Prediction, decompose, fit, metrics, read, recalibrate
from truesigma.diagrams import (
    _style,
    calibration,
    coverage,
    crps_parts,
    history,
    pit,
    region,
    rejection,
    shift,
    slabs,
)  # fmt: skip
from truesigma.files.disk import write_atomically

HERE = Path(__file__).parents[1]
RESULTS = HERE.parent / "paper" / "results"
MONTHS = 227.0  # of the target's range [0, 1]: ages of 1 to 228 months
ROOT = Path(os.environ.get("TRUESIGMA_DATA", HERE.parents[1] / "shared" / "data"))


def main() -> None:
    reading()
    referring()
    gallery()
    path = ROOT / "predictions" / "efficientnetb4_boneage.npz"
    if path.is_file():
        for name, value in before_after(path).items():
            print(f"{name}: {value:.3f}")
    else:
        print(f"{path} is not there; before-after.png stays as it is.")


def simulate(factor: float = 1.0, *, informed: bool = True, cases: int = 5000, seed: int = 0):
    """Predictions with a standard deviation of `factor` times the true one, or one that does not follow the noise."""
    rng = np.random.default_rng(seed)
    sigma = rng.gamma(6.0, 0.25, cases)
    target = 100 + 15 * rng.normal(size=cases)
    said = sigma if informed else np.sqrt(rng.permutation(sigma**2))
    return Prediction(target + sigma * rng.normal(size=cases), aleatoric=(factor * said) ** 2), target


def reading() -> None:
    """Four calibration diagrams: true, too sure, not sure enough, and sure for no reason."""
    shown = {
        "calibrated": simulate(),
        "too sure": simulate(0.6),
        "not sure enough": simulate(1.5),
        "blind": simulate(informed=False),
    }
    fig, axes = _style.figure(2, 2, width=_style.PAGE * 0.8, ratio=0.85)
    for ax, (title, data) in zip(axes.ravel(), shown.items()):
        calibration.draw(calibration.table(*data), ax, title=title, unit="mm", legend=title == "calibrated")
    _save(fig, "reading.png")


def referring() -> None:
    """Observed intervals and the error after rejection, of a prediction that is too sure and after sigma scaling."""
    (before, y), (calibrating, truth) = simulate(0.6), simulate(0.6, cases=500, seed=1)
    after = recalibrate.sigma.fit(calibrating, truth)(before)
    fig, axes = _style.figure(1, 2, width=_style.PAGE * 0.8, ratio=0.85)
    tables = {"none": coverage.table(before, y), "sigma": coverage.table(after, y)}
    coverage.draw(tables, axes[0, 0])
    rejection.draw({"sigma": rejection.table(after, y)}, axes[0, 1], unit="mm")
    _save(fig, "referring.png")


def gallery() -> None:
    """One picture of each diagram: DenseNet-201 on bone age and EfficientNet-B4 on needle tips, from our own draws."""
    network = RESULTS / "boneage_densenet201"
    fitted_on, before = (residuals(network, split, MONTHS) for split in ("valid", "test"))
    y = np.zeros_like(before.location)  # draws are kept as residuals
    fitted = recalibrate.sigma.fit(fitted_on, np.zeros_like(fitted_on.location))
    both = {"none": before, "sigma": fitted(before)}
    fig, ax = _style.figure(ratio=0.85)
    calibration.draw(calibration.table(before, y, spacing="mass"), ax[0, 0], unit="months", log=True)
    _save(fig, "gallery-calibration.png")
    fig, ax = _style.figure(ratio=0.85)
    coverage.draw({name: coverage.table(one, y) for name, one in both.items()}, ax[0, 0])
    _save(fig, "gallery-coverage.png")
    fig, ax = _style.figure(ratio=0.85)
    rejection.draw({"sigma": rejection.table(both["sigma"], y)}, ax[0, 0], unit="months")
    _save(fig, "gallery-rejection.png")
    fig, ax = _style.figure(ratio=0.85)
    other = residuals(network, "test_clahe", MONTHS)
    shift.draw(shift.table(before, {"after CLAHE": other}), ax[0, 0], unit="months")
    _save(fig, "gallery-shift.png")
    fig, ax = _style.figure(ratio=0.85)
    history.draw(history.table(network / "history.csv"), ax[0, 0])
    _save(fig, "gallery-history.png")
    tips, others = (residuals(RESULTS / "oct_efficientnet_b4", split)[:, :2] for split in ("valid", "test"))
    held = recalibrate.region.fit(tips, np.zeros_like(tips.location))
    fig, ax = _style.figure(ratio=0.85)
    region.draw(region.table(held, others, np.zeros_like(others.location), case=3), ax[0, 0])
    _save(fig, "gallery-region.png")
    asking()


def asking() -> None:
    """What is wrong with the counts of examples/: their PIT, their CRPS in parts, and where intervals hold least."""
    calibrating, test = (read(HERE.parent / "examples" / f"{part}.csv") for part in ("calibration", "test"))
    made = {"none": test} | {name: fit(name, calibrating)(test) for name in ("sigma", "isotonic")}
    fig, axes = _style.figure(1, 3, width=_style.PAGE, ratio=0.9)
    for ax, diagram in zip(axes[0], (pit, crps_parts, slabs)):
        diagram.draw(made, ax)
    _save(fig, "gallery-asking.png")


def residuals(network: Path, split: str, unit: float = 1.0) -> Prediction:
    """What a network of ours said of a split, as residuals: the target is 0."""
    with np.load(network / "draws.npz") as stored:
        mean, log_variance = (stored[f"{split}.{k}"][0].astype(float) for k in ("residual", "log_variance"))
    made = decompose(Draws(unit * mean, unit**2 * np.exp(log_variance)))
    return made.with_arrays(lambda part: part[:, 0]) if made.location.shape[1] == 1 else made


def before_after(path: Path) -> dict[str, float]:
    """The README's picture, and the numbers in its caption."""
    with np.load(path, allow_pickle=False) as file:
        stored = {key: np.asarray(file[key], dtype=np.float64) for key in file}

    def read(split: str) -> Prediction:
        a = stored[f"sd_{split}_alea"] ** 2
        e = np.maximum(stored[f"sd_{split}_total"] ** 2 - a, 0)
        return Prediction(MONTHS * stored[f"mu_{split}"], aleatoric=MONTHS**2 * a, epistemic=MONTHS**2 * e)

    fitted = recalibrate.sigma.fit(read("calib"), MONTHS * stored["target_calib"])
    # The five test passes are on the first axis.
    whole, targets = read("test"), MONTHS * stored["target_test"]
    parts = [
        Cases(Prediction(location, aleatoric=a, epistemic=e), target)
        for location, a, e, target in zip(whole.location, whole.aleatoric, whole.epistemic, targets)
    ]
    runs = {"none": parts, "sigma": [fitted(one) for one in parts]}
    fig, axes = _style.figure(1, 3, width=_style.PAGE, ratio=1.0)
    titles = {"none": "none", "sigma": f"sigma scaling, s = {fitted.factor:.2f}"}
    for ax, (name, many) in zip(axes[0], runs.items()):
        found = calibration.table(many, spacing="mass")
        color = _style.look(name, 0)["color"]
        calibration.draw(
            found, ax, title=titles[name], unit="months", color=color, log=True, legend=name == "none"
        )
    coverage.draw({name: coverage.table(many) for name, many in runs.items()}, axes[0, 2])
    _save(fig, "before-after.png")
    scores = {"factor": fitted.factor}
    for name, many in runs.items():
        for level in (0.9, 0.99):
            held = [metrics.coverage.score(one, level=level) for one in many]
            scores[f"{name}, coverage {level}"] = float(np.mean(held))
    return scores


def _save(fig, name: str) -> None:
    with _style.style():
        write = lambda part: fig.savefig(part, format="png", dpi=200, metadata={"Software": None})  # noqa: E731
        write_atomically(HERE / "assets" / name, write)


if __name__ == "__main__":
    main()
