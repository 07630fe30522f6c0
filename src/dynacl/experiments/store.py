"""Results in a folder: a JSON file per fit, by name, and its arrays beside it. Damage is seen.

A result holds a checksum of itself and one of its arrays, and its name is the hash of its
configuration. One that does not agree with them is not used: to readers it is missing, and a sweep
sets it aside and runs its fit again.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dynacl.data import Array, InputError
from dynacl.experiments import plan
from dynacl.experiments.fitting import Outcome
from dynacl.persistence import to_json
from dynacl.writing import remove_leftovers, write

Record = dict[str, Any]
STATES = {"done": ("metrics", dict), "failed": ("error", str)}  # and what each comes with
# Results of older versions have no checksum. What else is unknown here was not written by us.
KNOWN = {
    "arrays", "checksum", "config", "dynacl", "error", "finished", "fit_seconds", "label",
    "machine", "metrics", "name", "seconds", "sources", "state", "torch", "traceback",
}  # fmt: skip


class DamagedError(Exception):
    """A result that is not as it was written; the text says why."""


class Store:
    """Results in a folder, by name."""

    def __init__(self, out: Path) -> None:
        self.runs = Path(out) / "runs"
        remove_leftovers(self.runs)

    def get(self, name: str) -> Record | None:
        """The result of this name; None where there is none that can be trusted."""
        try:
            return self._record(name)
        except DamagedError:
            return None

    def arrays(self, name: str) -> dict[str, Array]:
        """The arrays of a result; none where it has none, or they are damaged."""
        try:
            return self._arrays(name)
        except DamagedError:
            return {}

    def damage(self, name: str) -> str:
        """What is wrong with the result of this name; empty where it is whole or missing."""
        try:
            self._arrays(name)
        except DamagedError as error:
            return str(error)
        return ""

    def set_aside(self, name: str) -> list[Path]:
        """Move a result out of the way, for whoever wants to look at it; gives its new places."""
        moved = []
        for path in (self.runs / f"{name}.json", self.runs / f"{name}.npz"):
            if path.exists():
                moved.append(path.with_name(f"{path.name}.damaged"))
                os.replace(path, moved[-1])
        return moved

    def check_writable(self) -> None:
        """That results can be kept, before any of them is computed."""
        self.runs.mkdir(parents=True, exist_ok=True)
        if not os.access(self.runs, os.W_OK):
            raise InputError(f"{self.runs}: cannot be written to")

    def put(self, name: str, outcome: Outcome, label: str = "") -> None:
        """The arrays first: where there is a .json, all is there."""
        self.runs.mkdir(parents=True, exist_ok=True)
        config = {k: v for k, v in outcome.record["config"].items() if k != "where"}
        record = outcome.record | {"name": name, "config": config, "label": label}
        if outcome.arrays:
            file = io.BytesIO()
            np.savez(file, **outcome.arrays)  # type: ignore[arg-type]
            record["arrays"] = hashlib.sha256(file.getbuffer()).hexdigest()
            write(self.runs / f"{name}.npz", file.getvalue())
        # As a reader will see it: tuples are lists there, and what is not finite is null.
        record = json.loads(to_json(record))
        record["checksum"] = checksum(record)
        text = to_json(record, indent=1, sort_keys=True)
        write(self.runs / f"{name}.json", (text + "\n").encode())

    def state(self, name: str) -> str:
        record = self.get(name)
        return "missing" if record is None else str(record["state"])

    def names(self) -> list[str]:
        """Of all results, also of damaged ones."""
        return sorted(path.stem for path in self.runs.glob("*.json"))

    def records(self) -> Iterator[Record]:
        for name in self.names():
            found = self.get(name)
            if found is not None:
                yield found

    def repeats(self) -> tuple[list[int], list[int]]:
        """Numbers of the data sets and seeds of all results."""
        configs = [r["config"] for r in self.records()]
        datasets = sorted({c["data"]["dataset"] for c in configs})
        return datasets, sorted({c["seed"] for c in configs})

    def _record(self, name: str) -> Record | None:
        content = _content(self.runs / f"{name}.json")
        if content is None:
            return None
        try:
            record = json.loads(content)
        except (ValueError, RecursionError) as error:  # bad text, bad JSON, a number without end
            raise DamagedError(f"is not valid JSON: {str(error).splitlines()[0]}") from error
        _check(record, name)
        return dict(record)

    def _arrays(self, name: str) -> dict[str, Array]:
        record = self._record(name)
        content = None if record is None else _content(self.runs / f"{name}.npz")
        wanted = None if record is None else record.get("arrays")
        if content is None:
            if wanted is not None:
                raise DamagedError("lacks its arrays")
            return {}
        if wanted is not None and hashlib.sha256(content).hexdigest() != wanted:
            raise DamagedError("its arrays are not those that were written")
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as loaded:
                return {k: loaded[k] for k in loaded.files}
        except Exception as error:  # of an older version, without a checksum: it can be anything
            raise DamagedError(f"its arrays cannot be read: {error}") from error


def checksum(record: Record) -> str:
    """Of all that a record says, in whatever order."""
    rest = {k: v for k, v in record.items() if k != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _check(record: Any, name: str) -> None:
    if not isinstance(record, dict):
        raise DamagedError(f"holds a {type(record).__name__}; wanted a result")
    if record.keys() - KNOWN:
        raise DamagedError(f"has unknown parts: {', '.join(sorted(record.keys() - KNOWN))[:80]}")
    if "arrays" in record and "checksum" not in record:  # older results have neither
        raise DamagedError("is not what was written: it has no checksum")
    if "checksum" in record and record["checksum"] != checksum(record):
        raise DamagedError("is not what was written: its checksum differs")
    config, state, seconds = (record.get(part) for part in ("config", "state", "seconds"))
    if not isinstance(config, dict) or plan.name(config) != name:
        raise DamagedError("is the result of another configuration than its name says")
    if state not in STATES:
        raise DamagedError(f"its state is {state!r:.40}; wanted {' or '.join(STATES)}")
    part, kind = STATES[state]
    if not isinstance(record.get(part), kind):
        raise DamagedError(f"is {state}, but lacks its {part}")
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise DamagedError("does not say how many seconds it took")


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise DamagedError("is a folder") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
