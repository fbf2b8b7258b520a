"""Starting is light, and imports point one way. The rules are read from the files, not timed."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "truesigma"
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
for name in plugins.names("metrics"):
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


# The direction of imports ------------------------------------------------------------------------------------------


@functools.cache
def modules():
    """[(file, its dotted name below the package, [(imported name, line, inside a function or for types only)])]."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        package = parts[:-1]
        name = ".".join(package if parts[-1] == "__init__" else parts)
        found.append((path, name, list(_imports(ast.parse(path.read_text(encoding="utf-8")), package))))
    return found


def _imports(tree, package):
    """Imports with absolute names: `.values` in core as "truesigma.core.values", whatever way it is written."""
    late = set()
    for node in ast.walk(tree):
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or typing_only:
            late.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in late
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join(["truesigma", *above, *([base] if base else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno, id(node) in late


def ours(imported):
    """The module of the package that is imported, below the package; None for others."""
    parts = imported.split(".")
    if parts[0] != "truesigma":
        return None
    for length in range(len(parts), 1, -1):
        path = SOURCE.joinpath(*parts[1:length])
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return ".".join(parts[1:length])
    return ""


# Of the imaging half, but without torch: what a recipe and a table of images say.
LIGHT = ("imaging.recipe", "imaging.data.rows")
PICTURES = ("files.images", "files.headers", "project.matching")  # loaded by whoever reads an image


def test_only_the_imaging_half_imports_torch_when_it_is_loaded():
    wrong = []
    for path, name, imported in modules():
        if (name.split(".")[0] == "imaging" and name not in LIGHT) or name in PICTURES:
            continue
        for target, line, late in imported:
            if target.split(".")[0] in {*OPTIONAL.split(), "pyarrow"} and not late:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {target} at import time")
            if (ours(target) or "").startswith("imaging") and ours(target) not in LIGHT and not late:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports the imaging half at import time")
            if ours(target) in PICTURES and not late:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports Pillow's reader at import time")
    assert not wrong, "\n".join(wrong)


def test_no_file_pickles():
    pattern = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path, _, imported in modules()
        for target, line, _ in imported
        if target.split(".")[0] in pattern
    ]
    assert not wrong


def test_no_cycles():
    graph = {name: set() for _, name, _ in modules()}
    for _, name, imported in modules():
        for target, _, late in imported:
            module = ours(target)
            # A package's own __init__ is loaded first in any case; `from . import x` is about x.
            if module and not late and module != name and not name.startswith(module + "."):
                graph[name].add(module)
    done, path = set(), []

    def visit(name):
        if name in path:
            pytest.fail(" -> ".join([*path[path.index(name) :], name]))
        if name not in done:
            path.append(name)
            for following in sorted(graph.get(name, ())):
                visit(following)
            done.add(path.pop())

    for name in sorted(graph):
        visit(name)
