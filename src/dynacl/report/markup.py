"""HTML that what it shows cannot break: every string is escaped unless it is HTML already."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

EMPTY = {"meta", "link", "br", "hr", "img", "input"}


class Html(str):
    """Text that is HTML; `tag` and `joined` make it, and nothing else should."""

    __slots__ = ()


def escaped(text: Any) -> Html:
    return text if isinstance(text, Html) else Html(html.escape(str(text), quote=True))


def joined(parts: Iterable[Any]) -> Html:
    """Parts one after the other, each escaped unless it is HTML; None is left out."""
    return Html("".join(escaped(part) for part in parts if part is not None))


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An element. A trailing underscore of an attribute goes (`class_`), others become dashes.

    An attribute of True stands alone; one of None or False is left out.
    """
    words = [name]
    for key, value in attributes.items():
        said = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(said)
        elif value is not None and value is not False:
            words.append(f'{said}="{escaped(value)}"')
    start = f"<{' '.join(words)}>"
    return Html(start if name in EMPTY else f"{start}{joined(children)}</{name}>")


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str | None = None) -> Html:
    """The first cell of each row names it; numbers stand to the right."""
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else None,
            tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
            if any(head)
            else None,
            tag(
                "tbody",
                *(
                    tag("tr", tag("th", row[0], scope="row"), *(tag("td", c) for c in row[1:]))
                    for row in rows
                ),
            ),
        ),
        class_="table",
    )


def as_json(value: Any) -> Html:
    """JSON for a script element, which ends at "</script" whatever the JSON says."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Html(text)
