"""Files that commands and readers are given: tables, archives, volumes, manifests, plug-ins, images."""

import csv
from pathlib import Path

import numpy as np

import truesigma as ts

from .samples import drawn_cases, sample


def named(one, start: int = 0) -> ts.Cases:
    """The cases with a name for each."""
    names = [f"c{start + k}" for k in range(len(one.prediction))]
    return ts.Cases(one.prediction, one.target, weight=one.weight, group=one.group, unit="mm", id=names)


def tables(folder: Path) -> None:
    """Calibration and test sets as single files: plain, with outputs, Laplace, draws; and some that are wrong."""
    for name, seed in (("cal", 61), ("test", 62), ("again", 63)):
        plain = named(sample(seed, 80, group=True))
        for ending in ("csv", "parquet", "npz"):
            ts.write(plain, folder / f"{name}.{ending}")
        outputs = sample(seed, 50, (3,), weight="case", mask=True)
        ts.write(named(outputs), folder / f"{name}3.npz")
        ts.write(sample(seed, 50, law="laplace").cases, folder / f"{name}-laplace.csv")
        ts.write(drawn_cases(seed), folder / f"{name}-draws.npz")
    one = sample(64, 20)
    ts.write(one.prediction, folder / "new.csv")
    ts.write(one.prediction, folder / "new.npz")
    ts.write(drawn_cases(64).draws, folder / "new-draws.npz")
    rows = (folder / "cal.csv").read_text().splitlines()
    head = rows[0].split(",")
    place = head.index("target")
    missing = [row.split(",") for row in rows]
    for row in missing[3::7]:
        row[place] = ""
    (folder / "missing.csv").write_text("\n".join(map(",".join, missing)) + "\n")
    (folder / "german.csv").write_text(
        "\n".join(rows).replace(",", ";").replace(".", ",") + "\n" + ";" * (len(head) - 1) + "\n"
    )
    (folder / "tabs.csv").write_text("\n".join(rows).replace(",", "\t"))
    (folder / "other.csv").write_text("truth,pred,sd\n1,2,0.5\n2,2,0.5\n")
    (folder / "empty.csv").write_text("")
    (folder / "text.csv").write_text("target,location,scale\na,b,c\n")
    (folder / "negative.csv").write_text("target,location,scale\n1,2,-1\n")
    (folder / "notnpz.npz").write_bytes(b"nothing")
    (folder / "own.toml").write_text('[uce]\nbins = 5\n[elements]\noutputs = "mean"\n')
    (folder / "history.csv").write_text(
        "epoch,seconds,train_mse,train_variance,valid_mse,valid_variance,valid_factor\n"
        + "".join(
            f"{k},1,{1 / k:.6f},{0.9 / k:.6f},{0.5 + 1 / k:.6f},0.4,{1 + 0.1 * k:.2f}\n" for k in range(1, 6)
        )
    )


def plugins(folder: Path) -> None:
    """Files of one's own, made from the documentation's skeletons as they were when values/ was recorded."""
    for path in (Path(__file__).parent / "skeletons").glob(
        "*.txt"
    ):  # data, not code: nobody imports them from here
        (folder / f"my_{path.stem}.py").write_text(path.read_text())


def parts(folder: Path) -> None:
    """Sets of several files: archives, tables, single arrays, volumes, and manifests of them."""
    for kind, seed in (("cal", 71), ("test", 72)):
        one = named(sample(seed, 90, (2,), group=True, weight="case", mask=True))
        plain = named(sample(seed, 90, group=True))
        for k in range(3):
            ts.write(one[30 * k : 30 * k + 30], folder / f"{kind}_part{k}.npz")
            ts.write(plain[30 * k : 30 * k + 30], folder / f"{kind}_part{k}.csv")
            ts.write(plain[30 * k : 30 * k + 30], folder / f"{kind}_part{k}.parquet")
            bare = ts.Cases(plain.prediction, plain.target, unit="mm")[30 * k : 30 * k + 30]
            ts.write(bare, folder / f"{kind}_bare{k}.csv")
        (folder / f"{kind}.txt").write_text("\n".join(f"{kind}_part{k}.npz" for k in range(3)))
        _write(
            folder / f"{kind}_manifest.csv",
            [{"file": f"{kind}_bare{k}.csv", "weight": k + 1, "group": "AB"[k % 2]} for k in range(3)],
        )
        volumes(folder, kind, seed)
        arrays(folder, kind, seed)


def arrays(folder: Path, kind: str, seed: int) -> None:
    (folder / f"{kind}_npy").mkdir()
    one = sample(seed, 12, (4, 3))
    p = one.prediction
    fields = {"location": p.location, "scale": p.scale, "target": one.target}
    for k in range(3):
        for name, values in fields.items():
            np.save(folder / f"{kind}_npy" / f"p{k}_{name}.npy", values[4 * k : 4 * k + 4])


def volumes(folder: Path, kind: str, seed: int) -> None:
    import nibabel

    (folder / f"{kind}_maps").mkdir()
    one = sample(seed, 4, (5, 4, 3), mask=True)
    p = one.prediction
    fields = {
        "location": p.location, "aleatoric": p.aleatoric, "epistemic": p.epistemic, "target": one.target,
        "mask": p.mask,
    }  # fmt: skip
    rows = []
    for k in range(4):
        row = {"id": f"p{k}", "group": "AB"[k % 2], "weight": 1 + k}
        for name, values in fields.items():
            path = folder / f"{kind}_maps" / f"p{k}_{name}.nii.gz"
            stored = values[k].astype(np.uint8 if name == "mask" else np.float64)
            nibabel.save(nibabel.Nifti1Image(stored, np.diag([1.0, 2.0, 3.0, 1.0])), path)
            row[name] = f"{kind}_maps/{path.name}"
        rows.append(row)
    _write(folder / f"{kind}_maps.csv", rows)


def _write(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def images(
    folder: Path,
    cases: int = 40,
    *,
    side: int = 16,
    volumes: bool = False,
    ending: str = ".png",
    split: bool = False,
) -> Path:
    """Grey images whose brightness is the target, two of each patient, beside labels.csv."""
    from PIL import Image

    rng = np.random.default_rng(5)
    (folder / "scans").mkdir(parents=True)
    rows = []
    for k in range(cases):
        level = rng.uniform(40, 200)
        shape = (side,) * (3 if volumes else 2)
        pixels = np.clip(level + rng.normal(0, 20, shape), 0, 255).astype(np.uint8)
        path = folder / "scans" / f"s{k:03d}{ending}"
        if ending == ".npy":
            np.save(path, pixels)
        elif ending.startswith(".nii"):
            import nibabel

            nibabel.save(nibabel.Nifti1Image(pixels, np.eye(4)), path)
        else:
            Image.fromarray(pixels).save(path)
        row = {"id": f"s{k:03d}", "file": f"scans/{path.name}", "age": f"{level + rng.normal(0, 5):.2f}"}
        row |= {"size": f"{2 * level + rng.normal(0, 5):.2f}", "patient": f"p{k // 2}"}
        if split:
            row["split"] = "train" if k < cases * 0.5 else "valid" if k < cases * 0.75 else "test"
        rows.append(row)
    _write(folder / "labels.csv", rows)
    return folder
