"""The first screens that the README and the pages show: python docs/scripts/make_screenshots.py [CHROMIUM]

`example.png` is the page of the table in examples/, `demo.png` that of `truesigma demo`, which is run for it. They show
what Chromium shows of 1280 x 900 pixels.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "docs" / "assets"
SCREEN = (1280, 900)
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")


def chromium() -> str | None:
    """Where Chromium is."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def shoot(page: Path, out: Path, program: str) -> None:
    """Write what the first screen of a page looks like."""
    with tempfile.TemporaryDirectory() as profile:
        size = f"--window-size={SCREEN[0]},{SCREEN[1]}"
        own = [f"--user-data-dir={profile}", f"--screenshot={out}", size]
        subprocess.run([program, "--headless", *QUIET, *own, page.as_uri()], check=True, capture_output=True)


def example(folder: Path) -> Path:
    """The page of the README's table."""
    tables = [f"--{name}={ROOT / 'examples' / name}.csv" for name in ("calibration", "test")]
    page = folder / "report.html"
    _truesigma("report", *tables, "--recalibrate", "isotonic", "-o", str(page))
    return page


def demo(folder: Path) -> Path:
    """The demo's page."""
    _truesigma("demo", "--out", str(folder / "demo"))
    return folder / "demo" / "report.html"


def _truesigma(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "truesigma", *words], check=True)


if __name__ == "__main__":
    found = sys.argv[1] if len(sys.argv) > 1 else chromium()
    if found is None:
        sys.exit("chromium is not installed; give its path")
    for made in (example, demo):
        with tempfile.TemporaryDirectory() as place:
            shoot(made(Path(place)), ASSETS / f"{made.__name__}.png", found)
