"""Messages of the library, in the words of the command line: `--key` and not `key`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from types import ModuleType


def flags_of(command: ModuleType) -> dict[str, str]:
    """The options of a command, by the names that they have in Python."""
    alone = argparse.ArgumentParser(add_help=False)
    command.add_arguments(alone)
    found = {a.dest: min(a.option_strings, key=len) for a in alone._actions if a.option_strings}
    if "control_key" in found:  # so it reads data
        found |= {"X": "DATA", "u": found.get("control", found["control_key"])}
    return found


def typed(text: str, flags: Mapping[str, str]) -> str:
    """What the library says of its arguments, said of the options that a user types.

    `key: got …` is `--key: got …`, `missing="split"` is `--missing split`, `X: …` is `DATA: …`.
    """

    def option(found: re.Match[str]) -> str:
        values = " | ".join(re.findall(r'"(\w+)"', found["values"])) or found["values"]
        return f"{flags[found['name']]} {values}"

    names = "|".join(map(re.escape, flags))
    inputs = r"(pass u, or )?TimeSeries\.of\(X, (past_)?u\) as X"
    text = re.sub(inputs, lambda given: "pass --control-key" if given[1] else "--control-key", text)
    text = re.sub(r"TimeSeries\.of\(X, ([^()]*)\)", r"\1", text)
    text = re.sub(r"\bpass X\.T\b", "--transpose", text)
    values = r'"\w+"(?: \| "\w+")*|…'
    text = re.sub(rf"\b(?P<name>{names})=(?P<values>{values})", option, text)
    return re.sub(rf"^({names})(?=: )", lambda found: flags[found[1]], text)
