"""Does a network learn the same with the faster step? Curves of both over several seeds, on images of the OCT set.

python benchmarks/curves.py --data ../data/oct --networks resnet101 --json curves.json

Seed by seed both steps start from the same weights, see the same cases in the same order and vary them alike; only
their arithmetic differs, and so do the roundings that training then makes large. Printed for the error in training and
on the validation split: in how many epochs the faster step's mean over the seeds lies within the range of the plain
one's seeds, and how far apart the two means are over the second half of the epochs, beside how far seeds are apart.
"""

from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from command import network_command, write

from truesigma.core import plugins
from truesigma.imaging.data.dataset import DataSet, Split
from truesigma.imaging.network.two_head import build
from truesigma.imaging.recipe import load_recipe
from truesigma.imaging.training import loop

OCT = Path(__file__).parents[1] / "paper" / "datasets" / "oct.py"
CURVES = ("train_mse", "valid_mse")
STEPS = {"plain": float("inf"), "faster": 0}  # steps from which on a training takes the faster one


def part(split: Split, cases: int) -> Split:
    """The first cases of a split."""
    return replace(split, images=split.images[:cases], target=split.target[:cases], name=split.name[:cases])


def curves(name: str, data: DataSet, step: str, seed: int, epochs: int) -> dict[str, list[float]]:
    """The errors of every epoch of one training."""
    loop.WORTH_IT = STEPS[step]  # type: ignore[assignment]
    recipe = load_recipe("exact", epochs=epochs)
    net = build(name, data.channels, data.outputs, recipe, seed=seed)
    trained = loop.train(net, data, recipe, seed=seed, precision="bf16", quiet=True, test=False)
    return {curve: [float(row[curve]) for row in trained.history] for curve in CURVES}


def compared(plain: list[list[float]], faster: list[list[float]]) -> dict[str, float]:
    """How the curves of the faster step lie beside those of the plain one; errors as ratios, by their logarithms.

    Epochs are left out where the error of one seed, an estimate from two draws, is 0, as it may be at the start.
    """
    epochs = [k for k in range(len(plain[0])) if all(seed[k] > 0 for seed in plain + faster)]
    between = [mean(log(seed[k]) for seed in faster) for k in epochs]
    ranges = [sorted(log(seed[k]) for seed in plain) for k in epochs]
    half = [k for k in epochs if k >= len(plain[0]) // 2]
    ends = {
        step: [mean(log(seed[k]) for k in half) for seed in seeds]
        for step, seeds in {"plain": plain, "faster": faster}.items()
    }
    return {
        "inside": sum(low[0] <= one <= low[-1] for low, one in zip(ranges, between)),
        "epochs": len(epochs),
        "ratio": exp(mean(ends["faster"]) - mean(ends["plain"])),
        "seeds_apart": exp(stdev(ends["plain"])),
    }


def main() -> None:
    """Train every network with both steps, print how the curves compare, and write them where --json says."""
    parser = network_command(__doc__, "resnet101,densenet201,efficientnet_b4")
    parser.add_argument("--data", type=Path, required=True, help="folder of the OCT set")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument(
        "--cases", type=int, default=1600, help="of the training split; a quarter of it for validation"
    )
    given = parser.parse_args()
    whole = plugins.load("datasets", str(OCT)).load(str(given.data), size=given.size)
    cases = {"train": given.cases, "valid": given.cases // 4}
    data = replace(whole, splits={name: part(whole.splits[name], n) for name, n in cases.items()})
    rows: list[dict[str, Any]] = []
    for name in given.networks.split(","):
        found: dict[str, list[dict[str, list[float]]]] = {step: [] for step in STEPS}
        for seed in range(given.seeds):
            for step, seeds in found.items():
                seeds.append(curves(name, data, step, seed, given.epochs))
        row: dict[str, Any] = {"network": name, "curves": found}
        for curve in CURVES:
            plain, faster = ([seed[curve] for seed in found[step]] for step in STEPS)
            row[curve] = compared(plain, faster)
            print(name, curve, {key: round(value, 4) for key, value in row[curve].items()}, flush=True)
        rows.append(row)
        settings = {"batch": 16, "size": given.size, "torch": torch.__version__, **cases}
        hardware = torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"
        write(given.json, {"hardware": hardware, "settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
