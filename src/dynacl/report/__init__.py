"""One HTML file that shows what a model learned. It needs no other file and no network.

Every string that comes from data or the names of files is escaped (`markup`); the page allows no
script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from string import Template
from typing import Any

from dynacl import inspection
from dynacl._version import __version__
from dynacl.estimator import DCL
from dynacl.portrait import Portrait
from dynacl.report import words
from dynacl.report.about import About
from dynacl.report.markup import Html, as_json, escaped, tag
from dynacl.report.points import points
from dynacl.report.sections import SECTIONS
from dynacl.writing import write as write_file

__all__ = ["write"]

SCRIPTS = ("view.js", "embedding.js", "timeline.js")


def write(
    path: str | os.PathLike[str],
    model: DCL,
    X: Any = None,
    *,
    u: Any = None,
    title: str = "",
    source: str = "",
    commands: Sequence[str] = (),
    doubts: Sequence[str] = (),
) -> None:
    """Write the report of a fitted model, on data if there are any.

    X, u: as for `fit`. source: the name of the data. commands: those that make the report again.
    doubts: sentences on what is wrong with the data, beside what can be seen in them.

    Examples
    --------
    >>> import numpy as np
    >>> from dynacl import DCL, report, simulate
    >>> data = simulate.lds(rng=np.random.default_rng(0), trials=10, steps=100)
    >>> model = DCL(n_components=3, max_iter=10, random_state=0).fit(data)
    >>> report.write("report.html", model, data)  # doctest: +SKIP
    """
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    seen = Portrait.of(model, X, u=u)
    said = [*doubts, *(() if seen.series is None else inspection.doubts(seen.series))]
    about = About(title or source or "A fitted model", source, commands, said, made)
    write_file(path, page(seen, about).encode())


def page(seen: Portrait, about: About) -> str:
    """The whole page, as text."""
    found = {name: make(seen, about) for name, make in SECTIONS.items()}
    parts = {name: part for name, part in found.items() if part is not None}
    links = [
        tag("li", tag("a", name, href=f"#{_identifier(part)}")) for name, part in parts.items()
    ]
    script = Html("\n".join(_file(name) for name in SCRIPTS))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    body = Html(
        _header(seen, about)
        + tag("nav", tag("ul", *links), aria_label="Sections")
        + tag("main", *parts.values())
        + tag("footer", f"Made by dynacl {__version__}, {about.made}.")
    )
    return Template(_file("report.html")).substitute(
        policy=escaped(f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
                       f"script-src 'sha256-{digest}'"),
        generator=f"dynacl {__version__}",
        title=escaped(about.title),
        style=_file("report.css"),
        body=body,
        points=as_json(None if seen.series is None else points(seen)),
        script=script,
    )  # fmt: skip


def _header(seen: Portrait, about: About) -> Html:
    model = seen.model
    of = f"{words.kind(seen)} dynamics of {words.several(model.n_components, 'latent dimension')}"
    on = "" if seen.series is None else (
        f", on {words.several(len(seen.series), 'sample')} of "
        f"{words.several(model.n_features_in_, 'channel')} in "
        f"{words.several(seen.series.n_trials, 'trial')}"
    )  # fmt: skip
    cards = [
        tag("div", tag("dt", card.name),
            tag("dd", card.value, tag("span", card.note, class_="note") if card.note else None))
        for card in words.cards(seen)
    ]  # fmt: skip
    return tag(
        "header",
        tag("h1", about.title),
        tag("p", f"Hidden dynamics, identified by contrastive learning: {of}{on}.", class_="lead"),
        tag("dl", *cards, class_="cards"),
    )


def _identifier(section: Html) -> str:
    """Of a section that begins with its id."""
    return section.split('id="', 1)[1].split('"', 1)[0]


def _file(name: str) -> str:
    return (files("dynacl.report") / "page" / name).read_text(encoding="utf-8")
