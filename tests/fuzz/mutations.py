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
        ends = (random.randrange(near), len(content) - 1 - random.randrange(near))
        at = random.choice((*ends, random.randrange(len(content)), random.randrange(len(content))))
        size = random.choice((1, 1, 2, 4, 16, 100))
        block, other = content[at : at + size], random.randrange(len(content))
        flipped = bytes([content[at] ^ (1 << random.randrange(8))]) + block[1:]
        moved, zeros, cut = content[other : other + size], bytes(len(block)), None
        choices = (
            flipped,
            random.randbytes(len(block)),
            b"",
            block + block,
            moved,
            zeros,
            random.choice(HUGE),
            cut,
        )
        new = random.choice(choices)
        content = content[:at] + (b"" if new is None else new + content[at + size :]) or b"\0"
    return content


def numbers_changed(content: bytes, random: Random) -> bytes:
    """Another number in place of one that is written as text: of a shape, a count, a version."""
    found = list(re.finditer(rb"\d+", content[: 1 << 16]))
    if not found:
        return content[::-1]
    one = random.choice(found[:40] if random.random() < 0.7 else found)
    return content[: one.start()] + random.choice(NUMBERS) + content[one.end() :]


def in_zip(content: bytes, random: Random) -> bytes:
    """A member of an archive changed, doubled, lost or huge, and packed again with right checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    name, inner = members.pop(random.randrange(len(members)))
    more = random.choice((
        [(name, inner), (name, damaged(inner, random))],
        [],
        [(random.choice([*members, (name, inner)])[0], inner)],
        [(name, numbers_changed(inner[:128], random) + inner[128:])],
        [(name, inner), ("bomb.npy", bytes(1 << 25))],
        [(name, damaged(inner, random))],
    ))  # fmt: skip
    out = io.BytesIO()
    pack = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "w", pack) as archive:
        for member, data in [*members, *more]:
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
    value = inside.pop(key)
    if isinstance(inside, dict):
        inside |= random.choice(({}, {f"{key}x": value}, {key: random.choice(VALUES)}))
    elif random.random() < 0.7:
        inside.insert(key, random.choice(VALUES))
    return json_text({**whole, SEAL: content_hash(whole)} if sealed else whole).encode()


def in_parquet(content: bytes, random: Random) -> bytes:
    """A table with other columns, types or texts in its footer, written as a whole file with right checksums."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(pa.BufferReader(content))
    at, rows = random.randrange(table.num_columns), table.num_rows
    name = table.column_names[at]
    numbers: Any = [random.choice((None, 1e308, -1.0, float("nan"))) for _ in range(rows)]
    stored = (table.schema.metadata or {}).get(b"truesigma", b"{}")
    changed = random.choice((
        table.drop_columns([name]),
        table.append_column(name, table.column(at)),
        table.set_column(at, name, pa.array(numbers, pa.float64())),
        table.set_column(at, name, pa.array([{"a": 1}] * rows)),
        table.replace_schema_metadata({b"truesigma": damaged(stored, random)}),
    ))  # fmt: skip
    out = pa.BufferOutputStream()
    parquet.write_table(changed, out, write_page_checksum=True, row_group_size=random.choice((7, 1000)))
    return out.getvalue().to_pybytes()


def in_text(content: bytes, random: Random) -> bytes:
    """A cell, a line, a separator or a number of a text changed, or its encoding."""
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    cells = lines[at].split(b",")
    other = random.choice((b";", b"\t", b"\r", b"", b'","'))
    cell = random.randrange(len(cells))
    replaced = [*cells[:cell], random.choice(CELLS), *cells[cell + 1 :]]
    new = random.choice(
        (cells[1:], replaced, [lines[at].replace(b",", other)], [random.choice(lines), lines[at]])
    )
    lines[at] = (b"\n" if len(new) == 2 and new[1] == lines[at] else b",").join(new)
    encoded = content.decode(errors="replace").encode(random.choice(("utf-16", "latin-1")), "replace")
    return random.choice((b"\n".join(lines), b"\n".join(lines), numbers_changed(content, random), encoded))
