"""Pictures of `dynacl.plots` as SVG within a page, in the colours of the page."""

from __future__ import annotations

import re
from typing import Any

from matplotlib import rc_context

from dynacl.plots.style import MUTED, TRUE
from dynacl.report.markup import Html, tag
from dynacl.writing import as_svg

# What is drawn in ink follows the page, which may be light or dark.
THEMED = {"#000000": "ink", TRUE: "ink", MUTED: "muted", "#ffffff": "paper"}
NAMED = (r' id="(?:figure|axes|patch|line2d|text|matplotlib\.|Path|Quad|Line|legend|xtick|ytick)'
         r'[^"]*"')  # groups that nobody refers to  # fmt: skip
DPI = 200  # of what is too much for lines


def figure(ax: Any, name: str, caption: str, wide: bool = False) -> Html:
    """A picture and what it shows. name: one that no other picture of the page has."""
    return tag(
        "figure",
        svg(ax, name, caption),
        tag("figcaption", caption),
        class_="wide" if wide else None,
    )


def svg(ax: Any, name: str, words: str) -> Html:
    """The figure of these axes. Words stay words; identifiers depend on the name alone."""
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        text = as_svg(ax.figure, transparent=True, dpi=DPI, metadata=nothing)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(NAMED, "", text)
    for colour, variable in THEMED.items():
        text = text.replace(f": {colour}", f": var(--{variable})")
    opening, rest = text.split(">", 1)
    label = tag("title", words)
    size = re.search(r'viewBox="[^"]*"', opening)
    assert size is not None
    links = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return Html(f'<svg {links} {size.group()} role="img">{label}{rest}')
