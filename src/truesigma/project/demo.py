"""The demo: `run` on simulated images, for a network that comes to another hospital, and new images at the end.

Nothing is built into the numbers: where the needle is hard to see, labels are noisier, and at the other hospital all of
them are; the demo shows what a network then says about its cases, before and after it has seen some hundred of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.checks import check_whole
from ..evaluation.card import read_card
from ..files.disk import write_text
from .ledger import RUNS
from .run import Finished, run_project

NEW = 5  # images that nobody has seen
RECIPE = """\
# What `truesigma demo` runs: `truesigma run` with this file does the same.

[data]
dataset = "simulated"
root = "data"
cases = {cases}
train = {train}
valid = {valid}
calibration = {calibration}
seed = {seed}
position = true
elsewhere = 1.8         # calibration and test cases are of another hospital, whose labels are so many times as noisy

[network]
backbone = "pooled:strided=true"
head_dropout = 0.0
variances = "each"

[train]
recipe = "own"
epochs = {epochs}
seed = {seed}

[sample]
method = "ensemble"
members = 2

[calibrate]
recalibrate = "auto"
split = "calibration"

[report]
compare = ["none", "sigma"]

[output]
folder = "."
"""
NEW_IMAGES = f"""
The networks were trained at one hospital; the calibration and test cases are of another, whose labels are 1.8 times as
noisy: that is why errors are larger there, and sigma too small.

`data/` holds the simulated projections, `recipe.toml` what was run. `new.csv` has {NEW} other ones, predicted from
their files in `new/data` with the first command above, in mm.
"""


def run_demo(
    out: str | Path,
    *,
    seed: int = 0,
    train: int = 800,
    valid: int = 300,
    calibration: int = 500,
    test: int = 1500,
    epochs: int = 30,
    say: Callable[[str], None] | None = print,
) -> Finished:
    """Simulate, train, draw, recalibrate, score and report, then predict new images; everything goes into one folder.

    A second call resumes what was stopped. With the usual sizes it takes less than a minute on two cores.

    Args:
        out: the folder, created if it does not exist.
        seed: of the simulation and the network.
        train, valid: cases of one hospital, to train on and to learn from what makes cases hard.
        calibration, test: cases of another one, to recalibrate on and to score on.
        epochs: of each of two networks.
        say: is called with what is being done; None for silence.

    Returns:
        The finished run.
    """
    sizes = {"train": train, "valid": valid, "calibration": calibration, "test": test, "epochs": epochs}
    for name, value in {**sizes, "seed": seed}.items():
        check_whole(name, value, 0 if name == "seed" else 1)
    recipe = Path(out) / "recipe.toml"
    text = RECIPE.format(cases=train + valid + calibration + test, seed=seed, **sizes)
    if recipe.exists() and recipe.read_text(encoding="utf-8") != text:
        raise ValueError(f"{out} holds a demo of another size; give another folder, or delete this one.")
    recipe.parent.mkdir(parents=True, exist_ok=True)
    write_text(recipe, text)
    with one_thread():
        finished = run_project(recipe, device="cpu", say=say)
        predict_others(finished.folder, seed + 1)
    readme = recipe.with_name("README.md")
    page = readme.read_text(encoding="utf-8")
    if NEW_IMAGES not in page:
        write_text(readme, page + NEW_IMAGES)
    return finished


def predict_others(folder: Path, seed: int) -> None:
    """Predict images of another simulation from their files, with the card, in mm."""
    from ..imaging.data.source import recorded
    from ..imaging.datasets.simulated import simulate
    from ..imaging.prediction.drawing import predict_new, settled
    from ..imaging.prediction.runs import open_runs

    simulate(str(folder / "new"), cases=NEW, files=NEW, seed=seed)
    members = sorted((folder / RUNS).iterdir())
    runs, card = open_runs(members, device="cpu"), read_card(folder / "card.json")
    source, images = recorded(runs[0].about), [folder / "new" / "data"]
    predict_new(settled(runs, card, single=True), source, images, folder / "new.csv", card=card)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch on one thread: a network this small gains little from more, and stalls beside other programs."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
