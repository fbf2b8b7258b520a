"""How far a command is: a bar on the terminal, or a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, int], Callable[[int], None]]
EVERY = 5.0  # seconds between lines


@contextmanager
def progress(quiet: bool) -> Iterator[Report | None]:
    """Give a function from a name and a total to what advances a bar; None if there is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def report(words: str, total: int) -> Callable[[int], None]:
            task = bar.add_task(words, total=total)
            return lambda done: bar.advance(task, done)

        yield report


def ticker(say: Callable[[str], None], total: int) -> Callable[[int], None]:
    """Make a function that counts cases and says now and then how many are done, and the time left."""
    began = printed = time.monotonic()
    done = 0

    def count(cases: int) -> None:
        nonlocal done, printed
        done += cases
        now = time.monotonic()
        if now - printed >= EVERY and done < total:
            printed = now
            say(f"{done} of {total} cases, {(now - began) / done * (total - done):.0f} s left")

    return count
