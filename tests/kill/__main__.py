"""python -m tests.kill COUNT SEED [FILE [COMMAND,...]]: kill commands so often, say what is left; exit 1 if not all."""

import importlib
import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # and so no threads before a fork
sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "src")]
WARM = (
    "truesigma.project.run", "truesigma.imaging.prediction.predict",
    "truesigma.report", "truesigma.engine.evaluate_files", "truesigma.evaluation.maps", "pyarrow.parquet", "nibabel",
    "truesigma.imaging.export.onnx", "torch.export", "onnxruntime", "onnx", "onnxscript", "project_files",
    "torch.utils.tensorboard",
)  # fmt: skip


def main(words: list[str]) -> int:
    from .commands import COMMANDS
    from .server import kills

    names = words[3].split(",") if words[3:] else list(COMMANDS)
    if len(words) not in (2, 3, 4) or not set(names) <= set(COMMANDS):
        print(__doc__, f"COMMAND is one of {', '.join(COMMANDS)}.")
        return 2
    for module in WARM:
        with suppress(ModuleNotFoundError):  # only some commands need them
            importlib.import_module(module)
    count, seed = int(words[0]), int(words[1])
    share = {name: count // len(names) + (k < count % len(names)) for k, name in enumerate(names)}
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for name, some in share.items():
            found[name] = kills(name, some, seed, Path(place)) if some else {}
            print(name, json.dumps(found[name]), flush=True)
    problems = [problem for one in found.values() for problem in one.get("problems", ())]
    if words[2:]:
        Path(words[2]).write_text(json.dumps({"seed": seed, "commands": found}, indent=1) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
