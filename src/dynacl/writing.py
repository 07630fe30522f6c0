"""Files that are written whole or not at all.

A file is written beside its place, flushed to the disk and renamed into it, so a crash or a full
disk leaves the old file. What a killed process left beside a file is removed at the next start.
"""

from __future__ import annotations

import errno
import io
import math
import os
import platform
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:  # not POSIX: nothing is locked, and nothing that is left is removed
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
FULL = (errno.ENOSPC, errno.EDQUOT)
SMALL = 1 << 24  # bytes: an array of fewer is kept in memory
_KEPT = 200  # characters of a file's name: with more behind it, it may get too long
_TRIES = 100  # to make a file that a process which is just starting does not take for a leftover


class InUseError(OSError):
    """A folder that another process works in."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file, open for writing and reading, that takes the place of `path` when it is whole.

    Where the block raises, what was at `path` stays. A link is followed, the mode of the file that
    was there is kept.
    """
    path = Path(os.path.realpath(path))
    file, beside = _open_beside(path)
    try:
        with file:
            with suppress(FileNotFoundError):
                os.chmod(beside, path.stat().st_mode & 0o7777)
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(beside, path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error  # says which disk
        raise
    sync_folder(path.parent)


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file in one step."""
    with replacing(path) as file:
        file.write(content)


def save_figure(figure: Any, path: Path, dpi: int = 150) -> None:
    """A matplotlib Figure, in the format that the suffix says."""
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=dpi)


def as_svg(figure: Any, **how: Any) -> str:
    """A matplotlib Figure as text; no file is written."""
    text = io.StringIO()
    figure.savefig(text, format="svg", **how)
    return text.getvalue()


def room_on_disk(folder: Path, shape: tuple[int, ...], kind: Any) -> Any:
    """An array to be filled, on the disk of this folder, in a file without a name.

    It may be larger than memory, and is gone however the process ends. Its room is taken now: a
    disk that is too full says so before any work, where a memory map would end the process.
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    if size <= SMALL:
        return np.empty(shape, kind)
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            _take(file, size)
        except OSError as error:
            if error.errno in FULL:
                said = f"{error.strerror}: wanted {size / 1e6:,.0f} MB for a while"
                raise OSError(error.errno, said, str(folder)) from error
            raise
        return np.asarray(np.memmap(file, kind, "r+", shape=shape))


def _take(file: Any, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, SMALL):
        file.write(bytes(min(SMALL, size - start)))
    file.flush()


def is_empty(folder: Path) -> bool:
    """Whether nothing is in it but what a killed process may have left."""
    return all(
        path.name == LOCK or (path.name.startswith(".") and path.suffix == ".tmp")
        for path in folder.iterdir()
    )


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left in a folder while they wrote: this file, or any."""
    if fcntl is None:
        return
    for path in folder.glob(f".{'*' if name is None else escape(name[:_KEPT])}.*.tmp"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused: it is being written now
            path.unlink()


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Have a folder alone: a second process is refused, with the first one's number and start.

    The system frees what a dead process had claimed, so what it left is not in the way. Where the
    file system knows no locks, nothing is refused.
    """
    file = _lock(folder / LOCK)
    try:
        file.seek(0)
        file.truncate()
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} on {platform.node()}, since {started}".encode())
        file.flush()
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        file.close()


def _lock(path: Path) -> BinaryIO:
    """The file, open and locked; made anew where its owner has just removed it."""
    while True:
        file = path.open("a+b")
        if fcntl is None:
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read(200).decode(errors="replace") or "another process"
            file.close()
            raise InUseError(f"{path.parent}: is in use by {owner}") from None
        except OSError:
            return file  # a file system without locks
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def sync_folder(folder: Path) -> None:
    """Have the names in a folder outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot do that
            raise
    finally:
        os.close(handle)


def _open_beside(path: Path) -> tuple[BinaryIO, Path]:
    """A new file in the same folder, locked for as long as it is open."""
    for _ in range(_TRIES):
        beside = path.with_name(f".{path.name[:_KEPT]}.{secrets.token_hex(4)}.tmp")
        try:
            file = beside.open("x+b")
        except OSError as error:  # said of the file that was meant
            raise type(error)(error.errno, error.strerror, str(path)) from error
        if fcntl is None:
            return file, beside
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # not removed before it was locked
            return file, beside
        file.close()
    raise OSError(
        f"{path}: cannot be written: files beside it are removed as soon as they are made"
    )
