"""Imports point one way, and heavy libraries stay where they belong: read from the source, nothing is run."""

import ast
from pathlib import Path

import pytest

import truesigma

ROOT = Path(truesigma.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FOLDERS = ("metrics", "recalibrate", "diagrams", "imaging/datasets", "imaging/backbones")
HEAVY = {
    "torch",
    "timm",
    "lightning",
    "torchvision",
    "jax",
    "matplotlib",
    "plotly",
    "ray",
    "pandas",
    "polars",
    "onnx",
    "onnxruntime",
    "onnxscript",
}
# From the bottom to the top: a module may import those before it, never those behind it.
LAYERS = [
    {"arrays"},
    {"cells", "checks", "law"},
    {"types"},
    {"decompose", "binning", "elements", "plugins"},
    {"sums"},
    {"measure"},
    {"tally"},
    {"recalibration", "recipe"},
    {"metrics", "recalibrate", "diagrams"},
    {"evaluate"},
    {"casesums"},
    {"replicates"},
    {"resample"},
    {"select"},
    {"card"},
    {"apply"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported(path: Path, *, top_only: bool) -> set[str]:
    """Modules that a file imports, with their full names; those inside functions too unless `top_only`."""
    package = list(path.relative_to(ROOT.parent).with_suffix("").parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only or (top_only and id(node) in inside):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = [] if node.level == 0 else package[: -node.level]
            base = ".".join([*start, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def place(name: str) -> str | None:
    """Which of the layers a module of ours belongs to."""
    parts = name.split(".")
    return parts[1] if parts[0] == "truesigma" and len(parts) > 1 else None


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_libraries_are_imported_where_they_are_used(path):
    where = path.relative_to(ROOT).as_posix()
    heavy = {name.split(".")[0] for name in imported(path, top_only=True)} & HEAVY
    if where.startswith(("imaging/", "export")):
        heavy -= {"torch", "torchvision", "timm", "lightning", "onnx"}
    assert heavy == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_siblings_do_not_import_each_other(folder):
    package = "truesigma." + folder.replace("/", ".")
    plugins = {p.stem for p in (ROOT / folder).glob("*.py") if not p.stem.startswith("_")}
    for name in plugins:
        others = {f"{package}.{other}" for other in plugins - {name}}
        found = imported(ROOT / folder / f"{name}.py", top_only=False)
        assert not {one for one in found if any(one == o or one.startswith(f"{o}.") for o in others)}, name


@pytest.mark.parametrize("name", sorted(LEVEL))
def test_layers_import_downwards(name):
    files = [ROOT / f"{name}.py"] if (ROOT / f"{name}.py").exists() else sorted((ROOT / name).glob("*.py"))
    for path in files:
        if path.stem == "__init__":
            continue
        for one in imported(path, top_only=True):
            other = place(one)
            if other in LEVEL and other != name:
                assert LEVEL[other] <= LEVEL[name], f"{path.name} imports {one}"


def test_the_numeric_half_knows_no_imaging():
    for path in FILES:
        where = path.relative_to(ROOT).as_posix()
        numeric = where.split("/")[0].removesuffix(".py") in LEVEL
        if numeric:
            assert not {one for one in imported(path, top_only=False) if place(one) == "imaging"}, where


def test_only_the_command_line_knows_the_export():
    for path in FILES:
        where = path.relative_to(ROOT).as_posix()
        if where not in ("export.py", "cli/export.py"):
            assert not {one for one in imported(path, top_only=False) if place(one) == "export"}, where
