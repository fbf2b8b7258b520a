"""The command line that all benchmarks share: what they are about, and --json for the file of their numbers."""

import argparse
import json
from pathlib import Path
from typing import Any


def command(words: str | None) -> argparse.ArgumentParser:
    """A parser that shows these words as they are, and knows --json."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="where the numbers are written")
    return parser


def network_command(words: str | None, networks: str) -> argparse.ArgumentParser:
    """The same for benchmarks of networks on images, which are these where no others are named."""
    import torch

    parser = command(words)
    parser.add_argument("--networks", default=networks)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    return parser


def write(file: Path | None, result: dict[str, Any]) -> None:
    """Write what was measured, if a file is named."""
    if file is not None:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(result, indent=1) + "\n")


def processor() -> str:
    """The processor, as torch uses it."""
    import torch

    cores = torch.get_num_threads()
    return f"{cores} CPU core{'s' if cores > 1 else ''}"
