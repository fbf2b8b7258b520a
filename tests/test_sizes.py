"""A folder can be taken in at a glance, a file is one idea, and the whole does not grow unseen."""

from collections import Counter

from code_lines import SOURCE, Size, by_file, measure

FULLEST = 21  # files of a folder, its own docstring's included
LONGEST_FILE = 400  # lines of a file, all counted
MOST_LINES = 30_944  # of code, in all files
LONGEST_FUNCTION = 136  # lines of code


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


def test_folders_and_files_can_be_taken_in_at_a_glance():
    lines = {path: (SOURCE / path).read_text(encoding="utf-8").count("\n") for path in by_file()}
    folders = Counter(path.rpartition("/")[0] for path in lines)
    assert {path: count for path, count in folders.items() if count > FULLEST} == {}
    assert {path: count for path, count in lines.items() if count > LONGEST_FILE} == {}


def test_the_code_does_not_grow_unseen():
    """If there is a reason for more, raise the number and say the reason in the commit."""
    whole = Size()
    for one in by_file().values():
        whole = whole.add(one)
    assert whole.lines <= MOST_LINES
    assert whole.longest <= LONGEST_FUNCTION
