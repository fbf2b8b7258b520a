"""A folder can be taken in at a glance, a file and a function at one reading, and the whole does not grow unseen."""

from collections import Counter

from code_lines import SOURCE, Size, by_file, measure

FULLEST = 24  # files of a folder, its own docstring's included
LONGEST_FILE = 450  # lines of a file, all counted
LONGEST_FUNCTION = 60  # lines of code
NUMERIC = ("core", "metrics", "recalibrate")
MOST_LINES = {"numeric half": 6_050, "whole": 29_700}  # of code: what there is, to be lowered
# What is left to be divided; nothing is added to it.
LONGER = {"project/propose.py"}


def test_what_is_no_code_is_not_counted():
    text = '''"""A docstring
of two lines."""

import os  # a comment behind code counts with it

# a comment


def name(path: str) -> str:
    """Return the name."""
    text = """a text
    of two lines is code"""
    return os.path.basename(
        path
    )
'''
    found = measure(text)
    assert (found.lines, found.functions, found.longest) == (7, 1, 6)


def test_no_folder_no_file_no_function_and_not_the_whole_is_too_large():
    """If there is a reason for more, raise the number and say the reason in the commit."""
    sizes = by_file()
    lines = {path: (SOURCE / path).read_text(encoding="utf-8").count("\n") for path in sizes}
    folders = Counter(path.rpartition("/")[0] for path in sizes)
    assert {path: count for path, count in folders.items() if count > FULLEST} == {}
    assert {path: count for path, count in lines.items() if count > LONGEST_FILE} == {}
    assert {path for path, size in sizes.items() if size.longest > LONGEST_FUNCTION} <= LONGER
    totals = dict.fromkeys(MOST_LINES, Size())
    for path, size in sizes.items():
        totals["whole"] = totals["whole"].add(size)
        if path.startswith(NUMERIC):
            totals["numeric half"] = totals["numeric half"].add(size)
    assert {part: total.lines for part, total in totals.items() if total.lines > MOST_LINES[part]} == {}
