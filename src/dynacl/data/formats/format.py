"""Format: what a file format says about itself.

A file holds entries: arrays by name, or the columns of one table. A format says which there are and
reads those that are asked for; what they are to a series, `data.roles` decides for all formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple

from dynacl.data.arrays import Array
from dynacl.data.errors import InputError

HARMLESS = 1 << 24  # bytes, however small the file that they come from
DENSEST = 200  # times that data are larger than their file, at most; counts of spikes reach 50
NUMBERS, TEXT, DATES, OTHER = "fiub", "U", "M", "O"  # kinds of entries, as numpy names them


class Entry(NamedTuple):
    """One array in a file, or one column of its table."""

    name: str
    shape: tuple[int, ...]
    kind: str  # one letter of NUMBERS, TEXT, DATES or OTHER, which cannot be read


class Format(ABC):
    """A file format: what it must say is `entries` and `read`; what it may say is the rest."""

    table: ClassVar[bool] = False  # whether entries are the columns of one table
    apart: ClassVar[bool] = False  # whether a damaged file may crash its library (see `apart`)
    libraries: ClassVar[tuple[str, ...]] = ()  # that it imports as it reads, where that is apart
    room: ClassVar[int] = 1 << 26  # bytes for a library that reads apart, whatever the file
    alone: ClassVar[bool] = False  # whether it holds one array, and nothing beside it
    extra: ClassVar[str] = ""  # of this package, which installs what the format needs

    @abstractmethod
    def entries(self, path: Path) -> list[Entry]:
        """What is inside, without reading it all.

        Arrays that belong to another named "y" are "y.times", "y.names" and "y.bounds".
        What is wrong with the file as such is an InputError, or an error of its library.
        """

    @abstractmethod
    def read(self, path: Path, names: Sequence[str]) -> dict[str, Array]:
        """These entries, and nothing else is parsed. Values need no check here."""

    def write(self, file: BinaryIO, arrays: Mapping[str, Array], main: str) -> None:
        """Write results: all arrays, or a table by `columns_of`, or arrays[main] alone.

        Some rows at a time: arrays may lie on a disk, and be larger than memory. The file is open,
        and takes its place when it is whole.
        """
        raise InputError("out: this format can be read, but not written")


def may_become(stored: int) -> int:
    """Bytes of numbers that a file of so many may hold. One with more is meant to do harm."""
    return max(HARMLESS, DENSEST * stored)


def check_honest(path: Path, size: int) -> None:
    """That a small file does not fill the memory with so many bytes of numbers."""
    stored = path.stat().st_size
    if size > may_become(stored):
        raise InputError(f"{path}: its {stored:,} bytes would become {size:,}; wanted at most "
                         f"{DENSEST} times as many, or a file without compression")  # fmt: skip


def columns_of(arrays: Mapping[str, Array], main: str) -> dict[str, Array]:
    """Results as the columns of a table, for formats that hold one: one row per row of `main`.

    Vectors come first, then tables with their columns side by side. "names" are those of the
    columns of `main` (else x1, x2, …); a table beside it adds its own, such as a_lower. "bounds"
    are left out: a column "trial" says the same.
    """
    rows, width = arrays[main].shape
    names = [str(n) for n in arrays.get("names", [f"x{i + 1}" for i in range(width)])]
    beside = {k: v for k, v in arrays.items() if k not in ("bounds", "names") and len(v) == rows}
    found = {k: v for k, v in beside.items() if v.ndim == 1}
    names = [f"{main}_{name}" if name in found else name for name in names]
    for i, name in enumerate(names):
        for key, table in beside.items():
            if table.ndim == 2:
                found[name if key == main else f"{name}_{key}"] = table[:, i]
    return found
