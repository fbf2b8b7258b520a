"""How values look in a notebook: tables in HTML."""

from collections.abc import Collection, Sequence
from html import escape


def html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    notes: Sequence[str] = (),
    best: Collection[tuple[int, int]] = (),
) -> str:
    """A table with a title above and notes below; the cells (row, column) in `best` stand out.

    >>> html_table(["metric"], [["<1"]])
    '<table><thead><tr><th>metric</th></tr></thead><tbody><tr><td>&lt;1</td></tr></tbody></table>'
    """

    def line(cells: Sequence[str], kind: str, row: int = -1) -> str:
        texts = [f"<b>{escape(c)}</b>" if (row, k) in best else escape(c) for k, c in enumerate(cells)]
        return "<tr>" + "".join(f"<{kind}>{text}</{kind}>" for text in texts) + "</tr>"

    caption = f"<caption>{escape(title)}</caption>" if title else ""
    body = "".join(line(cells, "td", row) for row, cells in enumerate(rows))
    below = f"<p>{'<br>'.join(map(escape, notes))}</p>" if notes else ""
    return f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>{below}"
