"""The small files that explain a run's folder: cases.csv and README.md."""

import shlex

import numpy as np

from ..files.disk import write_rows
from .ledger import RUNS
from .project import FOLDS
from .race import described
from .work import Work


def write_cases(work: Work) -> None:
    """Write cases.csv: which case is in which split or fold, with its patient or group and its targets."""
    from ..imaging.data.folds import fold_numbers

    several = work.data.names or range(work.data.outputs)
    columns = [f"target_{name}" for name in several] if work.data.outputs > 1 else ["target"]
    rows = [["id", "split", "group", *columns]]
    for split, cases in work.data.splits.items():
        train = work.project.train
        said = (
            [f"fold {k}" for k in fold_numbers(cases, train.folds, train.seed)]
            if split == FOLDS
            else [split] * len(cases)
        )
        values = np.asarray(work.data.in_unit(cases.target).cpu())
        for k, name in enumerate(cases.name):
            group = "" if cases.together is None else cases.together[k]
            rows.append([name, said[k], group, *(f"{value:.9g}" for value in values[k])])
    write_rows(work.folder / "cases.csv", rows)


def run_paths(work: Work) -> list[str]:
    """List the folders of the networks, as a shell takes them."""
    return [shlex.quote(str(work.folder / RUNS / str(k))) for k in range(work.project.sample.networks)]


def predict_command(work: Work) -> str:
    """Say what to type for new images."""
    from ..imaging.data.rows import spacing_columns

    card = shlex.quote(str(work.folder / "card.json"))
    spacing = work.source.options.get("spacing", "")
    table = " --table NEW_TABLE" if work.data.inputs or spacing_columns(spacing) else ""
    code = "".join(f" --plugin {shlex.quote(file)}" for file in work.project.code)
    runs = " ".join(run_paths(work))
    return f"truesigma predict {runs} --images NEW_IMAGES{table}{code} --card {card} -o new.csv"


def readme(work: Work, headline: str) -> str:
    """Describe what is in the folder."""
    split = work.project.calibrate.split
    points = "\n| `distances.csv` | how far each point is off in each test case |"
    points = points if (work.folder / "distances.csv").exists() else ""
    return f"""# What `truesigma run` made

{headline}

| file | what |
| --- | --- |
| `report.html` | one page to look at it all, in any browser |
| `predictions.csv` | the test cases with recalibrated intervals, in the target's unit |
| `scores.csv`, `scores.json`, `scores.txt` | the scores of the test cases, before and after recalibration |{points}
| `card.json` | the fitted recalibration |
| `cases.csv` | which case is in which split |
| `{split}.npz`, `test.npz` | the draws, with targets |
| `{RUNS}/` | the trained networks, their recipes and histories |
| `figures/` | the figures, as PDF and PNG |
| `recipe.toml`, `progress.json` | what was asked for, and what is done |

{described(work.project, work.folder)}
New images, with recalibrated intervals:

```sh
{predict_command(work)}
```

{_export_words(work)}
"""


def _export_words(work: Work) -> str:
    """Say how to make one file of the model, or why that cannot be."""
    from ..imaging.export.module import check_exportable

    try:
        check_exportable(work.card)
    except ValueError as problem:
        return f"No ONNX file can be made of it: {problem}"
    card = shlex.quote(str(work.folder / "card.json"))
    return f"""The calibrated model as one ONNX file:

```sh
truesigma export {" ".join(run_paths(work))} --card {card} -o model.onnx
```"""
