"""Damaged files of every kind: each is read as it was, or refused by name, and costs little.

TRUESIGMA_FUZZ=1000 damages a thousand files of each kind, TRUESIGMA_FUZZ_SEED=7 others than usual.
"""

import hashlib
import io
import json
import os
import resource
import signal
import sys
import warnings
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import nibabel
import numpy as np
import pytest
from dicom_files import write_dicom
from PIL import Image

import truesigma as ts
from truesigma.core.law import Undefined
from truesigma.engine.sumfile import read_sums, write_sums
from truesigma.files.chunks import chunked_cases
from truesigma.files.disk import SEAL, BadFile, content_hash, json_text, reading
from truesigma.files.fields import to_fields
from truesigma.files.find import find_sources
from truesigma.files.images import read_image
from truesigma.files.store import read_value

SECONDS, GIGABYTE = 10, 1 << 30
COUNT, SEED = (
    int(os.environ.get(f"TRUESIGMA_FUZZ{name}", usual)) for name, usual in (("", 100), ("_SEED", 0))
)
VALUES = (None, -1, 0, 1e308, 2**70, "x", "", [], {}, True, [[1.0]], "9" * 50)


def cases(count: int = 60) -> ts.Cases:
    """Some cases with everything that a table can hold."""
    rng, names = np.random.default_rng(0), np.arange(count)
    parts = {name: rng.gamma(2.0, size=(count, 2)) for name in ("aleatoric", "epistemic")}
    labels = {"id": [f"c{k}" for k in names], "patient": [f"p{k // 3}" for k in names]}
    group = {"site": [f"s{k % 2}" for k in names], "sex": [f"{k % 3 > 0}" for k in names]}
    weight = rng.uniform(0.5, 2, count)
    location, target = rng.normal(size=(2, count, 2))
    made = ts.Prediction(location, **parts)
    return ts.Cases(made, target, **labels, group=group, weight=weight, unit="mm", checkpoint="0123abcd")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Tables, archives, volumes, pictures and a card."""
    place, whole, rng = tmp_path_factory.mktemp("fuzz"), cases(), np.random.default_rng(0)
    for ending in ("csv", "parquet", "npz"):
        ts.write(whole, place / f"cases.{ending}")
    np.savez_compressed(place / "packed.npz", **to_fields(whole))
    for name in ("location", "scale", "target"):
        voxels = rng.uniform(1, 2, (5, 6, 7)).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1.0, 2.0, 3.0, 1.0])), place / f"v_{name}.nii.gz")
    grey = rng.integers(0, 4000, (24, 20)).astype(np.uint16)
    write_dicom(place / "a.dcm", grey, place=[0, 0, 1], RescaleSlope=2)
    Image.fromarray(rng.integers(0, 255, (24, 20, 3)).astype(np.uint8)).save(place / "a.png")
    plain = replace(whole, group=whole.groups["site"], weight=None)
    ts.write(ts.calibrate(plain, "sigma_by_group"), place / "card.json")
    write_sums({"n": np.arange(5.0), "nll": Undefined("none")}, place / "sums.npz", task="t")
    return place


def table(path: Path) -> Any:
    return to_fields(read_value(path))


def pieces(path: Path) -> Any:
    """A file, or those that belong to it, read a few numbers at a time."""
    sources = find_sources(str(path.with_name(path.name.replace("location", "*"))))
    return [[to_fields(one) for one in chunked_cases(source, elements=50)] for source in sources]


def card(path: Path) -> Any:
    read, given = ts.read_card(path), cases(6)
    return [read.to_dict(), to_fields(read(given.prediction, group=given.groups["site"]))]


def sums(path: Path) -> Any:
    return read_sums(path, task="t")


def damaged(content: bytes, random: Random) -> bytes:
    """Some bytes changed, missing, doubled, moved or zero, a cut, or a huge number; often in the head or the footer."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        near = max(min(len(content), 600), 1)
        ends = (random.randrange(near), len(content) - 1 - random.randrange(near))
        at = random.choice((*ends, random.randrange(len(content)), random.randrange(len(content))))
        block = content[at : at + random.choice((1, 1, 2, 4, 16, 100))]
        other = random.randrange(len(content))
        flipped = bytes([content[at] ^ (1 << random.randrange(8))]) + block[1:]
        moved, zeros = content[other : other + len(block)], bytes(len(block))
        new = random.choice(
            (flipped, random.randbytes(len(block)), b"", 2 * block, moved, zeros, b"\xff" * 8, None)
        )
        content = content[:at] + (b"" if new is None else new + content[at + len(block) :]) or b"\0"
    return content


