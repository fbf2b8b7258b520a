"""The steps of the demo that need torch or matplotlib, which are loaded when a step is taken."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.values import Cases
from ...evaluation.card import read_card
from ...evaluation.evaluate import Evaluation
from ...files.store import write
from ..figures import draw_figures
from ..propose import HEAD_DROPOUT, STAGE_DROPOUT
from .settings import CHOICES, NEW, Settings

if TYPE_CHECKING:
    from ...imaging.data.dataset import DataSet
    from ...imaging.data.source import Source
    from ...imaging.training.loop import Trained


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: so small a network gains little from more, and stalls where other programs run beside it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def train_small(
    source: "Source", out: Path, settings: Settings, say: Callable[[str], None] | None
) -> "Trained":
    """Train the small network, or go on with it."""
    from ...imaging.recipe import load_recipe
    from ...imaging.training.start import train_run

    dropout = {"stage_dropout": STAGE_DROPOUT, "head_dropout": {"small": HEAD_DROPOUT, "other": HEAD_DROPOUT}}
    recipe = load_recipe("exact", epochs=settings.epochs, **dropout)
    return train_run(source, out, recipe, backbone="small", seed=settings.seed, device="cpu", say=say)


def draw_cases(trained: "Trained", data: "DataSet", split: str, folder: Path, settings: Settings) -> Cases:
    """The draws of a split, written to a file; scaled, since the pose has millimetres and degrees."""
    from ...imaging.prediction.predict import predict_split
    from ...imaging.training.folder import checkpoint

    cases = predict_split(trained.net, data, split, draws=settings.draws, scaled=True)
    assert isinstance(cases, Cases)  # every simulated case has a target
    cases = replace(cases, checkpoint=checkpoint(folder / "run"))
    write(cases, folder / f"{split}.npz")
    return cases


def draw_all(folder: Path, evaluation: Evaluation, test: Cases, rows: tuple[Mapping[str, Any], ...]) -> None:
    """Calibration before and after, intervals, rejection and the training's history, as PDF and PNG."""
    made = {name: evaluation.recalibrations[choice](test.prediction) for name, choice in CHOICES.items()}
    draw_figures(folder, made, "sigma", test, rows)


def predict_new(folder: Path, settings: Settings) -> None:
    """Predict volumes of another simulation from their raw files, with the card, in mm and degrees."""
    from ...imaging.data.source import intake, recorded
    from ...imaging.data.units import units_from
    from ...imaging.datasets.simulated import simulate
    from ...imaging.prediction.predict import list_images, predict_images
    from ...imaging.prediction.write import recalibrated, write_images
    from ...imaging.training.folder import load_run

    simulate(str(folder / "new"), cases=NEW, raw=NEW, seed=settings.seed + 1)
    net, about = load_run(folder / "run")
    way, units = intake(recorded(about), about), units_from(about)
    files, found = predict_images(net, list_images([folder / "new" / "data"]), way, draws=settings.draws)
    prediction = recalibrated(read_card(folder / "card.json"), found, units)
    write_images(files, prediction, units, [0.9], folder / "new.csv")
