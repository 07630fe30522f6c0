"""Reading in a process of its own.

Libraries in C can be crashed by a damaged file, and a crash cannot be caught. So the formats that
rest on them are asked in a child process, which may die; what it has read comes back as plain
arrays.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError
from dynacl.data.formats.format import Entry, Format, may_become

REFUSED = 3  # the exit code of a child that says why
SIGPROF = getattr(signal, "SIGPROF", None) or 0  # not on every system
SECONDS = 2.0  # of the processor for any file, …
STEEP, ENOUGH = 20.0, 60.0  # … more for each megabyte, until it is so much more, …
PER_MEGABYTE = 1.0  # … and as much for each, however many
COPIES = 4  # of what is read, at most, that a library and we hold at once
# Each thread of a library takes memory, touched or not: on a machine of many, more than a file may.
THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "4",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def entries(format: Format, path: Path) -> list[Entry]:
    """`format.entries(path)`, as a child process found it."""
    found = json.loads(str(_asked(format, path, None)["entries"]))
    return [Entry(name, tuple(shape), kind) for name, shape, kind in found]


def read(format: Format, path: Path, names: Sequence[str]) -> dict[str, Array]:
    """`format.read(path, names)`, as a child process found it."""
    found = _asked(format, path, names)
    return {name: found[str(i)] for i, name in enumerate(names)}


def _asked(format: Format, path: Path, names: Sequence[str] | None) -> dict[str, Array]:
    kind = type(format)
    question = json.dumps([kind.__module__, kind.__qualname__, str(path.resolve()), names])
    env = os.environ | THREADS
    env["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
    with tempfile.TemporaryFile() as out:
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import _answer; _answer()"],
            input=question.encode(),
            stdout=out,
            stderr=subprocess.PIPE,
            env=env,
        )
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        if done.returncode == REFUSED:
            raise InputError(said)
        if done.returncode:
            how = "found no end of it" if done.returncode == -SIGPROF else "crashed on it"
            raise InputError(f"{path}: cannot be read: damaged; its library {how}")
        out.seek(0)
        with np.load(out, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


def _answer() -> None:
    """In the child: one question on standard input, arrays on standard output."""
    from importlib import import_module

    from dynacl.data.formats.failing import refused_in_one_sentence

    module, name, path, names = json.loads(sys.stdin.read())
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an array
    format: Format = getattr(import_module(module), name)()
    try:
        with refused_in_one_sentence(Path(path), format):
            for library in format.libraries:  # before: their own time and room are not the file's
                with suppress(ModuleNotFoundError):
                    import_module(library)
            bound_memory(format, Path(path))
            bound_time(Path(path))
            if names is None:
                found = {"entries": np.array(json.dumps(format.entries(Path(path))))}
            else:
                values = format.read(Path(path), names)
                found = {str(i): np.asarray(values[n]) for i, n in enumerate(names)}
            if any(array.dtype.hasobject for array in found.values()):
                raise InputError(f"{path}: holds objects, which are never loaded")
            with out:
                np.savez(out, **found)  # type: ignore[arg-type]
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)


def most(format: Format, path: Path) -> int:
    """Bytes that it may take to read this file, its libraries loaded."""
    return format.room + COPIES * may_become(path.stat().st_size)


def bound_memory(format: Format, path: Path) -> None:
    """Have this process take no more from here on: what asks for more is told that there is none.

    A small file fills no memory, whatever it says of its sizes.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # no Linux: what the limit is of differs
        return
    now = int(status.partition("VmData:")[2].split()[0]) << 10  # also what it has not touched
    import resource

    hard, at_most = resource.getrlimit(resource.RLIMIT_DATA)[1], now + most(format, path)
    if hard == resource.RLIM_INFINITY or at_most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (at_most, hard))


def longest(path: Path) -> float:
    """Seconds of the processor that it may take to read this file, its libraries loaded.

    About ten times what whole files take: NWB keeps its own specification, 0.8 s in 150 kB.
    """
    megabytes = path.stat().st_size / 1e6
    return SECONDS + min(ENOUGH, STEEP * megabytes) + PER_MEGABYTE * megabytes


def bound_time(path: Path) -> None:
    """Have this process end when it has worked on this file for far too long from here on."""
    if SIGPROF:
        signal.setitimer(signal.ITIMER_PROF, longest(path))
