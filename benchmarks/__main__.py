"""Every benchmark of this folder, one after the other, and the page of their results: python -m benchmarks

On a machine without a GPU the networks are small ones and are not trained; `--only metrics` leaves them out.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def commands(on_gpu: bool) -> dict[str, list[str]]:
    """The arguments of each benchmark, by the name of its result."""
    found = {"agreement": ["agreement.py"], "conformal": ["conformal.py"], "metrics_cpu": ["metrics.py"]}
    if on_gpu:
        found["metrics_cuda"] = [
            "metrics.py",
            "--device",
            "cuda",
            "--sizes",
            "1e4,1e5,1e6,1e7,1e8,1e9",
            "--dtypes",
            "float32",
        ]
        found["sampling_cuda"] = ["sampling.py", "--precision", "bf16"]
        found["training_cuda"] = ["training.py"]
    else:
        # One small batch, and no training: its speed comes from what only a GPU has.
        some = ["--size", "64", "--batch", "4", "--batches", "2", "--networks", "timm:resnet18,small"]
        found["sampling_cpu"] = ["sampling.py", "--device", "cpu", "--clock", "cpu", *some]
    return found


def main() -> None:
    """Run what is asked for; a benchmark that fails does not stop the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="benchmarks to run, as metrics,sampling; by default all")
    parser.add_argument("--threads", default="2", help="cores to use")
    args = parser.parse_args()
    on_gpu = False
    if importlib.util.find_spec("torch"):
        import torch

        on_gpu = torch.cuda.is_available()
    RESULTS.mkdir(exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": args.threads}
    failed = []
    for name, (script, *arguments) in commands(on_gpu).items():
        kind = "metrics" if script in ("agreement.py", "conformal.py") else script.removesuffix(".py")
        if args.only and kind not in args.only.split(","):
            continue
        print(f"{name}: {script} {' '.join(arguments)}", flush=True)
        line = [sys.executable, str(HERE / script), *arguments, "--json", str(RESULTS / f"{name}.json")]
        if subprocess.run(line, env=environment).returncode:
            failed.append(name)
    for page in ("page.py", "imaging_page.py"):
        subprocess.run([sys.executable, str(HERE / page)], check=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
