"""docs/benchmarks-imaging.md from the results of sampling.py, training.py and curves.py.

python benchmarks/imaging_page.py

Every results/sampling_*.json, training_*.json and curves_*.json is a section: those of this machine, and those that
were measured on another one before.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
HEAD = """# Benchmarks of training and sampling

Every number on this page comes from a run of `benchmarks/sampling.py`, `benchmarks/training.py` or
`benchmarks/curves.py`, in which all methods took turns on the same machine; `benchmarks/results` has them as data. The
published way is the paper's code: eager float32, and for the draws a plain loop of whole passes.
"""
SAMPLING = """## Monte-Carlo dropout

The tables give the time for all draws of a batch. *Passes* is the same time in single passes of the network in
evaluation mode: what comes before the first dropout runs once for all draws, so a network with dropout only before its
heads needs little more than one. The other packages find only dropout modules; if a network is also random elsewhere
(functional dropout, drop-path), they do less work, and the row says so. On a GPU `compile=True` is *cudnn+default*:
batch normalisation is folded into the convolutions, cuDNN joins these with ReLU, and the rest is left to torch.compile.
The times do not include compiling: the first two runs took less than 30 s for ResNet-101, 35 s for EfficientNet-B4 and
147 s for DenseNet-201, while other work was running. Each network had a process of its own there, with 32 batches in a
row (ResNet-18: 64), and waited for the others. Such a host slows single passes of a small network, so the *passes* of
ResNet-18 may be more on a machine of its own.
"""
TRAINING = """## Training steps { #training-steps }

A step is forward, backward and optimiser for one batch. *Captured* is one CUDA graph in bfloat16 with channels last,
which short trainings use. *Ours* is the step of long trainings: batch norm is fused with the activation, residual or
gate that follows it, and all weights are cast at once. *Set-up* is the time it takes to make it; Triton's
cache was empty before the first network. *Epoch* is our step rate inside an epoch, with images prepared and
varied, as a share of the bare step's. Compared with float32, the gradients of a batch without dropout err by as much as
those of the plain step in bfloat16: by 2.4 and 2.4 % of their length (ours and plain, ResNet-101), 50 and 50 %
(DenseNet-201), 28 and 31 % (EfficientNet-B4), as `tests/imaging/gpu/test_faster.py` prints them on a GPU.
"""

CURVES = """## Curves of the faster step { #curves }

Does a network learn the same with the faster step? `benchmarks/curves.py` trains it several times with either step, on
part of the OCT set; seed by seed both start from the same weights and see the same images in the same order. *Inside*:
in how many epochs the mean curve of the faster step lies within the range of the plain step's seeds. *Ratio*: its error
over that of the plain step, in the second half of the epochs. *Seeds*: how far seeds of the plain step are apart, as a
standard deviation, in the same half. Of EfficientNet-B4 only the error in training was
compared: of its first validation errors, which are estimated from two draws, some are 0, which has no logarithm.
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """A table in Markdown: `words` columns of text, then right-aligned numbers.

    >>> print(table(["a", "b"], [["x", "1"]], 1))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    lines = [head, ["---"] * words + ["---:"] * (len(head) - words), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(value: float | None, unit: str = "") -> str:
    """Three digits, or nothing if it was not measured.

    >>> short(0.12345), short(1234.5), short(None)
    ('0.123', '1,234', '')
    """
    if value is None:
        return ""
    return (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}") + unit


def about(result: dict[str, Any]) -> str:
    """What a section was measured on."""
    given = result["settings"]
    words = [f"batch {given['batch']}", f"{given['size']} x {given['size']}"]
    words += [f"{given['draws']} draws"] if "draws" in given else []
    words += ["time of the processor"] if given.get("clock") == "cpu" else []
    return f"### {result['hardware']}\n\n{', '.join([*words, 'torch ' + given['torch']])}.\n"


def sampling(result: dict[str, Any]) -> str:
    """One row for each network and way."""
    rows = []
    for row in result["rows"]:
        plain = next(
            r["ms"]
            for r in result["rows"]
            if r["network"] == row["network"] and r["way"].startswith("plain loop fp32")
        )
        numbers = [short(row["ms"]), short(row.get("passes")), short(plain / row["ms"], "x")]
        rows.append([row["network"], row["way"], *numbers])
    return about(result) + "\n" + table(["network", "way", "ms", "passes", "faster"], rows, 2) + "\n"


def training(result: dict[str, Any]) -> str:
    """One row for each network."""
    rows = [
        [
            row["network"],
            short(row["published_ms"]),
            short(row.get("captured_ms")),
            short(row["step_ms"]),
            short(row["published_ms"] / row["step_ms"], "x"),
            short(row.get("setup_s"), " s" if "setup_s" in row else ""),
            short(row["share"]),
        ]
        for row in result["rows"]
    ]
    head = ["network", "published way, ms", "captured, ms", "ours, ms", "faster", "set-up", "epoch"]
    return about(result) + "\n" + table(head, rows, 1) + "\n"


def curves(result: dict[str, Any]) -> str:
    """One row for each network and error."""
    rows = [
        [
            row["network"],
            words,
            f"{row[error]['inside']} of {row[error]['epochs']}",
            f"{row[error]['ratio']:.3f}",
            f"{100 * (row[error]['seeds_apart'] - 1):.1f} %",
        ]
        for row in result["rows"]
        for error, words in (("train_mse", "training"), ("valid_mse", "validation"))
        if error in row
    ]
    return about(result) + "\n" + table(["network", "MSE in", "inside", "ratio", "seeds"], rows, 2) + "\n"


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page, from results by the names of their files."""
    parts = [HEAD]
    sections = (
        ("sampling", SAMPLING, sampling),
        ("training", TRAINING, training),
        ("curves", CURVES, curves),
    )
    for kind, words, section in sections:
        found = [
            result for name, result in sorted(results.items(), reverse=True) if name.startswith(f"{kind}_")
        ]
        parts += [words, *map(section, found)] if found else []
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    (ROOT / "docs" / "benchmarks-imaging.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
