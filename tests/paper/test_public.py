"""The paper's program is a user like any other: it imports what truesigma documents, and nothing else."""

import ast
import importlib
import re

from made_up_paper import PAPER

API = PAPER.parent / "docs" / "api"
PACKAGES = (
    "truesigma", "truesigma.core", "truesigma.diagrams", "truesigma.imaging", "truesigma.imaging.datasets",
)  # fmt: skip
PLUGINS = ("truesigma.metrics", "truesigma.recalibrate", "truesigma.diagrams", "truesigma.imaging.datasets")


def test_it_imports_what_is_documented_alone():
    pages = "".join(path.read_text(encoding="utf-8") for path in API.glob("*.md"))
    documented = set()
    for place, options in re.findall(r"^::: (\S+)\n((?:[ ]{4,}.*\n)*)", pages, re.MULTILINE):
        members = re.search(r"members: \[(.*)\]", options)
        documented |= {f"{place}.{name}" for name in members[1].split(", ")} if members else {place}
    private = set()
    for path in PAPER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("truesigma"):
                continue
            listed = getattr(importlib.import_module(node.module), "__all__", ())
            for name in (alias.name for alias in node.names):
                plugin = node.module in PLUGINS and not name.startswith("_")
                known = {node.module, f"{node.module}.{name}"} & documented
                if not (plugin or known or (node.module in PACKAGES and name in listed)):
                    private.add(f"{path.relative_to(PAPER)}: {node.module}.{name}")
    assert private == set()
