"""A folder can be taken in at a glance, a file is one idea, and what counts lines counts lines."""

from collections import Counter

import pytest
from code_size import SOURCE, by_file, code_lines

FILES = by_file()
FULLEST = 21  # files of a folder, its own docstring's included
LONGEST = 400  # lines of a file, all counted


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
    assert code_lines(text) == 7


def test_folders_can_be_taken_in_at_a_glance():
    folders = Counter(name.rpartition("/")[0] for name in FILES)
    assert {name: count for name, count in folders.items() if count > FULLEST} == {}
    assert [name for name in FILES if "/" not in name] == ["__init__.py", "__main__.py", "_moved.py"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_one_idea(name):
    lines = (SOURCE / name).read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST, f"{name} has {lines} lines; divide it where a second idea begins"
