"""Damage: what disks, networks and strangers do to files, from a seed, and the same behind checksums that are right."""

import gzip
import io
import json
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]
HUGE = (
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\xff" * 8,
    b"\0\0\0\0\1\0\0\0",
    b"\0\0\0\x40",
)


def somewhere(content: bytes, random: Random) -> int:
    """A place, half of the time near either end, where heads and footers lie."""
    near = min(len(content), 600)
    places = (
        random.randrange(near),
        len(content) - 1 - random.randrange(near),
        random.randrange(len(content)),
    )
    return places[random.choice((0, 1, 2, 2))]


def damaged(content: bytes, random: Random) -> bytes:
    """A few flipped bits, a cut, something missing, doubled, exchanged or zero, or a huge number."""
    if not content:
        return bytes([random.randrange(256)])
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at, size = somewhere(content, random), random.choice((1, 1, 2, 4, 16, 100))
        other = somewhere(content, random)
        block = content[at : at + size]
        kind = random.randrange(9)
        if kind == 0:
            content = content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :]
        elif kind == 1:
            content = content[:at] + random.randbytes(size) + content[at + size :]
        elif kind == 2:
            content = content[:at]
        elif kind == 3:
            content = content[:at] + content[at + size :]
        elif kind == 4:
            content = content[:at] + block + content[at:]
        elif kind == 5:
            content = content[:other] + block + content[other + len(block) :]
        elif kind == 6:
            content = content[:at] + bytes(len(block)) + content[at + size :]
        elif kind == 7:
            huge = random.choice(HUGE)
            content = content[:at] + huge + content[at + len(huge) :]
        else:
            content = numbers_changed(content, random)
        if not content:
            return b""
    return content


def numbers_changed(content: bytes, random: Random) -> bytes:
    """Another number in place of one that is written as text: of a shape, a count, a version."""
    found = list(re.finditer(rb"\d+", content[: 1 << 16]))
    if not found:
        return content[::-1]
    one = random.choice(found[:40] if random.random() < 0.7 else found)
    new = random.choice((b"0", b"1", b"-1", b"9" * 12, b"1e400", b"2147483648", b"(", b"x"))
    return content[: one.start()] + new + content[one.end() :]


def in_zip(content: bytes, random: Random) -> bytes:
    """The members of an archive changed, and packed again with right checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = random.randrange(len(members))
    name, inner = members[at]
    kind = random.randrange(6)
    if kind == 0:
        members.append((name, damaged(inner, random)))
    elif kind == 1:
        del members[at]
    elif kind == 2:
        members[at] = (random.choice(members)[0], inner)
    elif kind == 3:
        members[at] = (name, numbers_changed(inner[:128], random) + inner[128:])
    elif kind == 4:
        members.append(("bomb.npy", npy_head("<f8", (1 << 22,)) + bytes(1 << 25)))
    else:
        members[at] = (name, damaged(inner, random))
    out = io.BytesIO()
    pack = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "w", pack) as archive:
        for member, data in members:
            archive.writestr(member, data)
    return out.getvalue()


def npy_head(descr: str, shape: tuple[int, ...]) -> bytes:
    """The head of a .npy file."""
    import numpy as np

    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": shape})
    return head.getvalue()


def in_gzip(content: bytes, random: Random) -> bytes:
    """What a packed file holds changed, and packed again."""
    return gzip.compress(damaged(gzip.decompress(content), random), 1, mtime=0)


def in_png(content: bytes, random: Random) -> bytes:
    """A chunk of a picture changed, and its checksum made right."""
    start, chunks = 8, []
    while start < len(content):
        size = struct.unpack(">I", content[start : start + 4])[0]
        chunks.append((content[start + 4 : start + 8], content[start + 8 : start + 8 + size]))
        start += size + 12
    at = random.randrange(len(chunks))
    kind, data = chunks[at]
    if kind == b"IDAT" and random.random() < 0.5:
        data = zlib.compress(damaged(zlib.decompress(data), random))
    else:
        data = damaged(data, random)
    chunks[at] = (kind, data)
    parts = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return content[:8] + b"".join(parts)


def in_json(content: bytes, random: Random) -> bytes:
    """A value of a JSON file changed, doubled, removed or of another kind, and its hash made right."""
    from truesigma.files.disk import SEAL, json_text

    found = json.loads(content)
    sealed = found.pop(SEAL, None) is not None
    _change(found, random)
    if sealed:
        import hashlib

        found[SEAL] = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return json_text(found).encode()


def _change(found: Any, random: Random) -> None:
    """Change something inside of a dict or a list."""
    while True:
        keys: list[Any] = list(found) if isinstance(found, dict) else list(range(len(found)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(found[key], dict | list) and found[key] and random.random() < 0.8:
            found = found[key]
            continue
        kind = random.randrange(4)
        if kind == 0:
            del found[key]
        elif kind == 1 and isinstance(found, dict):
            found[f"{key}x"] = found.pop(key)
        else:
            found[key] = random.choice((None, -1, 0, 1e308, 2**70, "x", "", [], {}, True, [[1.0]], "9" * 50))
        return


def in_safetensors(content: bytes, random: Random) -> bytes:
    """The head or the numbers of a file of tensors changed, and the length of its head made right."""
    size = struct.unpack("<Q", content[:8])[0]
    head, data = content[8 : 8 + size], content[8 + size :]
    if random.random() < 0.5:
        head = numbers_changed(head, random) if random.random() < 0.5 else damaged(head, random)
    else:
        at = random.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    return struct.pack("<Q", len(head)) + head + data


def in_parquet(content: bytes, random: Random) -> bytes:
    """A table with other columns, types or texts, written as a whole file with right checksums."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(pa.BufferReader(content))
    at = random.randrange(table.num_columns)
    name = table.column_names[at]
    kind = random.randrange(6)
    if kind == 0:
        table = table.drop_columns([name])
    elif kind == 1:
        table = table.append_column(name, table.column(at))
    elif kind == 2:
        values: Any = [random.choice((None, 1e308, -1.0, float("nan"))) for _ in range(table.num_rows)]
        table = table.set_column(at, name, pa.array(values, pa.float64()))
    elif kind == 3:
        table = table.set_column(at, name, pa.array([{"a": 1}] * table.num_rows))
    elif kind == 4:
        stored = (table.schema.metadata or {}).get(b"truesigma", b"{}")
        table = table.replace_schema_metadata({b"truesigma": damaged(stored, random)})
    else:
        table = table.slice(0, random.randrange(table.num_rows))
    out = pa.BufferOutputStream()
    parquet.write_table(table, out, write_page_checksum=True, row_group_size=random.choice((7, 1000)))
    return out.getvalue().to_pybytes()


def in_text(content: bytes, random: Random) -> bytes:
    """Cells, lines and quotes of a text changed."""
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    kind = random.randrange(7)
    if kind == 0:
        lines[at] = b",".join(lines[at].split(b",")[1:])
    elif kind == 1:
        lines.insert(at, lines[random.randrange(len(lines))])
    elif kind == 2:
        cells = lines[at].split(b",")
        cells[random.randrange(len(cells))] = random.choice(
            (b"", b"nan", b"1e999", b'"', b"\0", b"\xff", b"=1", b"9" * 400)
        )
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
