"""No test is lost: the ids that were collected once, and where each of them is now."""

import functools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

LIST = Path(__file__).parent / "test_ids.txt"
START = "23727bb"  # the commit the list was collected at
GONE = {  # tests that went with what they tested, or that a wider one replaced
    "tests/test_demo.py::test_": "the demo is a recipe that `run` runs, and its tests in tests/project ask the same",
    "tests/imaging/test_compiled.py::": "the compiled tally, which no command reached, is gone",
    "tests/test_imports.py::test_layers_import_downwards[": "it runs over every file now",
    "tests/test_imports.py::test_the_numeric_half_knows_no_imaging": "the layers say so for every file",
    "tests/test_imports.py::test_only_the_command_line_knows_the_export": "the layers say so for every file",
    "tests/test_startup.py::test_imports_point_one_way": "the layers say so for every file",
    "tests/test_startup.py::test_siblings_in_a_folder": "tests/test_imports.py asks the same",
    "tests/test_binning.py::test_log_cells_": "cells are narrower: tests/core/test_sketches.py",
    "tests/tally/test_cells.py::test_log_cells_": "cells are narrower, and have a battery of variances",
    "tests/report/sections/test_verdict.py::": "the five questions judge: tests/evaluation/test_questions.py",
    "tests/report/sections/test_breakdown.py::test_": "the five questions judge groups and outputs, too",
    "tests/report/sections/test_headline.py::test_links_bear": "the first screen is the rows of the questions",
    "tests/report/sections/test_rejection.py::test_a_sigma_that": "a question: test_a_blind_sigma_is_not_called_fine",
    "tests/test_headers.py::test_a_patient_that_is_no_group": "patients have a column of their own",
    "tests/test_apply.py::test_a_law_that_a_csv_cannot_hold_is_named": "the law is kept beside the csv",
    "tests/export/test_onnx_metadata.py::test_a_network_whose": "a unit that nobody declares is refused",
    "tests/recalibrate/test_aux.py::test_what_lies_far": "what is doubted is held, too: test_..._is_doubted_and_held",
    "tests/imaging/training/test_resume.py::test_kill_9": "tests/kill kills every command",
}


def collect(root: Path) -> list[str]:
    """The ids of all tests, by pytest."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-o",
        "addopts=--import-mode=importlib",
    ]
    printed = subprocess.run(command, cwd=root, capture_output=True, text=True).stdout
    return [line for line in printed.splitlines() if "::" in line and not line.startswith("ERROR")]


def lost_ids(root: Path) -> int:
    """Print how many ids of the list are here under which path, and those that are not; 1 if some are lost."""
    before, after = LIST.read_text().splitlines(), collect(root)
    if not after:
        print("pytest collected nothing")
        return 1
    moved = renames(root)
    whole, by_name = set(after), Counter(one.partition("::")[2] for one in after)
    functions = {one.partition("::")[2].partition("[")[0] for one in after}
    same, elsewhere, of_file, reworded, gone, lost = 0, 0, 0, 0, 0, []
    for old in before:
        path, _, rest = old.partition("::")
        name = _renamed(rest, moved)
        if f"{moved.get(path, path)}::{name}" in whole:
            same += 1
        elif by_name[name] > 0:
            by_name[name] -= 1
            elsewhere += 1
        elif _was_file(rest, root):
            of_file += 1
        elif name.partition("[")[0] in functions:
            reworded += 1
        elif old.startswith(tuple(GONE)):
            gone += 1
        else:
            lost.append(old)
    print(
        f"{len(before)} ids then, {len(after)} now: {same} in the file they were in, or where git saw it move;"
    )
    print(
        f"{elsewhere} by the name of the function in another file; {of_file} ran over a file that is merged now;"
    )
    print(f"{reworded} of functions that ask for other words or values; ", end="")
    print(f"{gone} went with what they tested; {len(lost)} lost")
    for start, why in GONE.items():
        print(f"  {start}...: {why}")
    print("\n".join(lost))
    return 1 if lost else 0


def renames(root: Path) -> dict[str, str]:
    """Old paths with their new ones, as git follows them over the commits since the list was made."""
    found: dict[str, str] = {}
    command = ["git", "log", "--reverse", "-M40%", "-l5000", "--diff-filter=R", "--name-status", "--format="]
    text = subprocess.run([*command, f"{START}..HEAD"], cwd=root, capture_output=True, text=True).stdout
    for old, new in re.findall(r"^R\d+\t(\S+)\t(\S+)$", text, re.MULTILINE):
        for first, last in list(found.items()):
            if last == old:
                found[first] = new
        found.setdefault(old, new)
    return found


def _renamed(rest: str, moved: dict[str, str]) -> str:
    """An id whose parameter is a file or a module of the package, under its new address."""
    name, bracket, parameter = rest.partition("[")
    given = parameter.removesuffix("]")
    for old, new in moved.items():
        for spell in (_module, _inside):
            if old.startswith("src/") and spell(old) == given:
                return f"{name}{bracket}{spell(new)}]"
    return rest


def _was_file(rest: str, root: Path) -> bool:
    """Whether the parameter is a file or a module of the package as it was then."""
    given = rest.partition("[")[2].removesuffix("]")
    return any(spell(path) == given for path in _files_then(root) for spell in (_module, _inside))


@functools.cache
def _files_then(root: Path) -> list[str]:
    listed = ["git", "ls-tree", "-r", "--name-only", START, "src/truesigma"]
    return subprocess.run(listed, cwd=root, capture_output=True, text=True).stdout.split()


def _inside(path: str) -> str:
    return path.removeprefix("src/truesigma/")


def _module(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
