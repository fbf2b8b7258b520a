"""Choices as users write them: a name, options from text."""

import pytest

from truesigma import Cases, Prediction, evaluate
from truesigma.core.plugins import parse


@pytest.mark.parametrize(
    ("kind", "text", "options"),
    [
        ("metrics", "uce", {}),
        ("metrics", "uce:", {}),
        ("metrics", "uce:bins=7, spacing=mass", {"bins": 7, "spacing": "mass"}),
        ("metrics", "uce:closed=false", {"closed": False}),
        ("metrics", "uce:closed=Yes", {"closed": True}),
        ("metrics", "coverage:level=.5", {"level": 0.5}),
        (
            "recalibrate",
            "aux:hidden=4,rate=1e-2,standardise=no",
            {"hidden": 4, "rate": 0.01, "standardise": False},
        ),
        ("recalibrate", ("aux", {"hidden": 4}), {"hidden": 4}),
    ],
)
def test_options_from_text(kind, text, options):
    assert parse(kind, text)[2] == options


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("uce:bins", "option 'bins' has no value; expected name:option=value"),
        ("uce:bin=3", "uce has no option 'bin'; did you mean 'bins'"),
        ("uce:weight=3", "uce has no option 'weight'"),
        ("uce:bins=3.5", "uce:bins is '3.5'; expected a value like 15"),
        ("uce:closed=maybe", "uce:closed is 'maybe'; expected a value like True"),
        ("uce:spacing=log", "uce:spacing is 'log'; expected one of width, mass"),
        ("mae:level=3", "mae has no option 'level'; expected one of none"),
    ],
)
def test_bad_options_are_named(text, words):
    with pytest.raises(ValueError, match=words):
        parse("metrics", text)


def test_an_option_without_a_type_takes_that_of_its_default(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def score(p, y, *, weight=None, a=1, b=0.5, c=True, d='x'): return a + b"
    )
    given = parse("metrics", f"{tmp_path / 'mine.py'}:a=3,b=2,c=no,d=4")[2]
    assert given == {"a": 3, "b": 2.0, "c": False, "d": "4"}


def test_what_is_no_choice_is_refused():
    cases = Cases(Prediction([0.0, 1.0], aleatoric=[1.0, 1.0]), [1.0, 1.0])
    for choice in ({"hidden": 4}, ("aux",), 3, ("aux", 4)):
        with pytest.raises(ValueError, match="is not a choice; expected a name, or a pair"):
            evaluate(cases, cases, recalibrations=[choice])
