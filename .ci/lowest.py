"""Print pip constraints that pin what pyproject.toml needs to the lowest versions it allows."""

import re
import tomllib
from pathlib import Path

text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
project = tomllib.loads(text)["project"]
extras = project["optional-dependencies"]
for needed in [*project["dependencies"], *extras["plot"], *extras["report"]]:
    name, lowest = re.fullmatch(r"([\w-]+)>=([\d.]+)", needed).groups()
    print(f"{name}=={lowest}" if lowest.count(".") > 1 else f"{name}~={lowest}.0")
