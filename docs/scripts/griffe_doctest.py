"""Show the doctest examples of our docstrings as code on the API pages, wherever in the docstring they appear."""

import re

import griffe

EXAMPLE = re.compile(r"^( *)>>> ")


class DoctestBlocks(griffe.Extension):
    """Fence every run of `>>>` lines and what they print; Markdown would take it for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with each example between fences, up to the blank line that ends it.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2\\n\\nEnd.").count("```")
    2
    """
    found: list[str] = []
    open_at: str | None = None
    for line in text.split("\n"):
        start = EXAMPLE.match(line)
        if open_at is None and start:
            open_at = start.group(1)
            found.append(f"{open_at}```pycon")
        elif open_at is not None and not line.strip():
            found.append(f"{open_at}```")
            open_at = None
        found.append(line)
    if open_at is not None:
        found.append(f"{open_at}```")
    return "\n".join(found)
