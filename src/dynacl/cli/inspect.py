"""`dynacl inspect`: what is in a file, what would be used, and what looks wrong with it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynacl.cli.options import add_data, add_shared
from dynacl.cli.wording import flags_of, typed
from dynacl.data.roles import Keys

if TYPE_CHECKING:
    from dynacl.inspection import Inspection

EXAMPLE = """\
dynacl inspect recording.mat
dynacl inspect recording.csv --control-key force --label-key action --json"""
SHOWN = 40  # entries that are listed; JSON has all
KINDS = {"f": "numbers", "i": "whole numbers", "u": "whole numbers", "b": "yes or no",
         "U": "text", "M": "dates"}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_shared(parser, "--json")


def run(options: argparse.Namespace) -> None:
    from dynacl.inspection import inspect, summary

    keys = Keys(options.key, options.control_key, options.label_key, options.trial_key,
                options.time_key)  # fmt: skip
    found = inspect(Path(options.data), keys, trial_length=options.trial_length,
                    transpose=options.transpose, missing=options.missing,
                    max_gap=options.max_gap)  # fmt: skip
    flags = flags_of(sys.modules[__name__])
    found = found._replace(
        said=[typed(said, flags) for said in found.said],
        error=found.error and typed(found.error, flags),
    )
    used = None if found.series is None else summary(found.series)
    if options.json:
        print(json.dumps(_plain(options.data, found, used)))
        return
    n = len(found.entries)
    print(f"{options.data}: {n} entr{'ies' if n != 1 else 'y'}")
    width = max((len(entry.name) for entry in found.entries[:SHOWN]), default=0)
    for entry in found.entries[:SHOWN]:
        size = " × ".join(map(str, entry.shape)) or "one value"
        kind = KINDS.get(entry.kind, "cannot be read")
        print(f"  {entry.name:<{width}}  {size:<12} {kind:<14} {found.role(entry.name)}".rstrip())
    if len(found.entries) > SHOWN:
        print(f"  … and {len(found.entries) - SHOWN} more")
    if used is not None:
        print(f"Would be used: {_sentence(used)}.")
    for said in found.said:
        print(f"! {said.removeprefix(f'{options.data}: ')}")
    if found.error is not None:
        print(f"Cannot be used so: {found.error.removeprefix(f'{options.data}: ')}.")


def _sentence(used: dict[str, Any]) -> str:
    lengths = f"{used['shortest']} to {used['longest']}"
    if used["shortest"] == used["longest"]:
        lengths = str(used["longest"])
    trials = "one trial" if used["trials"] == 1 else f"{used['trials']} trials of {lengths}"
    features = f"{used['features']} feature{'s' * (used['features'] > 1)}"
    parts = [f"{used['steps']} steps of {features} in {trials}"]
    if used["interval"] is not None:
        parts.append(f"one step each {used['interval']:.4g} s")
    if used["controls"]:
        named = f" ({', '.join(used['control_names'])})" if used["control_names"] else ""
        parts.append(f"{used['controls']} control input{'s' * (used['controls'] > 1)}{named}")
    parts += [f"label {name} ({kind})" for name, kind in used["labels"].items()]
    if used["truth"]:
        parts.append("the truth that a simulator knows")
    return "; ".join(parts)


def _plain(data: str, found: Inspection, used: dict[str, Any] | None) -> dict[str, Any]:
    listed = [
        {"name": e.name, "shape": e.shape, "kind": KINDS.get(e.kind), "role": found.role(e.name)}
        for e in found.entries
    ]
    return {"file": data, "entries": listed, "used": used, "warnings": found.said,
            "error": found.error}  # fmt: skip
