"""HTML by construction: text is escaped unless it is `Html`, so that no name from a file can become markup."""

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..files.disk import plain

VOID = ("img", "input", "br", "meta")


class Html(str):
    """Text that is already HTML."""


Attributes = Mapping[str, str | int | float | bool | None]


def element(name: str, attributes: Attributes | None = None, *children: str) -> Html:
    """Write an element; children and attribute values that are plain text are escaped.

    >>> element("td", {"class": "name"}, "<b>", element("b", None, "x"))
    '<td class="name">&lt;b&gt;<b>x</b></td>'
    """
    shown = "".join(
        f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
        for key, value in (attributes or {}).items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """Join children, plain text escaped.

    >>> join(["a < b", element("br")])
    'a &lt; b<br>'
    """
    return Html("".join(child if isinstance(child, Html) else html.escape(child) for child in children))


def json_text(value: Any) -> Html:
    """Write plain values as JSON for a script element: `<`, `>` and `&` are escaped, NaN is null.

    >>> json_text({"id": "</script>"})
    '{"id":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)
