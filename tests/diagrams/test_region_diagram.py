"""The region of one case: its border is that of the fitted region, on an image or not, also from the command line."""

import json

import numpy as np
import pytest

from truesigma import Cases, Prediction, diagrams, write
from truesigma.recalibrate import region

pytest.importorskip("matplotlib")


def landmarks(cases=60):
    rng = np.random.default_rng(0)
    y = 30 + rng.normal(size=(cases, 2)) @ [[3.0, 2.0], [0.0, 1.0]]
    return Prediction(0 * y + 30, aleatoric=0 * y + 4.0), y


@pytest.mark.parametrize("shape", ["ellipsoid", "box"])
def test_the_table_is_the_border_of_the_region(shape):
    prediction, y = landmarks()
    fitted = region.fit(prediction, y, shape=shape)
    found = diagrams.region.table(fitted, prediction, y, case=7, level=0.8)
    np.testing.assert_allclose(found.border, fitted.outline(prediction[7:8], level=0.8)[0])
    np.testing.assert_array_equal(found.target, y[7])
    assert found.inside == fitted.contains(prediction, y, level=0.8)[7]
    assert found.level == 0.8
    assert diagrams.region.table(fitted, prediction).inside is None
    with pytest.raises(ValueError, match="case is 60, and there are 60"):
        diagrams.region.table(fitted, prediction, case=60)


def test_it_is_drawn_with_the_target_and_on_an_image():
    prediction, y = landmarks()
    found = diagrams.region.table(region.fit(prediction, y), prediction, y)
    ax = diagrams.region.draw(found, unit="mm")
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["90 % region", "prediction"]
    assert ax.get_xlabel() == "x (mm)"
    np.testing.assert_allclose(ax.lines[0].get_xydata(), found.border)
    shown = diagrams.region.draw(found, image=np.zeros((64, 64)))
    assert len(shown.images) == 1


def test_the_command(tmp_path, capsys):
    from PIL import Image

    from truesigma.cli import main

    prediction, y = landmarks()
    for name, some in (("cal", slice(0, 40)), ("test", slice(40, 60))):
        write(Cases(prediction[some], y[some]), tmp_path / f"{name}.csv")
    Image.fromarray(np.zeros((64, 64), np.uint8)).save(tmp_path / "image.png")
    files = [str(tmp_path / "test.csv"), f"--calibration={tmp_path / 'cal.csv'}"]
    command = ["figure", "region:case=3", *files, "--recalibrate", "region:shape=box"]
    out = [
        f"--image={tmp_path / 'image.png'}",
        "-o",
        str(tmp_path / "figure.png"),
        f"--json={tmp_path / 'f.json'}",
    ]
    with pytest.raises(SystemExit) as left:
        main([*command, *out])
    assert not left.value.code
    assert (tmp_path / "figure.png").stat().st_size > 1000
    table = json.loads((tmp_path / "f.json").read_text())["table"]
    fitted = region.fit(prediction[:40], y[:40], shape="box")
    np.testing.assert_allclose(table["x"], fitted.outline(prediction[43:44])[0][:, 0], rtol=1e-5)
    with pytest.raises(SystemExit) as left:
        main(["figure", "region", *files, "--recalibrate", "sigma", "-o", str(tmp_path / "other.png")])
    assert left.value.code
    assert "joint region" in capsys.readouterr().err
