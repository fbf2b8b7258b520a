"""Install each file of a folder of distributions into an empty environment, and score a table with it.

python .ci/installs.py dist
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

LIMIT = 3_000_000  # bytes of a source archive
TABLE = """
import numpy as np

rng = np.random.default_rng(1)
for name, cases in (("calibration", 500), ("test", 2000)):
    sigma, target = rng.gamma(4.0, 0.5, cases), rng.normal(60, 20, cases)
    rows = np.column_stack([target, target + sigma * rng.normal(size=cases), sigma / 2])
    np.savetxt(f"{name}.csv", rows, "%.6f", ",", header="target,location,scale", comments="")
"""


def main() -> None:
    for file in sorted(Path(sys.argv[1]).resolve().iterdir()):
        size = file.stat().st_size
        if file.suffix == ".gz" and size > LIMIT:
            sys.exit(
                f"{file.name} has {size} bytes; expected at most {LIMIT}: look at what is excluded in pyproject.toml"
            )
        with tempfile.TemporaryDirectory() as folder:
            venv.create(f"{folder}/venv", with_pip=True)
            scripts = Path(folder, "venv", "Scripts" if sys.platform == "win32" else "bin")
            python = str(scripts / "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", str(file)], check=True)
            subprocess.run([python, "-c", TABLE], cwd=folder, check=True)
            command = [
                str(scripts / "truesigma"),
                "evaluate",
                "--calibration",
                "calibration.csv",
                "--test",
                "test.csv",
            ]
            printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            if "sigma: factor 1.99" not in printed:
                sys.exit(f"{file.name}: the factor of sigma scaling is not 2:\n{printed}")
            print(f"{file.name}: {size} bytes, installed and tried")


if __name__ == "__main__":
    main()
