"""A sample of what users see is as it was recorded; `python -m tests.recorded compare` does so for all of it."""

import json

import numpy as np
import pytest

from recorded.__main__ import VALUES, record
from recorded.book import steady
from recorded.difference import differences
from recorded.encode import Encoder, dump


def test_nothing_changed_that_a_user_sees():
    """To 1e-9, as another processor rounds in another way; on the same one the whole is compared to 1e-12."""
    with steady():
        book = record("quick")
    assert book.calls >= 170
    assert book.commands >= 10
    before = json.loads((VALUES / "quick.json").read_text())
    found = [d for d in differences(before, json.loads(dump(book.entries)), close=1e-9) if d.kind == "value"]
    assert not found, "\n".join(map(str, found))


def test_a_difference_is_seen():
    before = {
        "a": {"array": "numpy float64 [9]", "some": [1.0], "sum": 2.0, "size": 3.0},
        "b": {"words": "x"},
        "c": 1,
    }
    same = json.loads(json.dumps(before))
    same["a"]["sum"] += 1e-13
    assert not differences(before, same)
    after = {"a": {**before["a"], "sum": 2.1}, "b": {"words": "y"}, "d": 1}
    assert [(d.label, d.kind) for d in differences(before, after)] == [
        ("a", "value"), ("b", "words"), ("c", "value"), ("d", "new"),
    ]  # fmt: skip


@pytest.mark.parametrize("value", [np.arange(30.0), list(np.arange(30.0)), "it took 3 times 5 mm or more"])
def test_what_is_encoded_tells_values_apart(value):
    encode = Encoder()
    if isinstance(value, str):
        assert encode(value) == {**encode("it took 3 times 5 cm or more"), "words": encode(value)["words"]}
        assert encode(value) != encode("it took 4 times 5 mm or more")
        assert encode("done in 3.5 s, 2024-05-06") == encode("done in 9 min, 2025-01-01")
        return
    other = type(value)(value[::-1]) if isinstance(value, list) else value[::-1]
    assert differences({"": encode(value)}, {"": encode(other)})
    near = [v * (1 + 1e-11) for v in value] if isinstance(value, list) else value * (1 + 1e-11)
    assert differences({"": encode(value)}, {"": encode(near)})
