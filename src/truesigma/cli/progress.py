"""A progress bar on the terminal; nothing where the output goes to a file."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, int], Callable[[int], None]]


@contextmanager
def progress(quiet: bool) -> Iterator[Report | None]:
    """A function from a name and a total to what moves a bar on; None where there is no terminal."""
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
