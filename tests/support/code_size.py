"""Count lines of code, without docstrings, comments and blank lines: `python tests/support/code_size.py [FOLDER]`."""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path
from textwrap import dedent

SOURCE = Path(__file__).parents[2] / "src" / "truesigma"
OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)  # of docstrings
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}

NUMERIC = ("core", "metrics", "recalibrate")
# What later topics brought to the numeric half after it was rebuilt, which its size is asked for without: whole files,
# and definitions in others. One is here if a commit of such a topic brought it, and nothing older had done its work.
LATER = {
    # Guarantees for groups and sites: laws and bounds that differ by case, one-sided bounds, the cases a level needs.
    "core/by_case.py": None,
    "core/student.py": None,
    "core/elements.py": ("Elements.by_law", "Elements.reach", "_uncrossed"),
    "core/law.py": ("too_few_for", "cases_needed", "Bounded", "Empirical._check_both", "variance_ratio"),
    "recalibrate/_ranks.py": None,
    "recalibrate/conformal.py": None,  # 61 lines before it knew groups, tails and patients
    "recalibrate/cqr.py": None,
    "recalibrate/cv_plus.py": None,
    "recalibrate/sigma_by_group.py": None,
    "recalibrate/two_factor.py": None,
    # Joint regions, models of folds, new sites, referral, and sigmas that aux scaling never saw.
    "core/plugins.py": ("usual",),
    "core/recalibration.py": ("JointRegion", "Across", "applied"),
    "metrics/_joint.py": None,
    "metrics/joint_coverage.py": None,
    "metrics/volume.py": None,
    "recalibrate/_referral.py": None,
    "recalibrate/_shift.py": None,
    "recalibrate/aux.py": ("Aux._hold", "Aux._held"),
    "recalibrate/region.py": None,
    # Patients and several columns of groups; and the bounds of a prediction, as above.
    "core/cells.py": ("labelled",),
    "core/tally.py": ("Tally._patients", "Tally._patients_of_both", "_added"),
    "core/values.py": (
        "Cases.groups",
        "Cases.first_group",
        "Cases.cluster",
        "Cases.counted",
        "first_group",
        "Prediction._reach",
    ),
    # The five questions and the report's replicates, with the scores that they look at.
    "core/factors.py": ("cluster_covariance",),
    "core/ranking.py": ("Columns", "columns_of"),
    "metrics/ause.py": ("resampled",),
    "metrics/median_absolute_error.py": None,
    "metrics/r2.py": None,
    "metrics/rank_correlation.py": None,
    # Columns of groups in files, weights that no arithmetic survives, which damaged files hold, and shares in words.
    "core/checks.py": ("check_groups", "check_heaviest", "per_cent"),
}


def code_lines(text: str) -> int:
    """Count the lines of a file that hold code.

    >>> code_lines('"A docstring."\\n\\n# a comment\\nx = (\\n    1\\n)')
    3
    """
    said: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, OWNERS) and ast.get_docstring(node, clean=False) is not None:
            said.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - said)


def by_file(folder: Path = SOURCE) -> dict[str, int]:
    """Count the lines of code of every file below a folder, by its path from there."""
    files = sorted(folder.rglob("*.py"))
    return {
        file.relative_to(folder).as_posix(): code_lines(file.read_text(encoding="utf-8")) for file in files
    }


def numeric_lines(folder: Path = SOURCE) -> int:
    """Count the lines of code of the numeric half, without what came to it later."""
    lines = 61  # of conformal
    for name, count in by_file(folder).items():
        if name.split("/")[0] in NUMERIC and LATER.get(name, ()) is not None:
            lines += count - sum(_definitions(folder / name)[one] for one in LATER.get(name, ()))
    return lines


def _definitions(file: Path) -> dict[str, int]:
    """Count the lines of code of every function, class and method of a file."""
    text = file.read_text(encoding="utf-8")
    rows = text.splitlines()
    found: dict[str, int] = {}
    for node in ast.parse(text).body:
        inner = [(f"{node.name}.", one) for one in node.body] if isinstance(node, ast.ClassDef) else []
        for owner, one in [("", node), *inner]:
            if isinstance(one, OWNERS[1:]):
                first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
                found[owner + one.name] = code_lines(dedent("\n".join(rows[first - 1 : one.end_lineno])))
    return found


def main() -> None:
    """Print the packages and their sum, the fullest folders and the longest files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    lines = by_file(folder)
    packages: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for name, count in lines.items():
        packages[name.split("/")[0] if "/" in name else "."] += count
        folders[name.rpartition("/")[0] or "."] += 1
    print("lines of code")
    for name, count in packages.most_common():
        print(f"{count:7,}  {name}")
    print(f"{sum(lines.values()):7,}  all of {len(lines)} files")
    if folder == SOURCE:
        print(f"{numeric_lines():7,}  {' + '.join(NUMERIC)}, without what came later")
    print("\nfiles in a folder")
    for name, count in folders.most_common(5):
        print(f"{count:7}  {name}")
    long = Counter({name: (folder / name).read_text(encoding="utf-8").count("\n") for name in lines})
    print("\nlines of a file, all counted")
    for name, count in long.most_common(5):
        print(f"{count:7}  {name}")


if __name__ == "__main__":
    main()
