"""The demo: `run` on simulated images, for a network that is too sure of itself, and new images at the end.

Nothing is built into the numbers: labels have noise whose size shows in the images, the network is trained on few cases
for a long time, and the demo shows what it then says about unseen cases.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.checks import check_whole
from ..evaluation.card import read_card
from ..files.disk import write_text
from .ledger import RUNS
from .propose import HEAD_DROPOUT, STAGE_DROPOUT
from .run import Finished, run_project

NEW = 5  # images that nobody has seen
RECIPE = f"""\
# What `truesigma demo` runs: `truesigma run` with this file does the same.

[data]
dataset = "simulated"
root = "data"
cases = {{cases}}
train = {{train}}
valid = {{valid}}
seed = {{seed}}

[network]
backbone = "pooled:strided=true"
stage_dropout = {STAGE_DROPOUT}
head_dropout = {HEAD_DROPOUT}

[train]
recipe = "exact"
epochs = {{epochs}}
seed = {{seed}}

[sample]
draws = {{draws}}

[report]
compare = ["none", "aux", "sigma:part=aleatoric"]

[output]
folder = "."
"""
NEW_IMAGES = f"""
`data/` holds the simulated projections, `recipe.toml` what was run. `new.csv` has {NEW} other ones, predicted from
their files in `new/data` with the first command above, in mm and degrees.
"""


def run_demo(
    out: str | Path,
    *,
    seed: int = 0,
    train: int = 400,
    valid: int = 600,
    test: int = 1600,
    epochs: int = 45,
    draws: int = 25,
    say: Callable[[str], None] | None = print,
) -> Finished:
    """Simulate, train, draw, recalibrate, score and report, then predict new images; everything goes into one folder.

    A second call resumes what was stopped. With the usual sizes it takes a minute or two on two cores.

    Args:
        out: the folder, created if it does not exist.
        seed: of the simulation and the network.
        train, valid, test: cases to train on, to recalibrate on and to score on.
        epochs: of training.
        draws: for each case.
        say: is called with what is being done; None for silence.

    Returns:
        The finished run.
    """
    sizes = {"train": train, "valid": valid, "test": test, "epochs": epochs, "draws": draws}
    for name, value in {**sizes, "seed": seed}.items():
        check_whole(name, value, 0 if name == "seed" else 1)
    recipe = Path(out) / "recipe.toml"
    text = RECIPE.format(cases=train + valid + test, seed=seed, **sizes)
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
    """Predict images of another simulation from their files, with the card, in mm and degrees."""
    from ..imaging.data.source import recorded
    from ..imaging.datasets.simulated import simulate
    from ..imaging.prediction.drawing import predict_new, settled
    from ..imaging.prediction.runs import open_runs

    simulate(str(folder / "new"), cases=NEW, files=NEW, seed=seed)
    runs, card = open_runs([folder / RUNS / "0"], device="cpu"), read_card(folder / "card.json")
    source, images = recorded(runs[0].about), [folder / "new" / "data"]
    predict_new(settled(runs, card), source, images, folder / "new.csv", card=card)


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
