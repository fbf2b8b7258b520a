"""How many MB an extra brings, of what is installed here: python docs/scripts/measure_extras.py

For the table of `docs/index.md`: the files of all packages that the extra needs, without those that the package needs
anyway. What is not installed is named, and not counted.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def needed(names: list[str]) -> tuple[set[str], set[str]]:
    """All packages that these need, and those of them that are not here."""
    seen: set[str] = set()
    absent: set[str] = set()
    while names:
        words = names.pop()
        name = re.split(r"[^\w.-]", words)[0].lower().replace("_", "-")
        if name in seen | absent or "extra ==" in words:
            continue
        try:
            names += metadata.requires(name) or []
            seen.add(name)
        except metadata.PackageNotFoundError:
            absent.add(name)
    return seen, absent


def megabytes(names: set[str]) -> float:
    """The size of the files of some packages."""
    files = [file.locate() for name in names for file in metadata.distribution(name).files or ()]
    return sum(Path(file).stat().st_size for file in files if Path(file).is_file()) / 1e6


if __name__ == "__main__":
    own, _ = needed(list(PROJECT["dependencies"]))
    print(f"{'':12} {megabytes(own):6.0f} MB")
    for extra, names in PROJECT["optional-dependencies"].items():
        if not any("truesigma[" in name for name in names):
            there, absent = needed(list(names))
            also = f", without {', '.join(sorted(absent))}" if absent else ""
            print(f"{extra:12} {megabytes(there - own):6.0f} MB{also}")
