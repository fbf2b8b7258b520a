"""The numbers that the paper prints, and those of its logs."""

from made_up_paper import PAPER

from paper.published import read_expected


def test_expected_numbers_are_those_of_the_paper():
    expected = read_expected(PAPER / "expected")
    assert len(expected.paper) == 12 * 9 + 4 + 12 * 6 + 4
    assert len(expected.log) == 24 * 8
    some = {
        ("oct", "resnet101", "total", "sigma", "factor"): 2.14,
        ("breastpathq", "densenet201", "total", "aux", "uce"): 0.0036,
        ("endovis", "resnet101", "aleatoric", "sigma", "factor"): 6.07,
        ("boneage", "efficientnet_b4", "total", "none", "nll"): 6.40,
        ("oct", "densenet201_ensemble", "total", "none", "uce"): 0.0067,
    }
    assert {key: expected.paper[key].value for key in some} == some


def test_printed_numbers_are_rounded_logs():
    expected = read_expected(PAPER / "expected")
    compared = 0
    for key, one in expected.paper.items():
        if key[4] in ("uce", "nll", "factor") and key in expected.log:
            # Half a unit of the last printed digit, and a little for the notebooks that were run again.
            unit = 1e-4 if key[4] == "uce" else 1e-2
            assert abs(one.value - expected.log[key].value) <= 1.0 * unit, key
            compared += 1
    assert compared == 12 * 8 + 12 * 6
