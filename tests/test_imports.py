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
    "lightning_fabric",
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
# From the bottom to the top: a package imports those before it, never its neighbours or those behind it.
LAYERS = [
    {"core"},
    {"metrics", "recalibrate", "files"},
    {"evaluation"},
    {"diagrams", "engine"},
    {"report", "imaging"},
    {"project", "reproduce"},
    {"cli"},
]
IMAGING_LAYERS = [
    {"data", "network"},
    {"datasets", "backbones", "gpu"},
    {"sampling"},
    {"training"},
    {"prediction"},
    {"export"},
]
# What the plug-ins of imaging see of it; nobody imports a plug-in by name.
SEEN = {"datasets": {"data"}, "backbones": {"network"}}
# Upward imports that are still to be turned round.
KNOWN = {
    ("files/store.py", "truesigma.evaluation.evaluate.Evaluation"),
}


def level_of(layers: list[set[str]], name: str) -> int | None:
    return next((level for level, names in enumerate(layers) if name in names), None)


def imported(path: Path, *, top_only: bool = False) -> set[str]:
    """Names that a file imports, in full; those inside functions too unless `top_only`, which skips typing as well."""
    package = list(path.relative_to(ROOT.parent).with_suffix("").parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test))
        for node in ast.walk(block)
    }
    names = set()
    for node in ast.walk(tree):
        if top_only and id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = [] if node.level == 0 else package[: -node.level]
            base = ".".join([*start, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def points_up(layers: list[set[str]], here: str, there: str) -> bool:
    """Whether `here` may not import `there`: another room that does not lie below it."""
    own, other = level_of(layers, here), level_of(layers, there)
    return here != there and own is not None and other is not None and other >= own


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_libraries_are_imported_where_they_are_used(path):
    heavy = {name.split(".")[0] for name in imported(path, top_only=True)} & HEAVY
    if path.relative_to(ROOT).parts[0] == "imaging":
        heavy -= {"torch", "torchvision", "timm", "lightning", "onnx"}
    assert heavy == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_siblings_do_not_import_each_other(folder):
    package = "truesigma." + folder.replace("/", ".")
    plugins = {p.stem for p in (ROOT / folder).glob("*.py") if not p.stem.startswith("_")}
    for name in plugins:
        others = {f"{package}.{other}" for other in plugins - {name}}
        found = imported(ROOT / folder / f"{name}.py")
        assert not {one for one in found if any(one == o or one.startswith(f"{o}.") for o in others)}, name


def test_every_package_has_its_layer():
    assert {path.parent.name for path in ROOT.glob("*/*.py")} == set().union(*LAYERS)
    assert {path.parent.name for path in (ROOT / "imaging").glob("*/*.py")} == set().union(*IMAGING_LAYERS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers_import_downwards(path):
    here = path.relative_to(ROOT)
    for name in sorted(imported(path)):
        parts = name.split(".")
        if parts[0] != "truesigma" or len(parts) < 3 or (here.as_posix(), name) in KNOWN:
            continue
        assert not points_up(LAYERS, here.parts[0], parts[1]), name
        if here.parts[0] == parts[1] == "imaging" and len(here.parts) > 2:
            room, other = here.parts[1], parts[2]
            assert not points_up(IMAGING_LAYERS, room, other), name
            rooms = set().union(*IMAGING_LAYERS)
            assert other not in SEEN or other == room, name
            assert room not in SEEN or other not in rooms or other in SEEN[room] | {room}, name


def test_the_known_upward_imports_are_still_there():
    """One that is gone leaves the list."""
    assert {(where, name) for where, name in KNOWN if name not in imported(ROOT / where)} == set()


@pytest.mark.parametrize("package", sorted(set().union(*LAYERS)))
def test_a_package_says_who_lives_there(package):
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    assert text is not None
    assert len(text.split()) > 30


def test_a_class_is_told_by_its_name():
    """One idea, one class: no two files have public classes of one name."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
