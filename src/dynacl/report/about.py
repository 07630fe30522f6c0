"""Where a report comes from, and the frame of its sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynacl.report.markup import Html, tag


@dataclass(frozen=True)
class About:
    """Where a report comes from: what a model and its data do not know themselves."""

    title: str
    source: str = ""  # of the data, as the user named it
    commands: Sequence[str] = ()  # that make the report again
    doubts: Sequence[str] = ()  # what is wrong with the data
    made: str = ""  # when


def section(name: str, title: str, *parts: Any) -> Html:
    return tag("section", tag("h2", title), *parts, id=name)
