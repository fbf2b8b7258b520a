"""What the demo says: a table, a sentence, and a page for whoever opens its folder later."""

import shlex
from pathlib import Path

from ...evaluation.evaluate import Evaluation
from ...evaluation.items import LEVELS
from ...evaluation.text import DASH, TextTable, plain_text, short
from ..propose import HEAD_DROPOUT, STAGE_DROPOUT
from .settings import CHOICES, Settings


def demo_table(evaluation: Evaluation) -> TextTable:
    """Scores down, recalibrations across, with the factor that sigma was multiplied by."""
    wanted: list[tuple[str, str, float | None]] = [("MSE", "mse", None), ("NLL", "nll", None)]
    wanted += [("UCE x100", "uce", None)]
    wanted += [(f"coverage {100 * level:g} %", "coverage", level) for level in LEVELS]
    rows = []
    for title, metric, level in wanted:
        values = [_value(evaluation, choice, metric, level) for choice in CHOICES.values()]
        times = 100 if metric == "uce" else 1
        rows.append((title, *(short(value, times) for value in values)))
    factors = [evaluation.recalibrations[choice].to_dict().get("factor") for choice in CHOICES.values()]
    rows.insert(3, ("factor", *(DASH if factor is None else f"{factor:.2f}" for factor in factors)))
    sizes = evaluation.cases
    title = f"{sizes['calibration']} calibration cases, {sizes['test']} test cases; targets as shares of their range"
    return TextTable(title, ("", *CHOICES), tuple(rows))


def headline(evaluation: Evaluation) -> str:
    """What happened, in words: the 90 % interval before and after."""
    raw, after = (_value(evaluation, name, "coverage", 0.9) or 0.0 for name in ("none", "sigma"))
    factor = evaluation.recalibrations["sigma"].to_dict()["factor"]
    words = "too narrow" if raw < 0.87 else "too wide" if raw > 0.93 else "about right"
    return (
        f"The network's 90 % intervals hold {100 * raw:.0f} % of the unseen targets: {words}. With its sigma "
        f"multiplied by {factor:.2f}, a number fitted on {evaluation.cases['calibration']} other cases, they hold "
        f"{100 * after:.0f} %."
    )


def commands(folder: Path, settings: Settings) -> list[str]:
    """The same by hand: what to type for these results, and what to change for one's own data."""
    paths = {"data": "data", "run": "run", "valid": "valid.npz", "test": "test.npz", "card": "card.json"}
    paths |= {"new": "new/data", "csv": "new.csv"}
    q = {name: shlex.quote(str(folder / path)) for name, path in paths.items()}
    options = " ".join(f"--option {key}={value}" for key, value in settings.options.items())
    sizes = f"--epochs {settings.epochs} --stage-dropout {STAGE_DROPOUT} --head-dropout {HEAD_DROPOUT}"
    choices = ",".join(CHOICES.values())
    draws = f"--draws {settings.draws}"
    return [
        f"truesigma train simulated --root {q['data']} {options} --backbone small {sizes} --seed {settings.seed} "
        f"--device cpu -o {q['run']}",
        f"truesigma predict {q['run']} --split valid {draws} --scaled -o {q['valid']}",
        f"truesigma predict {q['run']} --split test {draws} --scaled -o {q['test']}",
        f"truesigma evaluate --calibration {q['valid']} --test {q['test']} --recalibrate {choices}",
        f"truesigma calibrate --calibration {q['valid']} --recalibrate sigma -o {q['card']}",
        f"truesigma predict {q['run']} --images {q['new']} {draws} --card {q['card']} -o {q['csv']}",
    ]


def readme(folder: Path, settings: Settings, sentence: str, table: TextTable) -> str:
    """What the folder holds."""
    lines = "\n".join(commands(folder, settings))
    return f"""# What the demo made

{sentence}

```text
{plain_text(table)}
```

| file | what |
| --- | --- |
| `data/` | the simulated projections, and three raw volumes |
| `run/` | the trained network, its recipe and its history |
| `valid.npz`, `test.npz` | {settings.draws} draws of each case, with targets |
| `table.json` | the scores above, with everything that was chosen |
| `card.json` | the fitted recalibration |
| `report.html` | one page to look at it all, in any browser |
| `figures/` | calibration before and after, intervals, rejection, training history |
| `new.csv` | new volumes, predicted in mm and degrees, with recalibrated 90 % intervals |

The same by hand:

```sh
{lines}
```
"""


def _value(evaluation: Evaluation, choice: str, metric: str, level: float | None = None) -> float | None:
    name, _, options = choice.partition(":")
    return evaluation.value(name, metric, level, options.removeprefix("part=") or "total")
