"""A copy of paper/ with made-up results whose right answers are known, and the command run on it."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np

PAPER = Path(__file__).parents[2] / "paper"
SIZES = {"oct": 6, "boneage": 1, "breastpathq": 1, "endovis": 2, "simulated": 6}
EPOCHS = 50
TRUE_FACTOR = 2.0  # the made-up sigma is too small by this


def fake_run(
    folder: Path,
    *,
    data_set: str,
    network: str,
    seed: int = 0,
    likelihood: str = "gaussian",
    weights: str = "",
    cases: int = 200,
):
    """Write the result of a run that never was: variances too small by a known factor, in the format of a real one."""
    rng = np.random.default_rng([seed, *folder.name.encode()])
    folder.mkdir(parents=True)
    outputs, draws = SIZES[data_set], 25
    splits = {"valid": (cases, 1), "test": (cases, 5)}
    if data_set == "boneage":
        splits |= {"test_clahe": (cases, 1), "test_other": (cases // 2, 1)}
    kept = {}
    for split, (count, repeats) in splits.items():
        shift = {"test_clahe": 1.5, "test_other": 6.0}.get(split, 1.0)
        aleatoric = np.exp(rng.normal(np.log(1e-3 * shift), 0.5, (count, 1)))
        spread = 0.3 * aleatoric
        total = np.repeat(aleatoric + spread, outputs, axis=1)
        # the error belongs to the case, whatever the repeat
        error = TRUE_FACTOR * np.sqrt(total) * rng.normal(size=(count, outputs))
        noise = rng.normal(size=(repeats, draws, count, outputs))
        noise = (noise - noise.mean(axis=1, keepdims=True)) * np.sqrt(spread)
        kept[f"{split}.residual"] = (error + noise).astype(np.float16)
        one = np.broadcast_to(np.log(aleatoric), (repeats, draws, count, 1))
        kept[f"{split}.log_variance"] = one.astype(np.float16)
        member = error + np.sqrt(spread) * rng.normal(size=error.shape)
        kept[f"member.{split}.residual"] = member[None, None].astype(np.float16)
        kept[f"member.{split}.log_variance"] = np.log(aleatoric)[None, None].astype(np.float16)
    np.savez_compressed(folder / "draws.npz", **kept)
    _history(folder / "history.csv")
    about = {
        "data_set": data_set, "network": network, "likelihood": likelihood, "seed": seed,
        "recipe": {"name": "exact"}, "options": {}, "cases": {"train": 400, **{k: v[0] for k, v in splits.items()}},
        "unit": ["mm"] * outputs, "factor": [1.0] * outputs, "offset": [0.0] * outputs, "epochs": EPOCHS,
        "best_epoch": 25, "finished": False, "plateaus": 2, "seconds": 1.0, "hardware": "none",
        "versions": {"truesigma": "0.1.0"}, "weights": {"file": weights, "sha256": "0"} if weights else None,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(about))


def _history(path: Path) -> None:
    """Training error falls on, test error stays: the variance becomes too small from the tenth epoch on."""
    names = (
        "epoch,seconds,train_seconds,learning_rate,train_loss,train_mse,train_variance,valid_loss,valid_mse,"
        "valid_variance,valid_factor,test_loss,test_mse,test_variance,test_factor,test_variance_scaled"
    )
    rows = [names]
    for epoch in range(1, EPOCHS + 1):
        train, test = 0.02 / epoch, max(0.02 / epoch, 1e-3 + 0.01 / epoch)
        factor = np.sqrt(test / train)
        values = [epoch, 1, 1, 3e-4 if epoch < 20 else 3e-5, -1, train, train, -1, test, train, factor]
        values += [-1, test, train, factor, factor**2 * train]
        rows.append(",".join(f"{v:.6g}" for v in values))
    path.write_text("\n".join(rows) + "\n")


def fake_paper(folder: Path, names: list[str] | None = None, *, cases: int = 200) -> Path:
    """A copy of paper/ with made-up results for these experiments, or for all that have data."""
    shutil.copytree(PAPER, folder, ignore=shutil.ignore_patterns("results", "*.png", "*.pdf"))
    for one in tomllib.loads((PAPER / "experiments.toml").read_text())["experiment"]:
        if one["name"] in names if names is not None else one["data_set"] != "endovis":
            wanted = {k: one[k] for k in ("data_set", "network", "seed", "likelihood", "weights") if k in one}
            fake_run(folder / "results" / one["name"], cases=cases, **wanted)
    return folder


def main_until_exit(arguments):
    from paper.__main__ import main

    try:
        return main(arguments)
    except SystemExit as end:
        return end.code
