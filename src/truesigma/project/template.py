"""A project as a recipe.toml that explains itself."""

import json
from collections.abc import Mapping
from typing import Any

from .project import Project
from .propose import Proposal

HELP = {
    "data.root": "folder of the images, from where this file is",
    "data.csv": "the table, from that folder",
    "data.image": "column of the image paths, or a pattern: {patient}/{id}.png",
    "data.target": "columns to predict",
    "data.unit": "one for all targets, or one each",
    "data.group": 'columns that are looked at apart, as the site; "" for none',
    "data.patient": "column of the patient (slide, video), or a pattern: never in two splits, and counted as one",
    "data.split": 'column that says train, valid or test; "": drawn by the seed, in these shares:',
    "data.valid": "share to choose the epoch by and to recalibrate on",
    "data.calibration": "share to recalibrate on, apart from those that chose the plan",
    "data.test": "share that is only scored",
    "data.seed": "of the split",
    "data.size": "pixels of every side, or of each; 0: as they are",
    "data.mm_per_pixel": "images are resampled to it, then padded or cropped to the size",
    "data.spacing": "mm between pixels: a column or a number; not given: the files say it",
    "data.inputs": "columns that go into the network beside the image",
    "data.dimensions": "2 or 3",
    "data.normalise": "by mean and sd of the training set, or of each image: for brightness without a scale",
    "data.flip": "mirror training images left-right at random: only if the targets do not mind",
    "data.turn": "mirror them along every axis and swap rows and columns: for images without an up",
    "data.rotate": "turn them by up to so many degrees",
    "data.scale": "enlarge or shrink them by up to this share",
    "data.shift": "shift them by up to this many pixels",
    "data.intensity": "vary their contrast and brightness by about this share",
    "data.coordinates": "targets that are pixels: they move with the image",
    "data.skip_broken": "leave out images that cannot be read, instead of stopping",
    "data.memory": "GB that all images may take; larger sets are read from disk again and again",
    "network.backbone": "or small3d, resnet101, densenet201, timm:NAME, a .py file",
    "network.likelihood": "gaussian, or laplace where some labels are far off",
    "network.variances": "one for each case, or each target its own",
    "network.link": "root: the square root of the mean is learned, as suits counts; or nothing",
    "network.pretrained": "start from published weights (fetched by timm; not for small)",
    "network.weights": "start from a file of weights instead",
    "network.stage_dropout": "after each stage; with batch norm it can make the draws' mean worse: run says",
    "network.head_dropout": "before the heads; 0 in both: all draws alike",
    "train.recipe": "own; or exact, paper, code: how version 0.1, the paper and its code train",
    "train.plan": 'race: plans compete, and the validation cases choose; or the name of one, as the log says; "": none',
    "train.minutes": "that race and training take together; more are more accurate",
    "train.folds": "0: one network; 5: each fifth of the patients is predicted by a network without them",
    "train.epochs": "passes over the training cases",
    "train.batch": "cases in a step; halve it where memory runs out",
    "train.learning_rate": "the largest",
    "train.patience": "epochs without gain before the rate falls to a tenth",
    "train.seed": "of weights, order, augmentation; members of an ensemble count up from it",
    "train.precision": "fp32, or bf16 on a GPU",
    "train.schedule": "of the rate: plateau, or cosine down to zero",
    "train.loss": "nll, beta_nll or faithful: how much of the mean's accuracy a variance may cost; mse: none",
    "train.workers": "threads that read images from disk",
    "sample.method": "dropout: draws of one network; ensemble: of several; or one of `truesigma list sigmas`",
    "sample.draws": "of each case, for dropout",
    "sample.members": "networks, for an ensemble",
    "sample.batch": "cases at a time",
    "sample.seed": "of the dropout masks",
    "calibrate.recalibrate": "auto: what `compare` chooses; or sigma, aux, isotonic, ...: `truesigma list recalibrate`",
    "calibrate.split": "fitted on these cases; never on test",
    "calibrate.recipe": "exact, paper or code: the conventions of scores and fits",
    "report.compare": "scored beside it",
    "report.level": "of the intervals",
    "report.by": "bootstrap by case or by patient; auto: patients, or 20 groups or more",
    "report.figures": "publication figures, too",
    "output.folder": "everything goes there, from where this file is",
}
TITLES = {
    "data": 'What to learn from what. Other data sets: `truesigma list datasets`, with dataset = "NAME".',
    "network": "The network: a backbone with two heads, mean and variance.",
    "train": "Training; the weights kept are those of the epoch with the smallest validation error.",
    "sample": "What it knows of its own doubt.",
    "calibrate": "What makes its sigma true.",
    "report": "What is shown.",
    "output": "",
}
# What a recipe need not mention.
USUAL = (("network", "weights", ""), ("train", "folds", 0), ("train", "plan", ""), ("network", "link", ""))
# What a plan decides.
DECIDED = {
    "network": ("backbone", "pretrained", "stage_dropout", "head_dropout"),
    "train": ("recipe", "epochs", "batch", "learning_rate", "patience"),
    "sample": ("method", "draws", "members"),
}  # fmt: skip
LISTS = ("target", "unit", "inputs", "coordinates")  # texts with commas that a recipe shows as lists
AXES = ("size", "mm_per_pixel", "spacing")  # the same, of which each may be a number
WIDTH = 34  # where comments begin


def recipe_text(proposal: Proposal) -> str:
    """Write a proposal as a recipe.toml, with a comment on each line.

    >>> toml("size", 64, "pixels")
    'size = 64                         # pixels'
    """
    project = proposal.project
    sizes = ", ".join(f"{count} {name}" for name, count in proposal.cases.items())
    lines = [
        "# What `truesigma run` does with these images. Change what you like; --dry-run says what it will take.",
        f"# Cases: {sizes}.",
    ]
    for table, values in _tables(project).items():
        lines += ["", *([f"# {TITLES[table]}"] if TITLES[table] else []), f"[{table}]"]
        for key, value in values.items():
            if value is None:
                continue
            words = [HELP[f"{table}.{key}"], proposal.reasons.get(key, "")]
            lines.append(toml(key, value, "; ".join(filter(None, words))))
    return "\n".join(lines) + "\n"


def toml(key: str, value: Any, comment: str) -> str:
    """Write one line of TOML."""
    if isinstance(value, str):
        # JSON strings are valid TOML strings.
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(json.dumps(one, ensure_ascii=False) for one in value) + "]"
    else:
        text = str(value).lower() if isinstance(value, bool) else repr(value)
    line = f"{key} = {text}"
    return f"{line.ljust(WIDTH - 1)} # {comment}" if comment else line


def _tables(project: Project) -> Mapping[str, Mapping[str, Any]]:
    tables = project.tables()
    data: dict[str, Any] = {"root": project.root, **tables.pop("data")}
    data.pop("dataset")
    for key in LISTS:
        if key in data:
            data[key] = str(data[key]).split(",")
    for key in AXES:
        if "," in str(data.get(key, "")):
            words = data[key].split(",")
            data[key] = words if key == "spacing" else [float(w) if "." in w else int(w) for w in words]
    for table, keys in DECIDED.items() if project.train.plan else [("train", ("minutes",))]:
        tables[table] = {key: value for key, value in tables[table].items() if key not in keys}
    for table, key, usual in USUAL:
        if tables[table].get(key) == usual:
            del tables[table][key]
    return {"data": data, **tables, "output": {"folder": project.output}}
