"""Damage: what disks, networks and strangers do to files, from a seed, and the same behind checksums that are right."""

import gzip
import io
import json
import re
import warnings
import zipfile
from random import Random
from typing import Any

HUGE = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff" * 8, b"\0\0\0\0\1\0\0\0", b"\0\0\0\x40")
NUMBERS = (b"0", b"1", b"-1", b"9" * 12, b"1e400", b"2147483648", b"(", b"x")
VALUES = (None, -1, 0, 1e308, 2**70, "x", "", [], {}, True, [[1.0]], "9" * 50)
CELLS = (b"", b"nan", b"1e999", b'"', b"\0", b"\xff", b"=1", b"9" * 400)


def damaged(content: bytes, random: Random) -> bytes:
    """Some bytes changed, missing, doubled, moved or zero, a cut, or a huge number; often in the head or the footer."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        near = max(min(len(content), 600), 1)
        places = (
            random.randrange(near),
            len(content) - 1 - random.randrange(near),
            random.randrange(len(content)),
        )
        at, other = places[random.choice((0, 1, 2, 2))], random.choice(places)
        size = random.choice((1, 1, 2, 4, 16, 100))
        block = content[at : at + size]
        kind = random.randrange(8)
        new = (
            bytes([content[at] ^ (1 << random.randrange(8))]) + block[1:],
            random.randbytes(len(block)),
            b"",
            block + block,
            content[other : other + size],
            bytes(len(block)),
            random.choice(HUGE),
            b"",
        )[kind]
        content = content[:at] + new + (b"" if kind == 7 else content[at + size :]) or b"\0"
    return content


def numbers_changed(content: bytes, random: Random) -> bytes:
    """Another number in place of one that is written as text: of a shape, a count, a version."""
    found = list(re.finditer(rb"\d+", content[: 1 << 16]))
    if not found:
        return content[::-1]
    one = random.choice(found[:40] if random.random() < 0.7 else found)
    return content[: one.start()] + random.choice(NUMBERS) + content[one.end() :]


def in_zip(content: bytes, random: Random) -> bytes:
    """The members of an archive changed, doubled, lost or huge, and packed again with right checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = random.randrange(len(members))
    name, inner = members[at]
    changed = {
        "doubled": [*members, (name, damaged(inner, random))],
        "lost": members[:at] + members[at + 1 :],
        "called another": [*members[:at], (random.choice(members)[0], inner), *members[at + 1 :]],
        "another shape": [*members[:at], (name, numbers_changed(inner[:128], random) + inner[128:])],
        "huge": [*members, ("bomb.npy", bytes(1 << 25))],
        "damaged": [*members[:at], (name, damaged(inner, random)), *members[at + 1 :]],
    }[random.choice(("doubled", "lost", "called another", "another shape", "huge", "damaged"))]
    out = io.BytesIO()
    pack = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "w", pack) as archive:
        for member, data in changed:
            archive.writestr(member, data)
    return out.getvalue()


def in_gzip(content: bytes, random: Random) -> bytes:
    """What a packed file holds changed, and packed again."""
    return gzip.compress(damaged(gzip.decompress(content), random), 1, mtime=0)


def in_json(content: bytes, random: Random) -> bytes:
    """A value of a JSON file changed, renamed or removed, and its hash made right."""
    from truesigma.files.disk import SEAL, content_hash, json_text

    whole = json.loads(content)
    sealed = whole.pop(SEAL, None) is not None
    inside: Any = whole
    key: Any = random.choice(list(inside))
    while isinstance(inside[key], dict | list) and inside[key] and random.random() < 0.8:
        inside = inside[key]
        key = random.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
    kind = random.randrange(4)
    if kind == 0:
        del inside[key]
    elif kind == 1 and isinstance(inside, dict):
        inside[f"{key}x"] = inside.pop(key)
    else:
        inside[key] = random.choice(VALUES)
    if sealed:
        whole[SEAL] = content_hash(whole)
    return json_text(whole).encode()


def in_parquet(content: bytes, random: Random) -> bytes:
    """A table with other columns, types or texts in its footer, written as a whole file with right checksums."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(pa.BufferReader(content))
    at = random.randrange(table.num_columns)
    name, rows = table.column_names[at], table.num_rows
    numbers: Any = [random.choice((None, 1e308, -1.0, float("nan"))) for _ in range(rows)]
    stored = (table.schema.metadata or {}).get(b"truesigma", b"{}")
    changed = (
        lambda: table.drop_columns([name]),
        lambda: table.append_column(name, table.column(at)),
        lambda: table.set_column(at, name, pa.array(numbers, pa.float64())),
        lambda: table.set_column(at, name, pa.array([{"a": 1}] * rows)),
        lambda: table.replace_schema_metadata({b"truesigma": damaged(stored, random)}),
        lambda: table.slice(0, random.randrange(rows)),
    )[random.randrange(6)]()
    out = pa.BufferOutputStream()
    parquet.write_table(changed, out, write_page_checksum=True, row_group_size=random.choice((7, 1000)))
    return out.getvalue().to_pybytes()


def in_text(content: bytes, random: Random) -> bytes:
    """Cells, lines and quotes of a text changed, or its encoding."""
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    cells = lines[at].split(b",")
    kind = random.randrange(7)
    if kind == 0:
        lines[at] = b",".join(cells[1:])
    elif kind == 1:
        lines.insert(at, random.choice(lines))
    elif kind == 2:
        cells[random.randrange(len(cells))] = random.choice(CELLS)
        lines[at] = b",".join(cells)
    elif kind == 3:
        lines[at] = lines[at].replace(b",", random.choice((b";", b"\t", b"\r", b"", b'","')))
    elif kind == 4:
        lines[at] = b"[" * 3000 + lines[at]
    elif kind == 5:
        return content.decode(errors="replace").encode(
            random.choice(("utf-16", "utf-8-sig", "latin-1")), "replace"
        )
    else:
        return numbers_changed(content, random)
    return b"\n".join(lines)