def in_pages(content: bytes, random: Random) -> bytes:
    """A bit of a .parquet file changed where it has checksums: before its footer."""
    at = random.randrange(4, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))
    return content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :]


def in_zip(content: bytes, random: Random) -> bytes:
    """A member of an archive changed, doubled, lost or huge, and packed again with right checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    name, inner = members.pop(random.randrange(len(members)))
    changed = (name, damaged(inner, random))
    more = random.choice(
        ([(name, inner), changed], [], [changed], [(name, inner), ("bomb.npy", bytes(1 << 25))])
    )
    out = io.BytesIO()
    pack = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "w", pack) as archive:
        for member, data in [*members, *more]:
            archive.writestr(member, data)
    return out.getvalue()


def in_json(content: bytes, random: Random) -> bytes:
    """A value of a card changed, renamed or removed, and its hash made right."""
    whole = json.loads(content)
    del whole[SEAL]
    inside: Any = whole
    key: Any = random.choice(list(inside))
    while isinstance(inside[key], dict) and inside[key] and random.random() < 0.8:
        inside = inside[key]
        key = random.choice(list(inside))
    value = inside.pop(key)
    inside |= random.choice(({}, {f"{key}x": value}, {key: random.choice(VALUES)}))
    return json_text({**whole, SEAL: content_hash(whole)}).encode()


# A file to damage, what reads it, how it is damaged behind its checksum and otherwise, and whether that lies over all
# that decides about results, so that no number may change unnoticed.
READERS: dict[str, Any] = {
    "csv": ("cases.csv", table, damaged, damaged, False),
    "parquet": ("cases.parquet", table, in_pages, in_pages, True),
    "npz": ("cases.npz", table, in_zip, damaged, True),
    "npz in pieces": ("packed.npz", pieces, in_zip, damaged, True),
    "nifti": ("v_location.nii.gz", pieces, damaged, damaged, True),
    "dicom": ("a.dcm", read_image, damaged, damaged, False),
    "png": ("a.png", read_image, damaged, damaged, True),
    "card": ("card.json", card, in_json, damaged, True),
    "sums": ("sums.npz", sums, in_zip, damaged, True),
}


def digest(value: Any) -> str:
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return hashlib.sha256(repr(value).encode()).hexdigest()


def late(*_: Any) -> None:
    raise TimeoutError


def outcome(read: Any, path: Path, whole: str, checked: bool) -> str:
    """Read one damaged file: "read", "refused", "changed", or what is wrong."""
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(action="ignore"):
            same = digest(read(path)) == whole
    except TimeoutError:
        return "took too long"
    except (ValueError, OSError) as problem:
        names = [one.name for one in path.parent.iterdir()]
        return "refused" if any(name in str(problem) for name in names) else f"no name: {problem}"
    except Exception as problem:
        return f"failed: {type(problem).__name__}: {problem}"
    finally:
        signal.alarm(0)
    return "read" if same else "changed under a checksum" if checked else "changed"


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_every_reader(folder: Path, name: str) -> None:
    """Every third file is damaged behind its checksum, by packing it again."""
    signal.signal(signal.SIGALRM, late)
    file, read, inside, damage, checked = READERS[name]
    path, found = folder / file, Counter[str]()
    content, whole = path.read_bytes(), digest(read(path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for index in range(COUNT):
        random, behind = Random(f"{name} {SEED} {index}"), index % 3 == 0
        path.write_bytes((inside if behind else damage)(content, random))
        found[outcome(read, path, whole, checked and not behind)] += 1
    path.write_bytes(content)
    assert found.keys() <= {"read", "refused", "changed"}
    assert found["refused"] > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GIGABYTE >> 10


@pytest.mark.parametrize("problem", [TypeError("x"), MemoryError(), KeyError("a"), EOFError()])
def test_whatever_a_decoder_raises_names_the_file(problem):
    with pytest.raises(BadFile, match=r"a\.nii is damaged"), reading("a.nii"):
        raise problem


def test_what_names_the_file_already_stays(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.nii"), reading("gone.nii"):
        (tmp_path / "gone.nii").open()
    with pytest.raises(BadFile, match="is what it is"), reading("a.nii"):
        raise BadFile("a.nii is what it is")
