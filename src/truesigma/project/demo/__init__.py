"""The whole chain on a laptop: simulated images, a network that is too sure of itself, and its recalibration.

Nothing is put into the numbers: labels carry a noise that the images tell about, few cases are trained on for long, and
what the network then says about unseen cases is what is shown.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...evaluation.card import calibrate
from ...evaluation.evaluate import Evaluation, evaluate
from ...evaluation.text import TextTable
from ...files.disk import fingerprint, write_json, write_text
from ...files.store import write
from .settings import CHOICES, NEW, Settings
from .words import demo_table, headline, readme

__all__ = ["Demo", "Settings", "run_demo"]


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found: scores, a table to print, and a sentence."""

    folder: Path
    evaluation: Evaluation
    table: TextTable
    headline: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as written to table.json."""
        return {"headline": self.headline, "seconds": round(self.seconds, 1), **self.evaluation.to_dict()}

    def __repr__(self) -> str:
        return f"Demo({self.folder}, {self.seconds:.0f} s)"


def run_demo(
    out: str | Path,
    settings: Settings | None = None,
    *,
    say: Callable[[str], None] = print,
    quiet: bool = False,
) -> Demo:
    """Simulate, train, draw, recalibrate, score, draw figures, predict new images; all of it goes into one folder.

    A second call goes on where the first was stopped, and writes the results anew.

    Args:
        out: the folder, made where it is not there.
        settings: the size; None: a minute on two cores.
        say: is told what is being done.
        quiet: no progress of the training.

    Returns:
        The scores with a table and a sentence.
    """
    import matplotlib  # noqa: F401  (where it is missing, say so before a minute of training)

    from .steps import one_thread

    began, folder = time.monotonic(), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    size = settings or Settings()
    with one_thread():
        scored = _run(folder, size, say, quiet)
    demo = Demo(folder, scored, demo_table(scored), headline(scored), time.monotonic() - began)
    write_json(demo.to_dict(), folder / "table.json")
    write_text(folder / "README.md", readme(folder, size, demo.headline, demo.table))
    return demo


def _run(folder: Path, size: Settings, say: Callable[[str], None], quiet: bool) -> Evaluation:
    from ...imaging.data.source import Source
    from ...report import report
    from .steps import draw_all, draw_cases, predict_new, train_small

    say(f"1/5 simulating {size.options['cases']} OCT volumes of a needle tip")
    source = Source("simulated", str(folder / "data"), size.options)
    data = source.load()
    say(f"2/5 training a small network on {size.train} of them, {size.epochs} epochs")
    trained = train_small(source, folder / "run", size, None if quiet else say)
    say(f"3/5 drawing {size.draws} predictions for each of {size.valid} + {size.test} other cases")
    valid, test = (draw_cases(trained, data, name, folder, size) for name in ("valid", "test"))
    say(f"4/5 recalibrating on the {size.valid}, scoring on the {size.test}")
    metrics = ["mse", "nll", "uce", "coverage"]
    scored = evaluate(valid, test, recalibrations=list(CHOICES.values()), metrics=metrics)
    described = {"file": "valid.npz", "sha256": fingerprint(folder / "valid.npz")}
    write(calibrate(valid, "sigma", data=described), folder / "card.json")
    draw_all(folder / "figures", scored, test, trained.history)
    report(valid, test).write(folder / "report.html")
    say(f"5/5 predicting {NEW} new volumes from their raw files")
    predict_new(folder, size)
    return scored
