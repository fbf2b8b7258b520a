"""The claims of the paper's text, each with a verdict that is computed from the committed results.

`claims.toml` holds what is said and where; a function in a file of this folder says whether it is so.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from ..described import make, read_toml
from ..paper import Paper
from .verdict import Verdict, settled

FILE = "claims.toml"


@dataclass(frozen=True)
class Claim:
    """Something the paper says, or something we ask of the runs; `check` names a function: file.function."""

    says: str
    where: str
    check: str


def read_claims(paper: Paper) -> list[Claim]:
    """Read claims.toml."""
    listed = read_toml(paper.root / FILE, "claim")["claim"]
    return [make(Claim, one, f"{FILE}: {one.get('says', '?')}: ") for one in listed]


def judge_all(paper: Paper) -> list[tuple[Claim, Verdict]]:
    """Every claim with its verdict, as one family."""
    claims = read_claims(paper)
    return list(zip(claims, settled([_check(claim)(paper) for claim in claims])))


def rule(claim: Claim) -> str:
    """What the verdict asks for, in words: those of the function that decides."""
    return " ".join((_check(claim).__doc__ or "").split())


def _check(claim: Claim) -> Callable[[Paper], Verdict]:
    file, _, name = claim.check.partition(".")
    try:
        found: Callable[[Paper], Verdict] = getattr(importlib.import_module(f"{__name__}.{file}"), name)
    except (ModuleNotFoundError, AttributeError):
        raise ValueError(f"{FILE}: there is no check {claim.check!r}; expected FILE.FUNCTION.") from None
    return found
