"""How commands read cases: the options for it, which arrive as one value."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from ._options import GroupColumns, LawName, LocationColumn, Masking, ScaleColumn, as_one, column, flag


@dataclass(frozen=True)
class Reading:
    """The law, what is missing, and which column has which role."""

    law: LawName = None
    mask_missing: Masking = False
    missing: Annotated[
        float | None, flag("--missing", "The number that means a missing target, such as -999.", "NUMBER")
    ] = None
    target: Annotated[str | None, column("--target", "Column of the truth. [default: target]")] = None
    location: LocationColumn = None
    scale: ScaleColumn = None
    weight: Annotated[str | None, column("--weight", "Column of how much a case counts, or none.")] = None
    id: Annotated[str | None, column("--id", "Column that names the case, or none.")] = None
    patient: Annotated[
        str | None, column("--patient", "Column of the patient: whose cases belong together.")
    ] = None
    group: GroupColumns = None

    @property
    def columns(self) -> dict[str, Any]:
        """Which column has which role, if that was given; `none` for none.

        >>> Reading(weight="none", group=["site", "sex"]).columns
        {'weight': None, 'group': ['site', 'sex']}
        """
        needed = {role: getattr(self, role) for role in ("target", "location", "scale")}
        others = {role: getattr(self, role) for role in ("weight", "id", "patient")}
        found = {role: one for role, one in (needed | others).items() if one is not None}
        found |= {role: None for role, one in others.items() if one == "none"}
        return (
            found if self.group is None else {**found, "group": [one for one in self.group if one != "none"]}
        )

    @property
    def in_pieces(self) -> dict[str, Any]:
        """What files that are read in pieces need to know."""
        return {"law": self.law, "mask_missing": self.mask_missing, "columns": self.columns}

    @property
    def whole(self) -> dict[str, Any]:
        """What files that are read as a whole need to know."""
        return {**self.in_pieces, "missing": self.missing}


PLAIN = Reading()


def reads_cases(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Reading` if it has the argument `reading`."""
    return as_one(command, "reading", Reading)
