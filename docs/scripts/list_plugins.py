"""Fills the API pages: `<!-- plug-ins: metrics [score] -->` becomes an entry for every file in that folder.

So a new plug-in is still one file: its page follows from its docstrings.
"""

import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "truesigma"
MARK = re.compile(r"<!-- plug-ins: (?P<folder>[\w/]+)(?: \[(?P<members>[\w, ]+)\])? -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return MARK.sub(_entries, markdown)


def _entries(mark: re.Match[str]) -> str:
    folder, members = mark["folder"], mark["members"]
    names = sorted(path.stem for path in (SOURCE / folder).glob("*.py") if not path.stem.startswith("_"))
    if not names:
        raise ValueError(f"{SOURCE / folder} holds no plug-ins; is the folder's name right?")
    options = "    options:\n      heading_level: 2\n" + (f"      members: [{members}]\n" if members else "")
    return "\n\n".join(f"::: truesigma.{folder.replace('/', '.')}.{name}\n{options}" for name in names)
