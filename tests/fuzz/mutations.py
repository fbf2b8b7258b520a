"""Damage: what disks, networks and strangers do to files, from a seed, and the same behind checksums that are right."""

import io
import json
import warnings
import zipfile
from random import Random
from typing import Any

VALUES = (None, -1, 0, 1e308, 2**70, "x", "", [], {}, True, [[1.0]], "9" * 50)
CELLS = (b"", b"nan", b"1e999", b'"', b"\0", b"\xff", b"=1", b"9" * 400)


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


def pages_damaged(content: bytes, random: Random) -> bytes:
    """Bytes of a .parquet file changed where it has checksums: before its footer."""
    footer = 8 + int.from_bytes(content[-8:-4], "little")
    body = content[:-footer]
    at = random.randrange(4, len(body))
    return body[:at] + bytes([body[at] ^ (1 << random.randrange(8))]) + body[at + 1 :] + content[-footer:]


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
    from truesigma.files.disk import SEAL, content_hash, json_text

    whole = json.loads(content)
    del whole[SEAL]
    inside: Any = whole
    key: Any = random.choice(list(inside))
    while isinstance(inside[key], dict | list) and inside[key] and random.random() < 0.8:
        inside = inside[key]
        key = random.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
    value = inside.pop(key)
    if isinstance(inside, dict):
        inside |= random.choice(({}, {f"{key}x": value}, {key: random.choice(VALUES)}))
    else:
        inside.insert(key, random.choice(VALUES))
    return json_text({**whole, SEAL: content_hash(whole)}).encode()


def in_text(content: bytes, random: Random) -> bytes:
    """A cell, a line or a separator of a text changed, or its encoding."""
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    cells = lines[at].split(b",")
    cells[random.randrange(len(cells))] = random.choice(CELLS)
    other = lines[at].replace(b",", random.choice((b";", b"\t", b"\r", b"", b'","')))
    lines[at] = random.choice((b",".join(cells), b",".join(cells[1:]), other, lines[at] + b"\n" + lines[at]))
    changed = b"\n".join(lines)
    encoded = content.decode(errors="replace").encode(random.choice(("utf-16", "latin-1")), "replace")
    return random.choice((changed, changed, encoded))
