"""Starting is light: what is loaded is looked at, not timed."""

import subprocess
import sys

OPTIONAL = (
    "torch torchvision timm lightning lightning_fabric matplotlib plotly ray jax pandas polars onnx nibabel pydicom "
    "skimage PIL"
)
HEAVY = (
    f"{OPTIONAL} pyarrow scipy.special scipy.stats scipy.optimize typer rich email.message http numpy.testing"
)


def python(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_heavy():
    code = "import sys, truesigma; print(*[m for m in sys.argv[1].split() if m in sys.modules])"
    assert python(code, HEAVY).split() == []


def test_public_names_are_all_there_and_nothing_else_is_listed():
    import truesigma as ts

    assert set(dir(ts)) == {*ts.__all__, "imaging", "__version__"}
    assert [name for name in ts.__all__ if not hasattr(ts, name)] == []


def test_help_loads_nothing_heavy():
    code = """
import sys
from truesigma.cli import main
for words in (["--help"], ["evaluate", "--help"]):
    try:
        main(words)
    except SystemExit:
        pass
print("loaded:", *[m for m in sys.argv[1].split() if m in sys.modules])
"""
    loaded = python(code, f"{OPTIONAL} pyarrow scipy.special scipy.stats scipy.optimize").split("loaded:")[1]
    assert loaded.split() == []


def test_one_process_does_not_load_lightning():
    """Neither where it predicts and exports, nor where it trains."""
    code = (
        "import sys, truesigma.imaging.prediction.runs, truesigma.imaging.export.runs; "
        "from truesigma.imaging.training import loop; loop.start('cpu', 1).barrier(); "
        "print('lightning' in sys.modules, 'lightning_fabric' in sys.modules)"
    )
    assert python(code).split() == ["False", "False"]


def test_the_numeric_half_needs_no_optional_package(tmp_path):
    """Everything from files to scores, with every optional package made impossible to import."""
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import truesigma as ts
from truesigma.cli import main
from truesigma.core import plugins
rng = np.random.default_rng(0)
target = rng.normal(size=100)
cases = ts.Cases(ts.Prediction(target + rng.normal(size=100), scale=0.5 + rng.uniform(size=100)), target)
for suffix in (".npz", ".csv", ".parquet"):
    ts.write(cases, sys.argv[2] + "/cases" + suffix)
    assert len(ts.read(sys.argv[2] + "/cases" + suffix)) == 100
for name in plugins.usual("metrics"):
    plugins.load("metrics", name).score(cases.prediction, cases.target)
file = sys.argv[2] + "/cases.csv"
try:
    main(["--quiet", "evaluate", "--calibration", file, "--test", file, "--json", sys.argv[2] + "/r.json"])
except SystemExit as stopped:
    assert not stopped.code
try:
    main(["list"])
except SystemExit as stopped:
    assert not stopped.code
print("done")
"""
    assert python(code, OPTIONAL, str(tmp_path)).endswith("done\n")
