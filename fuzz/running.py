"""Runs a reader on inputs by number, in a child process, and says what went wrong."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynacl import InputError
from fuzz.readers import Reader

SECONDS = 2.0  # of the processor, for one input
MEMORY = 64 << 20  # bytes that a reader may take beyond what it took before …
TIMES = 50  # … and as many times the size of its input
AT_MOST = 4 << 30  # bytes of addresses beyond those at the start, so that a mistake stays small
ENDLESS = 30  # seconds of the processor after which an input is taken to have no end
LATE = 0.5  # seconds of it that a limit may come late, and a process takes to end


@dataclass
class Tally:
    """What became of the inputs of one reader."""

    refused: int = 0
    accepted: int = 0
    crashed: int = 0
    slowest: float = 0.0
    most_memory: int = 0
    wrong: list[tuple[int, str]] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        return self.refused + self.accepted + self.crashed + len(self.wrong)

    def add(self, i: int, told: dict[str, Any]) -> None:
        self.slowest = max(self.slowest, told.get("seconds", 0.0))
        self.most_memory = max(self.most_memory, told.get("memory", 0))
        if told["what"] == "refused":
            self.refused += 1
        elif told["what"] == "accepted":
            self.accepted += 1
        elif told["what"] == "crashed":
            self.crashed += 1
        else:
            self.wrong.append((i, told["what"]))


def one(reader: Reader, i: int, place: Path) -> dict[str, Any]:
    """Input number i: refused, accepted, or what is wrong with how it was read."""
    exact = reader.write(place, np.random.default_rng([i]))
    size = sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
    before, started = _most_memory(), _processor()
    what = "accepted"
    try:
        said = reader.read(place)
        if exact and said != reader.original(place):
            what = "accepted, and is not what was written"
    except InputError as error:
        what = "refused"
        if "\n" in str(error) or len(str(error)) > 2000:
            what = f"refused in more than one sentence: {str(error)[:200]!r}"
    except Exception:
        what = traceback.format_exc(limit=-3)
    told = {"what": what, "seconds": _processor() - started, "memory": _most_memory() - before}
    if what in ("accepted", "refused"):
        if told["seconds"] > SECONDS:
            told["what"] = f"{what} after {told['seconds']:.1f} s"
        if told["memory"] > max(reader.room(place), MEMORY + TIMES * size):
            told["what"] = f"{what} with {told['memory'] >> 20} MB for {size} bytes"
    return told


def many(reader: Reader, first: int, last: int, place: Path, keep: Path | None = None) -> Tally:
    """Inputs first to last − 1. Where the child process dies, the next one goes on after it.

    keep: a folder for the inputs that crash, or are wrong in another way.
    """
    tally = Tally()
    while first < last:
        end = first + 1 if reader.alone else last
        for i, told in _told_by_a_child(reader, first, end, place, keep):
            tally.add(i, told)
            first = i + 1
    return tally


def _told_by_a_child(
    reader: Reader, first: int, last: int, place: Path, keep: Path | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """What became of each input. Of each there are two lines: when it begins, and what it was."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        _child(reader, first, last, place, keep, into)
    os.close(into)
    i, begun = first, 0.0
    with os.fdopen(out) as lines:
        for told in map(json.loads, lines):
            if "begun" in told:
                begun = told["begun"]
                continue
            yield i, told
            i += 1
    _, status, used = os.wait4(child, 0)
    if i < last:
        _keep(place, keep, i)
        name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "an exit"
        seconds = used.ru_utime + used.ru_stime - begun
        what = f"the process ended by {name}"
        if reader.may_crash:
            late = seconds > max(SECONDS, reader.seconds(place)) + LATE
            what = f"{what} after {seconds:.1f} s" if late else "crashed"
        yield i, {"what": what, "seconds": seconds}


def _child(
    reader: Reader, first: int, last: int, place: Path, keep: Path | None, into: int
) -> None:
    try:
        # A child has the addresses of its parent, which may be many: libraries map far more than
        # they touch.
        limit = _addresses() + AT_MOST
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with os.fdopen(into, "w") as pipe:
            for i in range(first, last):
                end = int(sum(os.times()[:2])) + ENDLESS
                resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
                pipe.write(json.dumps({"begun": _processor()}) + "\n")
                pipe.flush()
                told = one(reader, i, place)
                if told["what"] not in ("refused", "accepted"):
                    _keep(place, keep, i)
                pipe.write(json.dumps(told) + "\n")
                pipe.flush()
    finally:
        os._exit(0)


def _keep(place: Path, folder: Path | None, i: int) -> None:
    """The input, for whoever wants to look at it: some originals have a date or an id inside."""
    if folder is not None:
        shutil.copytree(place, folder / str(i), dirs_exist_ok=True)


def _processor() -> float:
    """Seconds of the processor, of this process and the children that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _addresses() -> int:
    """Bytes of addresses that this process has mapped, touched or not."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
