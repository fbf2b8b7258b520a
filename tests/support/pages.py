"""Pages of the documentation that run: their Python and their commands, and what they show is what is printed."""

import contextlib
import importlib.util
import io
import re
import shlex
import subprocess
from glob import glob
from pathlib import Path
from typing import Any

from truesigma.cli import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MACHINE = re.compile(
    r"(?:(?:less than a second|\d:\d\d:\d\d|[\d.]+ (?:ms|s|min|kB|MB|GB)\b)\s?)+"
)  # its speed, its sizes


def script(name: str) -> Any:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_page(page: Path, *, close: float = 0.0) -> int:
    """Run a page in the current folder and return how many blocks ran.

    Python blocks share their names; lines of `sh` blocks are commands; `pip` and `make` are left out. A `text` block
    shows what the block before it prints to stdout, or all that it prints; a line `...` in it stands for any lines. A
    command may fail only where the page shows its error. With `close`, numbers may be off by that share: those of
    networks are not alike on all machines.
    """
    printed: tuple[str, str] | None = None
    names: dict[str, object] = {}
    ran, failed = 0, False
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "text":
            failed = False
            if printed is not None:
                found = [differs(block, text, close) for text in printed]
                assert None in found, f"{page.name}: {found[0]}"
            continue
        assert not failed, f"{page.name}: {printed}"
        ran += 1
        if kind == "python":
            printed = None if _absent(block) else (_python(block, names, page.name),) * 2
        else:
            assert kind == "sh", f"{page.name} has a block of kind {kind!r}, which nothing runs"
            done = [_command(line) for line in block.replace("\\\n", " ").splitlines()]
            failed = any(code for *_, code in done)
            printed = ("".join(out for out, *_ in done), "".join(both for _, both, _ in done))
    assert not failed, f"{page.name}: {printed}"
    return ran


def differs(shown: str, printed: str, close: float = 0.0) -> str | None:
    """What is shown and not printed, or the other way round; None where the words agree, wherever lines are broken."""
    wanted = [_words(part) for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)]
    words, start = _words(printed), 0
    for k, part in enumerate(wanted):
        last = len(words) - len(part)
        places = [start] if k == 0 else [last] if k == len(wanted) - 1 else range(start, last + 1)
        place = next(
            (p for p in places if p >= start and _agree(part, words[p : p + len(part)], close)), None
        )
        if place is None:
            return f"the page shows\n{' '.join(part)}\nwhich is not printed:\n{printed}"
        start = place + len(part)
    return None if start == len(words) else f"printed, but not shown: {' '.join(words[start:])}"


def _words(text: str) -> list[str]:
    return MACHINE.sub("# ", text).split()


def _agree(shown: list[str], printed: list[str], close: float) -> bool:
    if not close or len(shown) != len(printed):
        return shown == printed
    return all(a == b or _near(a, b, close) for a, b in zip(shown, printed))


def _near(shown: str, printed: str, close: float) -> bool:
    a, b = (re.fullmatch(r"\W*?(-?\d[\d.e+-]*?)(%|\W*)", word) for word in (shown, printed))
    return bool(a and b) and abs(float(a[1]) - float(b[1])) <= close * max(abs(float(a[1])), 1e-9)


def _absent(block: str) -> bool:
    """Whether a block begins with `# needs name` and that package is not installed."""
    needed = re.match(r"# needs (\w+)\n", block)
    return needed is not None and importlib.util.find_spec(needed[1]) is None


def _python(block: str, names: dict[str, object], page: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, page, "exec"), names)
    return output.getvalue()


def _command(line: str) -> tuple[str, str, int]:
    """What a command prints to stdout, all that it prints, and its exit code."""
    words = shlex.split(line, comments=True)
    if not words or words[0] in ("pip", "make"):
        return "", "", 0
    if words[0] != "truesigma":
        assert words[0] in ("cat", "head", "ls", "sed"), f"{line!r} is not run by tests"
        done = subprocess.run(line, shell=True, capture_output=True, text=True)
        return done.stdout, done.stdout + done.stderr, done.returncode
    words = [one for word in words for one in (sorted(glob(word)) if word.endswith("/runs/*") else [word])]
    out, both, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(_Tee(out, both)), contextlib.redirect_stderr(both):
        try:
            main(words[1:])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return out.getvalue(), both.getvalue(), code


class _Tee(io.StringIO):
    """A stream that writes to two others."""

    def __init__(self, *streams: io.StringIO) -> None:
        super().__init__()
        self.streams = streams

    def write(self, text: str) -> int:
        return max(stream.write(text) for stream in self.streams)
