"""The book of one part: calls and commands go in, what they gave is written down under their label."""

import contextlib
import io
import json
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .contents import content as content_of
from .encode import Encoder

CACHES = ("kept", "sums")  # folders of --keep, whose files are our own business


class Book:
    """Calls and commands of one part, made in a folder of its own, with what came of them."""

    def __init__(self, folder: Path, *, whole_text: bool = False, quick: bool = False) -> None:
        self.folder = folder
        self.encode = Encoder(folder, whole_text=whole_text)
        self.entries: dict[str, Any] = {}
        self.calls = self.commands = 0
        self.quick = quick  # a part may then leave out what takes long

    def note(self, label: str, value: Any) -> None:
        if label in self.entries:
            raise ValueError(f"two entries are called {label!r}; give them different labels.")
        self.entries[label] = self.encode(value)

    def call(
        self, label: str, function: Callable[..., Any], *args: Any, close: float = 0.0, **options: Any
    ) -> Any:
        """Call a function and note what it returns, or the error's type; returns it (None after an error).

        `close` is how well numbers agree where they are summed in single precision.
        """
        self.calls += 1
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                value = function(*args, **options)
                entry = self.encode(value)
            except Exception as problem:
                value, entry = None, self.encode(problem)
        ours = [w for w in heard if issubclass(w.category, UserWarning | RuntimeWarning)]
        if ours:
            entry = {"value": entry, "warnings": len({str(w.message) for w in ours})}
        if close:
            entry = {"value": entry, "close": close}
        if label in self.entries:
            raise ValueError(f"two entries are called {label!r}; give them different labels.")
        self.entries[label] = entry
        return value

    def command(self, line: str, *, label: str = "", content: bool = True) -> int:
        """Run `truesigma LINE` in the folder and note its exit code, what it prints, and every file it writes.

        Without `content` only the exit code is noted.
        """
        from truesigma.cli import main

        self.commands += 1
        before = self._files()
        out, err = io.StringIO(), io.StringIO()
        code = 0
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            try:
                main(shlex.split(line))
            except SystemExit as stopped:
                code = int(stopped.code or 0)
        entry: dict[str, Any] = {"code": code}
        if code == 0 and content and "--help" not in line:
            entry |= {"out": self._printed(out.getvalue())} if out.getvalue() else {}
            heard = {text for text in err.getvalue().splitlines() if text.startswith("warning:")}
            entry |= {"warnings": len(heard)} if heard else {}
        elif self.encode.whole_text:
            entry["said"] = err.getvalue()  # wording is not compared
        after = self._files()
        for name in sorted(name for name, mark in after.items() if before.get(name) != mark and content):
            shown = re.sub(r"(tfevents)\..*", r"\1", name)  # behind it are a time and the machine's name
            entry.setdefault("files", {})[shown] = content_of(self.folder / name, self.encode)
        name = f"$ {label or line}"
        if name in self.entries:
            raise ValueError(f"two commands are called {name!r}; give them different labels.")
        self.entries[name] = entry
        return code

    def _printed(self, text: str) -> Any:
        try:
            return {"json": self.encode(json.loads(text))}
        except ValueError:
            return self.encode.text(text)

    def _files(self) -> dict[str, tuple[int, int]]:
        found = {}
        for path in self.folder.rglob("*"):
            if (
                path.is_file()
                and path.name != ".lock"
                and not path.relative_to(self.folder).parts[0].startswith(CACHES)
            ):
                status = path.stat()
                found[str(path.relative_to(self.folder))] = (status.st_mtime_ns, status.st_size)
        return found


@contextlib.contextmanager
def steady() -> Iterator[None]:
    """One thread and nothing from a network, as every recording is made."""
    os.environ |= {
        "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "120", "TERM": "dumb", "MPLBACKEND": "agg",
        "NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    with warnings.catch_warnings():
        yield
