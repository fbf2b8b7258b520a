"""The claims of the paper's text, each with a verdict that is computed from the committed results.

`claims.toml` holds what is said and where; a function in a file of this folder says whether it is so.
"""

import importlib
import tomllib
from dataclasses import dataclass

from ..paper import Paper
from .verdict import Verdict

FILE = "claims.toml"


@dataclass(frozen=True)
class Claim:
    """Something the paper says, or something we ask of the runs; `check` names a function: file.function."""

    says: str
    where: str
    check: str


def read_claims(paper: Paper) -> list[Claim]:
    """Read claims.toml."""
    with (paper.root / FILE).open("rb") as file:
        return [Claim(**one) for one in tomllib.load(file)["claim"]]


def judge(paper: Paper, claim: Claim) -> Verdict:
    """The verdict on a claim."""
    file, _, name = claim.check.partition(".")
    return getattr(importlib.import_module(f"{__name__}.{file}"), name)(paper)
