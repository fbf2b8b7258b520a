"""Every reader with a whole file to damage: how the file is made, how it is read, and what it is known by."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import mutations as m
from .runs import (
    make_finished,
    make_progress,
    make_project,
    make_recipe,
    make_run,
    make_table,
    read_progress,
    read_project,
    read_recipe,
    read_run,
    read_table,
    read_weights,
)


@dataclass(frozen=True)
class Reader:
    """A kind of file.

    Args:
        file: its name in the folder, which errors must name. make: writes it, and what belongs to it, into a folder.
        read: reads it, and returns what it holds. inside: damage behind a checksum.
        checked: whether a checksum lies over all that decides about results, so that no number may change.
    """

    file: str
    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    inside: m.Mutation
    checked: bool = False


def digest(value: Any) -> str:
    """A hash of what was read, whatever it is made of."""
    found = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, dict):
            for key in sorted(one, key=str):
                found.update(str(key).encode())
                add(one[key])
        elif isinstance(one, list | tuple):
            found.update(b"[")
            for inner in one:
                add(inner)
        elif hasattr(one, "detach"):
            add(one.detach().float().numpy())
        elif isinstance(one, np.ndarray):
            found.update(f"{one.dtype.kind}{one.shape}".encode())
            found.update(np.ascontiguousarray(one).tobytes())
        elif hasattr(one, "__dict__"):
            add(vars(one))
        else:
            found.update(repr(one).encode())

    add(value)
    return found.hexdigest()


def cases(count: int = 60) -> Any:
    """Some cases with everything that a table can hold."""
    import truesigma as ts

    rng = np.random.default_rng(0)
    location = rng.normal(size=(count, 2))
    prediction = ts.Prediction(
        location, aleatoric=rng.gamma(2.0, size=(count, 2)), epistemic=rng.gamma(2.0, size=(count, 2))
    )
    names = np.arange(count)
    return ts.Cases(
        prediction,
        location + rng.normal(size=(count, 2)),
        id=[f"c{k}" for k in names],
        patient=[f"p{k // 3}" for k in names],
        group={"site": [f"s{k % 2}" for k in names], "sex": [f"{k % 3 > 0}" for k in names]},
        weight=rng.uniform(0.5, 2, count),
        unit="mm",
        checkpoint="0123abcd",
        sampling="masks=common seed=0 draws=25",
    )


def write_cases(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        import truesigma as ts

        ts.write(cases(), folder / name)

    return make


def read_cases(folder: Path, name: str) -> Any:
    from truesigma.files.fields import to_fields
    from truesigma.files.store import read

    return to_fields(read(folder / name))


def stream(given: str) -> Any:
    from truesigma.files.chunks import chunked_cases
    from truesigma.files.fields import to_fields
    from truesigma.files.find import find_sources

    return [[to_fields(one) for one in chunked_cases(source, elements=50)] for source in find_sources(given)]


def make_packed(folder: Path) -> None:
    from truesigma.files.fields import to_fields

    np.savez_compressed(folder / "cases.npz", **to_fields(cases()))


def make_npy(folder: Path) -> None:
    made = cases()
    for name, array in (
        ("location", made.prediction.location),
        ("scale", made.prediction.scale),
        ("target", made.target),
    ):
        np.save(folder / f"a_{name}.npy", array)


def make_volumes(ending: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        import nibabel

        rng = np.random.default_rng(0)
        for name in ("location", "scale", "target"):
            voxels = rng.uniform(1, 2, (5, 6, 7)).astype(np.float32)
            nibabel.save(
                nibabel.Nifti1Image(voxels, np.diag([1.0, 2.0, 3.0, 1.0])), folder / f"a_{name}{ending}"
            )

    return make


def image(folder: Path, name: str) -> Any:
    from truesigma.files.images import read_image

    return read_image(folder / name)


def make_picture(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from PIL import Image

        pixels = np.random.default_rng(0).integers(0, 255, (24, 20, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name)

    return make


def make_dicom(folder: Path) -> None:
    from dicom_files import write_dicom

    pixels = np.random.default_rng(0).integers(0, 4000, (24, 20)).astype(np.uint16)
    write_dicom(folder / "a.dcm", pixels, place=[0, 0, 1], RescaleSlope=2, RescaleIntercept=-5)


def make_card(recalibration: str, recipe: str = "exact") -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        import truesigma as ts
        from truesigma.evaluation.card import calibrate

        made = replace(cases(), group=cases().groups["site"], weight=None)
        ts.write(made, folder / "cases.npz")
        ts.write(calibrate(made, recalibration, recipe=recipe), folder / "card.json")

    return make


def make_referral(folder: Path) -> None:
    """A card that says which cases to refer, with the file that it is made from."""
    from project_files import call

    import truesigma as ts

    ts.write(replace(cases(300), group=None, weight=None), folder / "cases.npz")
    words = ("--calibration", folder / "cases.npz", "--refer", "tolerance=9,risk=0.1")
    assert call("--quiet", "calibrate", *words, "-o", folder / "card.json") == 0


def make_like(folder: Path) -> None:
    """A card for a new site, whose conformal scores are weighted by what is predicted."""
    import truesigma as ts
    from truesigma.evaluation.card import calibrate
    from truesigma.evaluation.like import weighted_like

    made = replace(cases(300), weight=None)
    ts.write(made, folder / "cases.npz")
    ts.write(calibrate(weighted_like(made, made.prediction), "conformal"), folder / "card.json")


def make_quantiles(folder: Path) -> None:
    """A card for bounds that a model predicts."""
    import truesigma as ts
    from truesigma.evaluation.card import calibrate

    made = cases()
    lower, upper = (made.prediction.location + sign * made.prediction.scale for sign in (-1.6, 1.6))
    rows = zip(*(a[:, 0].tolist() for a in (made.target, lower, upper)))
    lines = ["target,lower_90,upper_90", *(",".join(map(str, row)) for row in rows)]
    (folder / "cases.csv").write_text("\n".join(lines) + "\n")
    ts.write(calibrate(ts.read(folder / "cases.csv"), "cqr"), folder / "card.json")


def make_folds(folder: Path) -> None:
    """A card of the models of five folds, and what they predict."""
    import truesigma as ts
    from truesigma.evaluation.card import calibrate

    made = cases()
    fold = [str(k // 3 % 5) for k in range(len(made))]
    known = replace(made, fold=fold, weight=None, checkpoint="")  # draws do not say whose they are
    ts.write(calibrate(known, "cv_plus"), folder / "card.json")
    draws = (
        np.stack([a + 0.1 * k for k in range(5)]) for a in (made.prediction.location, made.prediction.total)
    )
    ts.write(ts.Draws(*draws), folder / "cases.npz")


def read_card(folder: Path) -> Any:
    from truesigma.evaluation.apply import apply_file
    from truesigma.evaluation.card import read_card

    card = read_card(folder / "card.json")
    source = next(folder.glob("cases.*"))
    made = vars(apply_file(card, source, folder / f"out{source.suffix}"))
    return [card.to_dict(), made, (folder / f"out{source.suffix}").read_bytes()]


def make_scored(folder: Path) -> None:
    """Scores, and a report, with the files that they are made from."""
    from project_files import call

    import truesigma as ts

    for name in ("calibration", "test"):
        ts.write(cases(), folder / f"{name}.npz")
    sets = ("--calibration", folder / "calibration.npz", "--test", folder / "test.npz")
    few = ("--recalibrate", "sigma", "--metrics", "rmse,uce,coverage")
    assert call("--quiet", "evaluate", *sets, *few, "--json", folder / "scores.json") == 0
    assert call("--quiet", "report", *sets, "--replicates", 20, "-o", folder / "page.html") == 0


def verified(path: Path) -> list[str]:
    """What `verify` says of a file, and an error where that does not follow, or is not known."""
    from truesigma.project.verify import verify

    checks = verify(path)
    for one in checks:
        if not one.holds:
            raise ValueError(f"{path}: {one.line()}")
    return [one.line() for one in checks]


def make_onnx(folder: Path) -> None:
    from project_files import call

    options = ("--set", "data.cases=24", "--set", "data.train=8", "--set", "data.valid=8")
    words = (
        "train",
        "simulated",
        "--root",
        folder / "needles",
        *options,
        "--backbone",
        "small",
        "--set",
        "train.epochs=1",
    )
    assert call("--quiet", *words, "--device", "cpu", "-o", folder / "run") == 0
    assert call("--quiet", "export", folder / "run", "--draws", 2, "-o", folder / "model.onnx") == 0


def make_sums(folder: Path) -> None:
    from truesigma.core.law import Undefined
    from truesigma.engine.sumfile import write_sums

    write_sums(
        {"n": np.arange(5.0), "m": np.ones((2, 3)), "nll": Undefined("none")}, folder / "a.npz", task="t"
    )


def read_sums(folder: Path) -> Any:
    from truesigma.engine.sumfile import read_sums

    return read_sums(folder / "a.npz", task="t")


def make_manifest(folder: Path) -> None:
    import truesigma as ts

    for name in ("a.npz", "b.csv"):
        ts.write(replace(cases(6), weight=None), folder / name)
    (folder / "set.csv").write_text("file,weight\na.npz,1\nb.csv,2\n")


READERS = {
    "csv": Reader("cases.csv", write_cases("cases.csv"), lambda f: read_cases(f, "cases.csv"), m.in_text),
    "parquet": Reader(
        "cases.parquet",
        write_cases("cases.parquet"),
        lambda f: read_cases(f, "cases.parquet"),
        m.in_parquet,
        True,
    ),
    "parquet-streamed": Reader(
        "cases.parquet",
        write_cases("cases.parquet"),
        lambda f: stream(str(f / "cases.parquet")),
        m.in_parquet,
        True,
    ),
    "npz": Reader(
        "cases.npz", write_cases("cases.npz"), lambda f: read_cases(f, "cases.npz"), m.in_zip, True
    ),
    "npz-packed": Reader("cases.npz", make_packed, lambda f: read_cases(f, "cases.npz"), m.in_zip, True),
    "npz-streamed": Reader("cases.npz", make_packed, lambda f: stream(str(f / "cases.npz")), m.in_zip, True),
    "npy": Reader("a_location.npy", make_npy, lambda f: stream(str(f / "*.npy")), m.numbers_changed),
    "nifti": Reader("a_location.nii", make_volumes(".nii"), lambda f: stream(str(f / "*.nii")), m.damaged),
    "nifti-packed": Reader(
        "a_location.nii.gz", make_volumes(".nii.gz"), lambda f: stream(str(f / "*.nii.gz")), m.in_gzip, True
    ),
    "image-nifti": Reader(
        "a_scale.nii.gz", make_volumes(".nii.gz"), lambda f: image(f, "a_scale.nii.gz"), m.in_gzip, True
    ),
    "image-npy": Reader("a_scale.npy", make_npy, lambda f: image(f, "a_scale.npy"), m.numbers_changed),
    "dicom": Reader("a.dcm", make_dicom, lambda f: image(f, "a.dcm"), m.damaged),
    "png": Reader("a.png", make_picture("a.png"), lambda f: image(f, "a.png"), m.in_png, True),
    "tiff": Reader("a.tif", make_picture("a.tif"), lambda f: image(f, "a.tif"), m.damaged),
    "card": Reader("card.json", make_card("sigma", "paper"), read_card, m.in_json, True),
    "card-by-group": Reader("card.json", make_card("sigma_by_group"), read_card, m.in_json, True),
    "card-conformal": Reader("card.json", make_card("conformal:by=group"), read_card, m.in_json, True),
    "card-region": Reader("card.json", make_card("region"), read_card, m.in_json, True),
    "card-referral": Reader("card.json", make_referral, read_card, m.in_json, True),
    "card-verified": Reader("card.json", make_referral, lambda f: verified(f / "card.json"), m.in_json, True),
    "card-like": Reader("card.json", make_like, read_card, m.in_json, True),
    "card-cqr": Reader("card.json", make_quantiles, read_card, m.in_json, True),
    "card-cv-plus": Reader("card.json", make_folds, read_card, m.in_json, True),
    "scores": Reader("scores.json", make_scored, lambda f: verified(f / "scores.json"), m.in_json, True),
    "report": Reader("page.html", make_scored, lambda f: verified(f / "page.html"), m.in_text),
    "onnx": Reader("model.onnx", make_onnx, lambda f: verified(f / "model.onnx"), m.damaged, True),
    "sums": Reader("a.npz", make_sums, read_sums, m.in_zip, True),
    "manifest": Reader("set.csv", make_manifest, lambda f: stream(str(f / "set.csv")), m.in_text),
    "labels": Reader("labels.csv", make_table, read_table, m.in_text),
    "recipe": Reader("mine.toml", make_recipe, read_recipe, m.in_text),
    "project": Reader("recipe.toml", make_project, read_project, m.in_text),
    "verified-run": Reader("output/cases.csv", make_finished, lambda f: verified(f / "output"), m.in_text),
    "progress": Reader("progress.json", make_progress, read_progress, m.in_json, True),
    "run": Reader("run/recipe.json", make_run, read_run, m.in_json, True),
    "weights": Reader("run/best.safetensors", make_run, read_run, m.in_safetensors, True),
    "safetensors": Reader("run/last.safetensors", make_run, read_weights, m.in_safetensors, True),
}
