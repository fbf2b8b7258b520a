"""Options that several commands have, each said once."""

from pathlib import Path
from typing import Annotated

import typer

from ._complete import named_option

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for stdout.")
]
Calibration = Annotated[
    Path,
    typer.Option(
        "--calibration", metavar="FILE", help="Cases to fit on: .npz, .csv or .parquet, with targets."
    ),
]
LawName = Annotated[
    str | None, typer.Option("--law", help="normal or laplace, for files that do not say it.")
]
Part = Annotated[
    str, typer.Option("--part", help="total, or aleatoric: for each recalibration that takes it.")
]
RecipeName = Annotated[str, named_option("--recipe", "recipes", "exact, paper, code, or a TOML file.")]
Masking = Annotated[bool, typer.Option("--mask-missing", help="Leave out cases whose target is empty.")]
DatasetOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Of the data set; `truesigma list datasets`."),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:NUMBER or mps.")]
TimeLimit = Annotated[
    str | None, typer.Option("--time-limit", help="Such as 90, 30m or 8h; the same command resumes.")
]
