"""The C kernel: compiled once, kept in the user's cache, and checked before it is loaded.

The name of a kept file holds a hash of what it was compiled from and for, and one of its content:
what was cut or changed since is compiled again. To load it would end the process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from dynacl.writing import remove_leftovers, write

_SOURCE = Path(__file__).with_name("kernel.c")
# Not -ffast-math: skipped pairs and NaN need IEEE rules, and the kernel relies on exact rounding.
_FLAGS = ["-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
_FLAGS += ["-fPIC", "-shared"]
# The first that the compiler understands.
_TUNING: tuple[list[str], ...] = (["-march=native"], ["-mcpu=native"], [])
_DIGITS = 32  # of each hash


def load() -> ctypes.CDLL:
    """The kernel, from the cache or compiled now; OSError where that cannot be."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise OSError("no C compiler found")
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    made_of = _hash(b"\0".join([_SOURCE.read_bytes(), repr(_FLAGS).encode(), version, _cpu()]))
    folder = _cache_folder()
    if folder is not None and (kept := _kept(folder, made_of)) is not None:
        return ctypes.CDLL(str(kept))
    with tempfile.TemporaryDirectory() as temporary:  # the file may go once it is loaded
        path = _compiled(compiler, Path(temporary) / f"{made_of}.so")
        if folder is not None:
            content = path.read_bytes()
            with suppress(OSError):  # a full disk: compiled again the next time
                write(folder / f"{made_of}-{_hash(content)}.so", content)
        return ctypes.CDLL(str(path))


def _kept(folder: Path, made_of: str) -> Path | None:
    """A kernel in the cache that is as it was written; those that are not are removed."""
    with suppress(OSError):
        remove_leftovers(folder)
        for path in folder.glob(f"{made_of}-*.so"):
            if path.stem == f"{made_of}-{_hash(path.read_bytes())}":
                return path
            path.unlink()
    return None


def _compiled(compiler: str, path: Path) -> Path:
    for tuning in _TUNING:
        command = [compiler, *_FLAGS, *tuning, "-o", str(path), str(_SOURCE), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return path
    raise OSError(f"compilation failed: {done.stderr}")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _cpu() -> bytes:
    """What -march=native depends on; a cache in a shared home is used by different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        kept = [x for x in lines if x.startswith(("model", "flags", "Features", "CPU"))]
    except OSError:
        kept = []
    return "\n".join([platform.machine(), platform.processor(), *kept]).encode()


def _cache_folder() -> Path | None:
    """Where compiled kernels stay: a folder that only we can write to; None if there is none."""
    try:
        # A RuntimeError: no HOME, and a user whom the system does not know.
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(root) / "dynacl"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        shared = status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return folder if not shared and os.access(folder, os.W_OK) else None
    except (OSError, AttributeError, RuntimeError):
        return None
