"""Imports point one way, and heavy libraries stay where they belong: read from the source, nothing is run."""

import ast
from pathlib import Path

import truesigma

ROOT = Path(truesigma.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FOLDERS = ("metrics", "recalibrate", "diagrams", "imaging/datasets", "imaging/backbones", "imaging/sigmas")
HEAVY = {
    "torch", "timm", "lightning", "lightning_fabric", "torchvision", "jax", "matplotlib", "plotly", "ray", "pandas",
    "polars", "onnx", "onnxruntime", "onnxscript",
}  # fmt: skip
PICKLES = {"pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
# From the bottom to the top: a package imports those before it, never its neighbours or those behind it.
LAYERS = [
    {"core"},
    {"metrics", "recalibrate", "files"},
    {"engine"},
    {"evaluation"},
    {"diagrams"},
    {"page", "imaging"},
    {"project"},
    {"cli"},
]
IMAGING_LAYERS = [
    {"data", "network"},
    {"datasets", "backbones", "gpu"},
    {"sampling"},
    {"training"},
    {"sigmas"},
    {"prediction"},
    {"export"},
]
# What the plug-ins of imaging see of it; nobody imports a plug-in by name.
SEEN = {"datasets": {"data"}, "backbones": {"network"}, "sigmas": {"data", "network", "sampling", "training"}}


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


def names_by_file(*, top_only: bool = False) -> dict[Path, set[str]]:
    """What each file imports, by its path below the package."""
    return {path.relative_to(ROOT): imported(path, top_only=top_only) for path in FILES}


def test_heavy_libraries_are_imported_where_they_are_used():
    allowed = {"imaging": {"torch", "torchvision", "timm", "lightning", "onnx"}}
    offenders = {
        str(path): heavy
        for path, names in names_by_file(top_only=True).items()
        if (heavy := {name.split(".")[0] for name in names} & HEAVY - allowed.get(path.parts[0], set()))
    }
    assert offenders == {}


def test_no_file_pickles():
    found = {name.split(".")[0] for names in names_by_file().values() for name in names}
    assert not found & PICKLES


def test_siblings_do_not_import_each_other():
    offenders = []
    for path, names in names_by_file().items():
        folder, plugin = path.parent.as_posix(), path.stem
        if folder not in FOLDERS or plugin.startswith("_"):
            continue
        siblings = {one.stem for one in (ROOT / folder).glob("[!_]*.py")} - {plugin}
        package = ["truesigma", *path.parent.parts]
        for name in names:
            parts = name.split(".")
            if parts[: len(package)] == package and siblings & set(parts[len(package) :][:1]):
                offenders.append((str(path), name))
    assert offenders == []


def test_every_package_has_its_layer():
    assert {path.parent.name for path in ROOT.glob("*/*.py")} == set().union(*LAYERS)
    assert {path.parent.name for path in (ROOT / "imaging").glob("*/*.py")} == set().union(*IMAGING_LAYERS)


def breaks_a_layer(path: Path, name: str) -> bool:
    """Whether this import points up, or between plug-ins of imaging and what they must not see."""
    parts = name.split(".")
    if parts[0] != "truesigma" or len(parts) < 3:
        return False
    if points_up(LAYERS, path.parts[0], parts[1]):
        return True
    if not (path.parts[0] == parts[1] == "imaging") or len(path.parts) < 3:
        return False
    room, other = path.parts[1], parts[2]
    rooms = set().union(*IMAGING_LAYERS)
    return (
        points_up(IMAGING_LAYERS, room, other)
        or (other in SEEN and other != room)
        or (room in SEEN and other in rooms and other not in SEEN[room] | {room})
    )


def test_layers_import_downwards():
    offenders = {
        (path.as_posix(), name)
        for path, names in names_by_file().items()
        for name in names
        if breaks_a_layer(path, name)
    }
    assert offenders == set()


def test_a_package_says_who_lives_there():
    for package in set().union(*LAYERS):
        text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
        assert text is not None, package
        assert len(text.split()) > 30, package


def test_a_class_is_told_by_its_name():
    """One idea, one class: no two files have public classes of one name."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
