"""What a written file holds, by its kind: arrays, tables and JSON as numbers, pages by their data and their text."""

import html
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from .encode import Encoder, digest


def content(path: Path, encode: Encoder) -> Any:
    """The file's content as plain JSON; of kinds that hold a time, that it is there."""
    name = path.name.lower()
    for endings, reader in READERS.items():
        if name.endswith(endings):
            return reader(path, encode)
    if "tfevents" in name or name.endswith((".pdf", ".svg", ".lock")):
        return "there"
    return {"bytes": digest(path.read_bytes())}


def _json(path: Path, encode: Encoder) -> Any:
    return encode(json.loads(path.read_text()))


def _toml(path: Path, encode: Encoder) -> Any:
    return encode(tomllib.loads(path.read_text()))


def _npz(path: Path, encode: Encoder) -> Any:
    with np.load(path, allow_pickle=False) as held:
        return {key: encode(held[key]) for key in held.files}


def _npy(path: Path, encode: Encoder) -> Any:
    return encode(np.load(path, allow_pickle=False))


def _table(path: Path, encode: Encoder) -> Any:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    reader = pyarrow.parquet.read_table if path.suffix == ".parquet" else pyarrow.csv.read_csv
    try:
        table = reader(path)
    except pyarrow.ArrowInvalid:  # such as one with semicolons and decimal commas
        return _text(path, encode)
    held = {
        name: "*" if "seconds" in name else encode(table[name].to_pylist()) for name in table.column_names
    }
    about = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    return {"columns": held, **({"about": encode(about)} if about else {})}


def _text(path: Path, encode: Encoder) -> Any:
    return encode.text(path.read_text())


def _page(path: Path, encode: Encoder) -> Any:
    return page(path.read_text(), encode)


def page(text: str, encode: Encoder) -> Any:
    """The data inside a page, and what a reader sees of it."""
    blocks = re.findall(r"<script[^>]*application/json[^>]*>(.*?)</script>", text, re.DOTALL)
    data = [encode(json.loads(block)) for block in blocks]
    seen = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return {"data": data, "seen": encode.text(html.unescape(re.sub(r"<[^>]*>", " ", seen)))}


def _image(path: Path, encode: Encoder) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return {"size": list(image.size), "pixels": digest(image.tobytes())}


def _nifti(path: Path, encode: Encoder) -> Any:
    import nibabel

    image = nibabel.load(path)
    return {"data": encode(np.asanyarray(image.dataobj)), "affine": encode(image.affine)}


def _weights(path: Path, encode: Encoder) -> Any:
    from safetensors import safe_open

    with safe_open(path, "np") as held:
        names = sorted(held.keys())
        return {
            "names": encode(names),
            "arrays": [encode(held.get_tensor(n)) for n in names[:: 1 + len(names) // 12]],
        }


def _onnx(path: Path, encode: Encoder) -> Any:
    import onnx

    model = onnx.load(path)
    about = {one.key: one.value for one in model.metadata_props}
    told = {
        k: encode(json.loads(v)) if v.startswith(("{", "[")) else encode(v)
        for k, v in about.items()
        if k != "versions"
    }
    told.pop("date", None)
    shapes = {
        one.name: [d.dim_value or d.dim_param for d in one.type.tensor_type.shape.dim]
        for one in [*model.graph.input, *model.graph.output]
    }
    kinds = sorted(node.op_type for node in model.graph.node)
    return {"about": told, "shapes": shapes, "operations": encode(kinds)}


READERS: dict[tuple[str, ...], Any] = {
    (".json",): _json,
    (".toml",): _toml,
    (".npz",): _npz,
    (".npy",): _npy,
    (".csv", ".parquet"): _table,
    (".html", ".htm"): _page,
    (".txt", ".md"): _text,
    (".png",): _image,
    (".nii", ".nii.gz"): _nifti,
    (".safetensors",): _weights,
    (".onnx",): _onnx,
}
