"""init: what it sees in the images themselves."""

import numpy as np
import pytest
from PIL import Image
from project_files import make_images, write_table

from truesigma.imaging.datasets.table import load as load_table
from truesigma.project.survey import survey


def test_mixed_dimensions_are_refused(tmp_path):
    rows = make_images(tmp_path, 6)
    np.save(tmp_path / "scans" / "v.npy", np.zeros((8, 8, 8), np.float32))
    path = write_table(tmp_path / "t.csv", [{"file": f"{r['id']}.png", "age": r["age"]} for r in rows])
    with path.open("a") as file:
        file.write("v.npy,3\n")
    with pytest.raises(ValueError, match="2-D and 3-D images are mixed"):
        survey(tmp_path / "scans", path)


def test_grey_images_among_those_in_colour_are_named(tmp_path):
    rows = make_images(tmp_path, 6)
    for row in rows[:4]:
        Image.new("RGBA", (32, 32)).save(tmp_path / "scans" / f"{row['id']}.png")
    table = write_table(tmp_path / "t.csv", rows)
    with pytest.raises(ValueError, match=r"3 channels, 2 of 6 not: s004.png \(1\)"):
        survey(tmp_path / "scans", table)
    with pytest.raises(ValueError, match=r"s004.png \(has 1 channel, the others 3"):
        load_table(str(tmp_path / "scans"), csv="../t.csv", image="{id}.png", target="age")


def test_every_head_that_cannot_be_read_is_said(tmp_path):
    """Not only those of the images that are opened, of which there are twelve."""
    rows = make_images(tmp_path, 40, side=8)
    for k in (2, 5):
        (tmp_path / "scans" / f"s{k:03}.png").write_bytes(b"no image")
    seen = survey(tmp_path / "scans", write_table(tmp_path / "t.csv", rows))
    assert [*seen.unreadable] == ["s002.png", "s005.png"]
    assert [k for k, head in enumerate(seen.heads) if head is None] == [2, 5]
    assert sum(line.startswith("cannot be read: s00") for line in seen.lines()) == 2


def test_colour_images(tmp_path):
    rows = make_images(tmp_path, 6)
    for row in rows:
        Image.new("RGB", (40, 50)).save(tmp_path / "scans" / f"{row['id']}.png")
    seen = survey(tmp_path / "scans", write_table(tmp_path / "t.csv", rows))
    assert (seen.channels, seen.shapes) == (3, ((3, 50, 40),))
