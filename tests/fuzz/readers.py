"""Every reader with a whole file to damage: how it is read, and what a checksum promises about it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import mutations as m


def cases(count: int = 60) -> Any:
    """Some cases with everything that a table can hold."""
    import truesigma as ts

    rng = np.random.default_rng(0)
    location, names = rng.normal(size=(count, 2)), np.arange(count)
    parts = {name: rng.gamma(2.0, size=(count, 2)) for name in ("aleatoric", "epistemic")}
    return ts.Cases(
        ts.Prediction(location, **parts),
        location + rng.normal(size=(count, 2)),
        id=[f"c{k}" for k in names],
        patient=[f"p{k // 3}" for k in names],
        group={"site": [f"s{k % 2}" for k in names], "sex": [f"{k % 3 > 0}" for k in names]},
        weight=rng.uniform(0.5, 2, count),
        unit="mm",
        checkpoint="0123abcd",
    )


def make_data(folder: Path) -> None:
    """Tables, archives, volumes, pictures and cards."""
    import nibabel
    import tifffile
    from dicom_files import write_dicom
    from PIL import Image

    import truesigma as ts
    from truesigma.core.law import Undefined
    from truesigma.engine.sumfile import write_sums
    from truesigma.files.fields import to_fields

    whole, rng = cases(), np.random.default_rng(0)
    for ending in ("csv", "parquet", "npz"):
        ts.write(whole, folder / f"cases.{ending}")
    np.savez_compressed(folder / "packed.npz", **to_fields(whole))
    for name in ("location", "scale", "target"):
        voxels = rng.uniform(1, 2, (5, 6, 7)).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1.0, 2.0, 3.0, 1.0])), folder / f"v_{name}.nii.gz")
    write_dicom(
        folder / "a.dcm", rng.integers(0, 4000, (24, 20)).astype(np.uint16), place=[0, 0, 1], RescaleSlope=2
    )
    Image.fromarray(rng.integers(0, 255, (24, 20, 3)).astype(np.uint8)).save(folder / "a.png")
    deep = rng.integers(0, 60000, (2, 24, 20))
    tifffile.imwrite(folder / "a.tif", deep.astype(np.uint16), photometric="minisblack", compression="zlib")
    plain = replace(whole, group=whole.groups["site"], weight=None)
    for name in ("sigma_by_group", "conformal:by=group"):
        ts.write(ts.calibrate(plain, name), folder / f"{name.partition(':')[0]}.json")
    write_sums({"n": np.arange(5.0), "nll": Undefined("none")}, folder / "sums.npz", task="t")
    for name in ("one.npz", "two.csv"):
        ts.write(replace(whole[:6], weight=None), folder / name)
    (folder / "set.csv").write_text("file,weight\none.npz,1\ntwo.csv,2\n")
    rows = "".join(f"s{k}.png,{k + 0.5},p{k // 2}\n" for k in range(20))
    (folder / "labels.csv").write_text("image,age,patient\n" + rows)


def table(path: Path) -> Any:
    from truesigma.files.fields import to_fields
    from truesigma.files.store import read_value

    return to_fields(read_value(path))


def pieces(path: Path) -> Any:
    """A file, or those that belong to it, read a few numbers at a time."""
    from truesigma.files.chunks import chunked_cases
    from truesigma.files.fields import to_fields
    from truesigma.files.find import find_sources

    pattern = path.with_name(path.name.replace("location", "*"))
    return [
        [to_fields(one) for one in chunked_cases(source, elements=50)]
        for source in find_sources(str(pattern))
    ]


def image(path: Path) -> Any:
    from truesigma.files.images import read_image

    return read_image(path)


def card(path: Path) -> Any:
    import truesigma as ts
    from truesigma.files.fields import to_fields

    read, given = ts.read_card(path), cases(6)
    return [read.to_dict(), to_fields(read(given.prediction, group=given.groups["site"]))]


def sums(path: Path) -> Any:
    from truesigma.engine.sumfile import read_sums

    return read_sums(path, task="t")


def labels(path: Path) -> Any:
    from truesigma.files.tables import read_table
    from truesigma.imaging.data.rows import targets

    rows = read_table(path, need=["image", "age"])[1]
    return [rows, targets(rows, ["age"], path)]


class Reader(NamedTuple):
    """A file to damage, and what reads it; `inside` damages it behind a checksum.

    `checked`: a checksum lies over all that decides about results, so that no number may change unnoticed.
    """

    file: str
    read: Callable[[Path], Any]
    inside: Callable[..., bytes]
    damage: Callable[..., bytes] = m.damaged
    checked: bool = True


READERS = {
    "csv": Reader("cases.csv", table, m.in_text, checked=False),
    "parquet": Reader("cases.parquet", table, m.pages_damaged, m.pages_damaged),
    "npz": Reader("cases.npz", table, m.in_zip),
    "npz-packed": Reader("packed.npz", pieces, m.in_zip),
    "nifti": Reader("v_location.nii.gz", pieces, m.damaged),
    "dicom": Reader("a.dcm", image, m.damaged, checked=False),
    "png": Reader("a.png", image, m.damaged),
    "tiff": Reader("a.tif", image, m.damaged, checked=False),
    "card": Reader("sigma_by_group.json", card, m.in_json),
    "card-conformal": Reader("conformal.json", card, m.in_json),
    "sums": Reader("sums.npz", sums, m.in_zip),
    "manifest": Reader("set.csv", pieces, m.in_text, checked=False),
    "labels": Reader("labels.csv", labels, m.in_text, checked=False),
}
