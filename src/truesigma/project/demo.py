"""The demo: `run` on simulated images, for a network that is too sure of itself, and new images at the end.

Nothing is built into the numbers: labels have noise whose size shows in the images, the network is trained on few cases
for a long time, and the demo shows what it then says about unseen cases.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation.card import read_card
from ..files.disk import read_json, write_text
from .ledger import RUNS
from .propose import HEAD_DROPOUT, STAGE_DROPOUT
from .run import Finished, run_project

NEW = 5  # volumes that nobody has seen, predicted from their raw files
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
backbone = "small:design=plain"
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
`data/` holds the simulated projections, `recipe.toml` what was run. `new.csv` has {NEW} other volumes, predicted from
their raw files in `new/data` with the first command above, in mm and degrees.
"""


@dataclass(frozen=True)
class Settings:
    """Cases to train on, to recalibrate on and to score on; epochs; draws; and the seed of all of it."""

    seed: int = 0
    train: int = 400
    valid: int = 600
    test: int = 1600
    epochs: int = 45
    draws: int = 25

    def __post_init__(self) -> None:
        for name in ("train", "valid", "test", "epochs", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1.")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; expected 0 or more.")

    @property
    def recipe(self) -> str:
        """The recipe.toml of a demo of this size."""
        return RECIPE.format(cases=self.train + self.valid + self.test, **vars(self))


@dataclass(frozen=True, eq=False)
class Demo:
    """The result of the demo: a finished run, and how long it took."""

    run: Finished
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: the headline, the time and all scores."""
        scores = read_json(self.run.folder / "scores.json")
        return {"headline": self.run.headline, "seconds": round(self.seconds, 1), **scores}


def run_demo(
    out: str | Path, settings: Settings | None = None, *, say: Callable[[str], None] | None = print
) -> Demo:
    """Simulate, train, draw, recalibrate, score and report, then predict new images; everything goes into one folder.

    A second call resumes what was stopped.

    Args:
        out: the folder, created if it does not exist.
        settings: the size; None: a minute or two on two cores.
        say: is called with what is being done; None for silence.

    Returns:
        The finished run and the time it took.
    """
    began, recipe = time.monotonic(), Path(out) / "recipe.toml"
    text = (settings or Settings()).recipe
    if recipe.exists() and recipe.read_text(encoding="utf-8") != text:
        raise ValueError(f"{out} holds a demo of another size; give another folder, or delete this one.")
    recipe.parent.mkdir(parents=True, exist_ok=True)
    write_text(recipe, text)
    with one_thread():
        finished = run_project(recipe, device="cpu", say=say)
        predict_new(finished.folder, settings or Settings())
    readme = recipe.with_name("README.md")
    page = readme.read_text(encoding="utf-8")
    if NEW_IMAGES not in page:
        write_text(readme, page + NEW_IMAGES)
    return Demo(finished, time.monotonic() - began)


def predict_new(folder: Path, settings: Settings) -> None:
    """Predict volumes of another simulation from their raw files, with the card, in mm and degrees."""
    from ..imaging.data.source import intake, recorded
    from ..imaging.datasets.simulated import simulate
    from ..imaging.prediction.predict import list_images, predict_images
    from ..imaging.prediction.runs import marks_of, open_runs, sampled_like
    from ..imaging.prediction.write import names_of, recalibrated, write_predictions

    simulate(str(folder / "new"), cases=NEW, raw=NEW, seed=settings.seed + 1)
    run = open_runs([folder / RUNS / "0"], device="cpu")[0]
    images, way = list_images([folder / "new" / "data"]), intake(recorded(run.about), run.about)
    card, errors = read_card(folder / "card.json"), list[Any]()
    sampling = sampled_like(card, run.draws, draws=None, seed=None, masks=None)
    files, drawn = predict_images(run.net, images, way, **sampling, note=errors.append)
    marks = {**marks_of([run], sampling), "recalibration": card.recalibration.to_dict()["name"]}
    prediction = recalibrated(card, drawn, run.units)
    write_predictions(names_of(files), prediction, run.units, [0.9], folder / "new.csv", marks, errors[0])


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
